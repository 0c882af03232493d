"""``smcp hosts``: which hosts there are, what they have, and how they reach it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from supervisord_mcp.cli.output import console, print_json, print_table, printable
from supervisord_mcp.cli.parameters import AsJson, Project
from supervisord_mcp.cli.person import Hosts, person

if TYPE_CHECKING:
    from supervisord_mcp.adoption.gathering import Gathered, Person
    from supervisord_mcp.adoption.survey import Drift
    from supervisord_mcp.hosts.catalogue import Presence
    from supervisord_mcp.hosts.entry import HostEntry


def hosts(names: Hosts = None, *, project: Project = None, as_json: AsJson = False) -> None:
    """Show the hosts on this machine, their servers, and which of them run through smcp.

    Below: servers that several hosts start for themselves, secrets that stand in the open, and what changed in files
    that were adopted. Nothing is changed, and no daemon is needed. With daemon.watch_hosts in the configuration a
    running daemon sees such changes itself: smcp status names them, and nothing is done before you confirm it in smcp
    adopt.
    """
    from supervisord_mcp.adoption.gathering import drifted, gather
    from supervisord_mcp.adoption.records import Records

    whose = person(project)
    gathered = gather(whose, tuple(names or ()))
    records = [one for one in Records.of(whose.paths).adopted() if not names or one.host in names]
    drift = drifted(whose, records)
    found = _report(whose, gathered, drift)
    if as_json:
        print_json(msgspec.json.encode(found))
    else:
        _print(found)


def _report(whose: Person, gathered: Gathered, drift: Sequence[Drift]) -> dict[str, Any]:
    from supervisord_mcp.adoption import survey

    present = [one for one in gathered.found if one.installed or one.files]
    return {
        "hosts": [_host(whose, gathered, one) for one in present],
        "duplicates": [
            [{"host": entry.host, "file": str(entry.file), "name": entry.name} for entry in group]
            for group in survey.duplicates(gathered.entries, gathered.rules)
        ],
        "drift": [
            {
                "host": one.host,
                "file": str(one.file),
                "name": one.name,
                "change": one.change.name.lower(),
                "text": one.text,
                "remedy": one.remedy,
            }
            for one in drift
        ],
    }


def _host(whose: Person, gathered: Gathered, one: Presence) -> dict[str, Any]:
    from supervisord_mcp.adoption.gathering import elsewhere
    from supervisord_mcp.config.trust import Trust
    from supervisord_mcp.hosts.entry import Scope

    trust = Trust.of(whose.paths)
    files = []
    for reading in gathered.readings:
        if reading.file.host is not one.host:
            continue
        path = reading.file.path
        files.append(
            {
                "path": str(path),
                "scope": reading.file.scope.value,
                "trust": trust.standing(path) if reading.file.scope is Scope.PROJECT else None,
                "elsewhere": elsewhere(reading.file) or None,
                "problems": list(map(str, reading.problems)),
                "servers": [_entry(entry, here=not elsewhere(reading.file)) for entry in reading.entries],
            }
        )
    return {"host": one.host.key, "title": one.host.title, "installed": one.installed, "files": files}


def _entry(entry: HostEntry, *, here: bool) -> dict[str, Any]:
    """Describe an entry; of one that is not started ``here`` nobody knows whether its smcp is there."""
    from supervisord_mcp.adoption.shims import gone_program
    from supervisord_mcp.adoption.survey import Way, tokens, way

    how, server = way(entry)
    return {
        "name": entry.name,
        "line": entry.line,
        "scope": entry.scope.value,
        "way": how.name.lower(),
        "server": server or None,
        "gone": (gone_program(entry.words) if how is Way.THROUGH and here else "") or None,
        "disabled": entry.disabled,
        "tokens": tokens(entry),
        "unresolved": [one.told for one in entry.unresolved],
    }


def _print(found: dict[str, Any]) -> None:
    rows: list[tuple[str, str, str, str]] = []
    notes: list[list[str]] = []
    for host in found["hosts"]:
        for file in host["files"] or [{"path": "-", "servers": (), "problems": (), "trust": None, "elsewhere": None}]:
            shown = [(server["name"], _how(server)) for server in file["servers"]] or [("-", "")]
            for name, how in shown:
                rows.append((host["host"], name, how, file["path"]))
                notes.append([])
            notes[-1] += file["problems"]
            if file["trust"] in ("unknown", "changed") and file["servers"]:
                said = "not trusted" if file["trust"] == "unknown" else "changed since you trusted it"
                notes[-1].append(f"{said}; look at it, then: smcp trust {file['path']}")
            if file["elsewhere"]:
                notes[-1].append(f"started in {file['elsewhere']}, where there is no smcp")
    if not rows:
        console().print("no host was found")
        return
    print_table(("HOST", "SERVER", "RUNS", "FILE"), rows, notes)
    _print_list("started by several hosts, each for itself (smcp adopt lets them share one)", _duplicates(found))
    _print_list("secrets in the open (smcp adopt moves those of variables to the vault)", _tokens(found))
    _print_list("by a smcp that is not there any more (smcp adopt writes them again)", _gone(found))
    _print_list("changed since it was adopted", _drift(found))


def _how(server: dict[str, Any]) -> str:
    texts = {"through": "through smcp", "direct": "by itself", "url": "elsewhere"}
    how = texts[server["way"]]
    if server["server"] and server["server"] != server["name"]:
        how += f" ({server['server']})"
    return f"{how}, disabled" if server["disabled"] else how


def _duplicates(found: dict[str, Any]) -> list[str]:
    return [", ".join(f"{one['name']} of {one['host']}" for one in group) for group in found["duplicates"]]


def _tokens(found: dict[str, Any]) -> list[str]:
    return [
        f"{file['path']}:{server['line']}: {server['name']}: {', '.join(server['tokens'])}"
        for host in found["hosts"]
        for file in host["files"]
        for server in file["servers"]
        if server["tokens"]
    ]


def _gone(found: dict[str, Any]) -> list[str]:
    return [
        f"{file['path']}:{server['line']}: {server['name']}: {server['gone']}"
        for host in found["hosts"]
        for file in host["files"]
        for server in file["servers"]
        if server["gone"]
    ]


def _drift(found: dict[str, Any]) -> list[str]:
    return [one["text"] + (f"; {one['remedy']}" if one["remedy"] else "") for one in found["drift"]]


def _print_list(title: str, lines: list[str]) -> None:
    if not lines:
        return
    console().print(f"\n{title}", style="bold")
    for line in lines:
        console().print(f"  {printable(line)}", soft_wrap=True)
