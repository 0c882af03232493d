"""From what an entry grants to the values that its server is started with, and back to errors that name the grant."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from supervisord_mcp.config.files import keep_file
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.references import SecretReference, parse_reference
from supervisord_mcp.credentials.base import Source, within_async
from supervisord_mcp.credentials.command import CommandSource
from supervisord_mcp.credentials.env import EnvironmentSource
from supervisord_mcp.credentials.file import FileSource
from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.credentials.systemd import SystemdSource
from supervisord_mcp.credentials.vault import Vault
from supervisord_mcp.errors import SecretError
from supervisord_mcp.runtimes.search import find_command, search_path
from supervisord_mcp.shim import home_directory

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Grant:
    """A secret that a server is given: the variable that gets it, and where it is."""

    variable: str
    reference: SecretReference

    def __str__(self) -> str:
        return f"{self.variable} from {self.reference}"


def grants_of(config: ServerConfig) -> tuple[Grant, ...]:
    """Return what a server is granted, in the order of the variables."""
    return tuple(Grant(variable, parse_reference(text)) for variable, text in sorted(config.credentials.items()))


class Credentials:
    """The sources of one process. Values are read anew each time, and kept by nobody but the masker."""

    def __init__(self, paths: Paths, environ: Mapping[str, str], path: Sequence[str] = ()) -> None:
        """``path`` is where commands are searched before PATH."""
        self._environ = environ
        home = home_directory(environ, os.getuid())
        self._use_file = paths.secret_use_file
        self.vault = Vault(paths, environ)
        self.keyring = KeyringSource()
        self._sources: dict[str, Source] = {
            "vault": self.vault,
            "keyring": self.keyring,
            "file": FileSource(home),
            "env": EnvironmentSource(environ),
            "command": CommandSource(
                environ, lambda name: find_command(name, search_path(path, environ, home), environ, home)
            ),
            "systemd": SystemdSource(environ),
        }

    def read(self, reference: SecretReference) -> str:
        """Return the value of a secret, which is masked from now on. Raise `SecretError`, which never holds it."""
        value = self._sources[reference.source].read(reference.name)
        masker.learn(value, str(reference))
        return value

    async def values(self, server: str, grants: Sequence[Grant]) -> dict[str, str]:
        """Return the value of each variable that a server is granted, read side by side.

        Raise `SecretError` with every one that cannot be read, its server, variable, source and remedy.
        """
        found: dict[str, str] = {}
        failures: dict[Grant, SecretError] = {}

        async def read(grant: Grant) -> None:
            try:
                found[grant.variable] = await within_async(lambda: self.read(grant.reference))
            except SecretError as error:
                failures[grant] = error

        async with anyio.create_task_group() as tasks:
            for grant in grants:
                tasks.start_soon(read, grant)
        if failures:
            raise _joined(server, [(grant, failures[grant]) for grant in grants if grant in failures])
        if grants:
            self._note_use(server, grants)
        return found

    async def check(self, server: str, grant: Grant) -> SecretError | None:
        """Return why a server would not get a secret now, or None where it would."""
        try:
            await within_async(lambda: self.read(grant.reference))
        except SecretError as error:
            return refused(server, grant, error)
        return None

    def last_use(self) -> dict[str, float]:
        """Return when each secret was last given to a server, in seconds since the epoch."""
        try:
            found: Any = json.loads(self._use_file.read_bytes())
        except (OSError, ValueError):
            return {}
        known = found.items() if isinstance(found, dict) else ()
        return {name: float(at) for name, at in known if isinstance(at, int | float)}

    def _note_use(self, server: str, grants: Iterable[Grant]) -> None:
        used = self.last_use() | {str(grant.reference): round(time.time(), 3) for grant in grants}
        try:
            keep_file(self._use_file, json.dumps(used, indent=2).encode())
        except OSError as error:
            _log.warning("when server '%s' was given its secrets is not kept: %s", server, error)


def refused(server: str, grant: Grant, error: SecretError) -> SecretError:
    """Return the error that a person reads: which server lacks what, from where, why, and what to do."""
    return SecretError(f"server '{server}' was not given {grant}: {error.message}", remedy=error.remedy)


def _joined(server: str, failures: Sequence[tuple[Grant, SecretError]]) -> SecretError:
    errors = [refused(server, grant, error) for grant, error in failures]
    if len(errors) == 1:
        return errors[0]
    return SecretError("\n".join(map(str, errors)))
