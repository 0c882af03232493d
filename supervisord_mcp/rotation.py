"""What a change of secrets means for what runs: exactly the instances that were given them are restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import anyio

from supervisord_mcp import reasons
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.credentials.base import within_async
from supervisord_mcp.credentials.exposing import learn_stored
from supervisord_mcp.credentials.reading import Credentials, Grant, grants_of
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.protocol.secret_requests import GrantCheck, SecretChangedResult, SecretCheckResult
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.supervisor import Supervisor

#: Instances whose child has its secrets, or is about to be given them. One that stops or sleeps reads them anew when
#: it is started; one that a person stopped stays so.
_HOLDING = frozenset({"STARTING", "RUNNING", "BACKOFF"})
_FAILED = frozenset({"FATAL"})


class Rotation:
    """Carries new values to the servers of one daemon."""

    def __init__(self, supervisor: Supervisor, credentials: Credentials, observers: Observers) -> None:
        self._supervisor = supervisor
        self._observers = observers
        self._credentials = credentials

    async def changed(self, secrets: Iterable[str], *, only_failed: bool = False) -> SecretChangedResult:
        """Restart the instances that use one of these secrets, and wait until they run.

        One that gave up is started as well: the new value may be what it lacked; with ``only_failed`` no other. Raise
        `SmcpError` if one does not start, after all were tried.
        """
        await self._learn()
        wanted = set(secrets)
        states = _FAILED if only_failed else _HOLDING | _FAILED
        instances = self._having(lambda instance: _uses(instance, wanted) and instance.state in states)
        data = {"secrets": sorted(wanted), "restarted": _servers(instances)}
        self._observers.publish(Event("secrets-changed", data=data))
        return await self._restart(instances)

    async def unlock(self, passphrase: str) -> SecretChangedResult:
        """Open the vault, and start again what gave up and uses it. Raise `SecretError` for a wrong passphrase."""
        await within_async(lambda: self._credentials.vault.unlock(passphrase))
        await self._learn()
        instances = self._having(
            lambda instance: (
                instance.state == "FATAL"
                and any(grant.reference.source == "vault" for grant in instance.blueprint.credentials)
            )
        )
        self._observers.publish(Event("vault-unlocked", data={"restarted": _servers(instances)}))
        return await self._restart(instances)

    async def check(self, names: Iterable[str]) -> SecretCheckResult:
        """Try to read what servers are granted, of all where no names are given. Raise `UnknownServerError`."""
        chosen = {name: self._supervisor.server(name) for name in names} or dict(self._supervisor.config.servers)
        return await check(self._credentials, chosen)

    async def _learn(self) -> None:
        """Let no text show what is stored now, whether or not it is granted to anybody."""
        await within_async(lambda: learn_stored(self._credentials.vault))

    def _having(self, concerned: Callable[[ManagedServer], bool]) -> list[ManagedServer]:
        return [instance for instance in self._supervisor.instances if concerned(instance)]

    async def _restart(self, instances: Sequence[ManagedServer]) -> SecretChangedResult:
        for instance in instances:
            instance.restart()
        failures: list[tuple[str, SmcpError]] = []
        for instance in instances:
            try:
                await instance.settled()
            except SmcpError as error:
                failures.append((instance.key.server, error))
        if failures:
            raise reasons.joined(failures, named=True)
        return SecretChangedResult(restarted=tuple(_servers(instances)))


async def check(credentials: Credentials, servers: Mapping[str, ServerConfig]) -> SecretCheckResult:
    """Return for every grant of servers whether it can be read now; each source is given its time, all at once."""
    found: dict[tuple[str, str], GrantCheck] = {}

    async def look(server: str, grant: Grant) -> None:
        error = await credentials.check(server, grant)
        found[server, grant.variable] = GrantCheck(
            server=server,
            variable=grant.variable,
            secret=str(grant.reference),
            problem="" if error is None else error.message,
            remedy="" if error is None else error.remedy,
        )

    async with anyio.create_task_group() as tasks:
        for server, config in servers.items():
            for grant in grants_of(config):
                tasks.start_soon(look, server, grant)
    return SecretCheckResult(grants=tuple(found[key] for key in sorted(found)))


def _servers(instances: Iterable[ManagedServer]) -> list[str]:
    return sorted({instance.key.server for instance in instances})


def _uses(instance: ManagedServer, secrets: set[str]) -> bool:
    return any(str(grant.reference) in secrets for grant in instance.blueprint.credentials)
