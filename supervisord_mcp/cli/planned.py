"""What ``smcp import`` and ``smcp adopt`` would do, and how they show it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, print_error, printable
from supervisord_mcp.cli.person import person
from supervisord_mcp.errors import SmcpError, UsageError

if TYPE_CHECKING:
    from supervisord_mcp.adoption.adopting import Draft, Imported
    from supervisord_mcp.adoption.gathering import Gathered
    from supervisord_mcp.adoption.importing import Left, Plan, Server

_ELSEWHERE: Final = "its servers are started in {}, where there is no smcp"
_COMMITTED: Final = "{}: it will name paths of this machine, so do not commit it"
_MASK: Final = "•••"
#: What may stand before the equals sign of a hidden word.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
#: Keys of an entry that say what a server may do, in the order in which they are shown.
_RIGHTS: Final = ("runtime", "profile", "network", "mounts", "scope")
_NETWORKS: Final = {
    "none": "no network",
    "loopback": "no network",
    "internet": "reach all that is public",
    "host": "share the network of this machine",
}


def planned(hosts: Sequence[str] | None, project: Path | None, network: str | None) -> tuple[Gathered, Plan]:
    """Given what the options say, return what the hosts have and what would be imported of it."""
    from supervisord_mcp.adoption.gathering import gather, known
    from supervisord_mcp.adoption.importing import plan
    from supervisord_mcp.config.fields import check_network

    if network is not None:
        try:
            check_network(network)
        except ValueError as error:
            raise UsageError(f"--network {network}: {error}") from None
    whose = person(project)
    gathered = gather(whose, tuple(hosts or ()), network)
    return gathered, plan(gathered.entries, known(whose.paths, gathered.rules.place), gathered.rules)


def show(gathered: Gathered, plan: Plan) -> None:
    """Show the servers with what they may do, what is left alone and why, and what could not be read."""
    from supervisord_mcp.adoption.gathering import elsewhere

    screen = console()
    for server in plan.servers:
        _show_server(server)
    told = [left for left in plan.left if left.told]
    if told:
        screen.print("left alone", style="bold")
        for left in told:
            _show_left(left)
    for reading in gathered.readings:
        if (where := elsewhere(reading.file)) and reading.entries:
            screen.print(f"  {printable(str(reading.file.path))}: {_ELSEWHERE.format(where)}", soft_wrap=True)
        for problem in reading.problems:
            console(stderr=True).print(printable(str(problem)), soft_wrap=True)


def _show_server(server: Server) -> None:
    from supervisord_mcp.adoption.tokens import secret_words

    screen = console()
    screen.print(server.name, style="bold", end="")
    screen.print("  (there already)" if server.there else "", soft_wrap=True)
    command = list(map(str, server.table["command"]))
    for number in secret_words(command):
        option, equals, _ = command[number].partition("=")
        command[number] = f"{option}={_MASK}" if equals and _NAME.fullmatch(option) else _MASK
    sources = ", ".join(dict.fromkeys(f"{entry.host} {entry.file}:{entry.line}" for entry in server.sources))
    may = [] if server.there else [("may", _rights(server.table))]
    lines = [("runs", " ".join(command)), ("from", sources), *may]
    if server.secrets:
        lines.append(("secrets", f"{', '.join(server.secrets)}: to the vault, granted to this server alone"))
    lines += (("note", remark) for remark in server.remarks)
    for title, text in lines:
        screen.print(f"  {title:<8} {printable(text)}", soft_wrap=True)


def _rights(table: Any) -> str:
    """Return what an entry gives to a server, in words."""
    from supervisord_mcp.config.profiles import find_profiles

    if table.get("runtime") == "bare":
        return "everything that you may do: it is not isolated"
    parts = []
    if "network" not in table:
        given = find_profiles(paths()).effective(table.get("profile", "default")).profile.network
        table = {**table, "network": given if isinstance(given, str) else {"allow": given.allow}}
    for key in _RIGHTS:
        match key, table.get(key):
            case _, None:
                continue
            case "mounts", mounts:
                parts += [f"{'read and write' if one['access'] == 'rw' else 'read'} {one['path']}" for one in mounts]
            case "network", dict() as reach:
                parts.append(f"reach {', '.join(reach['allow'])}")
            case "network", word:
                parts.append(_NETWORKS[word])
            case _, word:
                parts.append(f"{key} {word}")
    return "; ".join([*parts, *([] if table.get("mounts") else ["no files of yours"])])


def _show_left(left: Left) -> None:
    from supervisord_mcp.adoption.survey import place_of

    for told in left.told:
        console().print(f"  {printable(place_of(left.entry))}: {printable(told)}", soft_wrap=True)


def show_drafts(drafts: Iterable[Draft], plan: Plan) -> None:
    """Show the differences in the files and why entries of ours are written again, and what cannot be changed."""
    from supervisord_mcp.adoption.survey import place_of, shown_change
    from supervisord_mcp.hosts.entry import Scope

    for again in plan.again:
        told = f"{place_of(again.entry)}: {again.gone}; it is written again"
        console().print(printable(told), soft_wrap=True)
    secrets = [value for server in plan.servers for value in server.secrets.values()]
    for draft in drafts:
        if draft.reading.file.scope is Scope.PROJECT:
            console().print(printable(_COMMITTED.format(draft.reading.file.path)), soft_wrap=True)
        if draft.change is not None:
            console().print(printable(shown_change(draft.change, secrets)).rstrip("\n"), soft_wrap=True)
        elif draft.trouble is not None:
            error = draft.trouble
            print_error(SmcpError(f"{draft.reading.file.path} stays as it is: {error.message}", remedy=error.remedy))


def tell(imported: Imported) -> bool:
    """Tell what did not go as planned; return whether a server was not imported."""
    for name, error in imported.exposed.items():
        told = f"warning: the secrets of '{name}' stay readable in config.toml (for you alone): {error.message}"
        console(stderr=True).print(printable(told), soft_wrap=True)
    for name, error in imported.failed.items():
        print_error(SmcpError(f"the server '{name}' was not imported: {error.message}", remedy=error.remedy))
    return bool(imported.failed)
