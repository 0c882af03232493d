"""``smcp secret list``, ``check`` and ``grant``: which secrets there are, who is given them, and whether that works."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from supervisord_mcp.cli.client import SLOW, connected, paths, reload_daemon
from supervisord_mcp.cli.output import busy, console, count, print_line, print_table, printable, span
from supervisord_mcp.cli.parameters import AsJson, ServerName, ServerNames
from supervisord_mcp.errors import NoDaemonError, SecretError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from supervisord_mcp.config.models import ServerConfig
    from supervisord_mcp.protocol.secret_requests import SecretCheckResult


def list_secrets(as_json: AsJson = False) -> None:
    """Show the secrets there are, and who is given them.

    Those of the vault, and all that entries name; with the variables of servers that have each, and when it was last
    given to one. Values are never shown.
    """
    from supervisord_mcp.credentials.reading import Credentials

    credentials = Credentials(paths(), os.environ)
    stored, trouble = _stored(credentials)
    used = credentials.last_use()
    rows: dict[str, dict[str, Any]] = {f"vault:{name}": {"servers": []} for name in stored}
    for server, variable, secret in _granted():
        rows.setdefault(secret, {"servers": []})["servers"].append({"name": server, "variable": variable})
    found = [
        {"secret": secret, "stored": _is_stored(secret, stored, trouble), **row, "last_use": used.get(secret)}
        for secret, row in sorted(rows.items())
    ]
    protection = None if trouble else credentials.vault.protection
    if as_json:
        kind = None if protection is None else protection.kind
        print_line(json.dumps({"vault": {"key": kind, "problem": trouble}, "secrets": found}, indent=2))
        return
    if trouble:
        console(stderr=True).print(printable(f"warning: {trouble}"), soft_wrap=True)
    if not found:
        if trouble:
            return
        console().print("no secrets are stored or granted; store one with: smcp secret set NAME", soft_wrap=True)
        return
    now = time.time()
    print_table(("SECRET", "LAST USE", "GIVEN TO"), [_row(row, now) for row in found])


def check(names: ServerNames = None, as_json: AsJson = False) -> None:
    """Try to read every secret that servers are granted.

    The daemon tries if one runs, for it is the one that has to; else this command does, in your environment. The exit
    status is 1 if one of them cannot be read. Nothing is started and no value is shown.
    """
    from supervisord_mcp.config.load import load

    servers = _chosen(load(paths()).config.servers, names)
    with busy("reading secrets"):
        result, who = _checked(servers)
    if as_json:
        grants = [
            {"server": g.server, "variable": g.variable, "secret": g.secret, "problem": g.problem, "remedy": g.remedy}
            for g in result.grants
        ]
        print_line(json.dumps({"read_by": who, "grants": grants}, indent=2, ensure_ascii=False))
    elif not result.grants:
        console().print("no server is granted a secret", soft_wrap=True)
    else:
        rows = [(g.server, g.variable, g.secret, "fails" if g.problem else "ok") for g in result.grants]
        notes = [[g.problem, g.remedy] if g.problem else [] for g in result.grants]
        print_table(("SERVER", "VARIABLE", "SECRET", "READ"), rows, notes)
    if failed := sum(bool(g.problem) for g in result.grants):
        raise SecretError(
            f"{count(failed, 'secret')} of {len(result.grants)} cannot be read by {who}",
            remedy="A server that lacks one does not start; what to do stands below each.",
        )


def grant(
    name: ServerName,
    grants: Annotated[
        list[str],
        typer.Argument(
            help="The variable that gets a secret and where it is; a NAME alone is one of the vault. VARIABLE= takes it"
            " away again.",
            metavar="VARIABLE=[SOURCE:]NAME",
        ),
    ],
) -> None:
    """Grant secrets to a server, or take them away.

    Writes the entry's credentials in the configuration; the file keeps its comments and its order. A daemon that runs
    starts the server anew with what it is granted now.
    """
    from supervisord_mcp.config import edit

    edit.grant_secrets(paths(), name, dict(map(_pair, grants)))
    reload_daemon()


def _pair(text: str) -> tuple[str, str | None]:
    from supervisord_mcp.config.fields import check_variable_name
    from supervisord_mcp.config.references import SOURCES, parse_reference

    variable, equals, name = text.partition("=")
    if not equals:
        # Not quoted: who gets this wrong may have put the secret there.
        raise UsageError("write VARIABLE=SOURCE:NAME, like GITHUB_TOKEN=vault:github")
    if name and name.partition(":")[0] not in SOURCES:
        name = f"vault:{name}"
    try:
        check_variable_name(variable)
        return variable, str(parse_reference(name)) if name else None
    except ValueError as error:
        raise UsageError(f"{printable(variable)}: {error}", remedy="secrets are stored with: smcp secret set") from None


def _stored(credentials: Any) -> tuple[frozenset[str], str]:
    """Return the names in the vault, and what is wrong if they cannot be seen."""
    from supervisord_mcp.cli.secret_values import opened

    try:
        return frozenset(opened(credentials.vault).stored()), ""
    except SecretError as error:
        return frozenset(), f"{error.message}. {error.remedy}"


def _is_stored(secret: str, stored: frozenset[str], trouble: str) -> bool | None:
    """Return whether a secret is in the vault, where that is known."""
    source, _, name = secret.partition(":")
    return None if source != "vault" or trouble else name in stored


def _granted() -> Iterator[tuple[str, str, str]]:
    from supervisord_mcp.config.load import load

    for server, config in sorted(load(paths()).config.servers.items()):
        for variable, secret in sorted(config.credentials.items()):
            yield server, variable, secret


def _row(row: dict[str, Any], now: float) -> tuple[str, str, str]:
    last = "never" if row["last_use"] is None else f"{span(max(0.0, now - row['last_use']))} ago"
    who = ", ".join(f"{server['name']} ({server['variable']})" for server in row["servers"]) or "nobody"
    return row["secret"], last, who + ("; NOT STORED" if row["stored"] is False else "")


def _chosen(servers: Mapping[str, ServerConfig], names: list[str] | None) -> dict[str, ServerConfig]:
    from supervisord_mcp.cli.registered import unknown

    for name in names or ():
        if name not in servers:
            raise unknown(name, servers)
    return {name: servers[name] for name in names or servers}


def _checked(servers: dict[str, ServerConfig]) -> tuple[SecretCheckResult, str]:
    """Return what came of every grant, and who tried."""
    from supervisord_mcp.protocol.secret_requests import SecretCheck, SecretCheckResult

    operation = SecretCheck(names=tuple(servers))
    try:
        with connected() as client:
            return client.ask_for(operation, SecretCheckResult, SLOW), "the daemon"
    except NoDaemonError:
        import anyio

        from supervisord_mcp.credentials.reading import Credentials
        from supervisord_mcp.rotation import check as check_here

        return anyio.run(check_here, Credentials(paths(), os.environ), servers), "this command (no daemon runs)"
