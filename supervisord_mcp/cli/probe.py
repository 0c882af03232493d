"""``smcp probe``: what a server is, and which settings suit it."""

from __future__ import annotations

from typing import Any

import msgspec

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy, console, one_line, print_json, print_table
from supervisord_mcp.cli.parameters import AsJson, Project, ServerName, project_root
from supervisord_mcp.config.values import format_size
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol import control, findings
from supervisord_mcp.protocol.findings import NAMED_BY, Finding, ProbeResult

#: How many names of a list are shown.
_SHOWN = 8


def probe(name: ServerName, project: Project = None, as_json: AsJson = False) -> None:
    """Find out what a server is, and which settings suit it.

    Starts it a few times, aside from the one that hosts use, in the same sandbox: in both eras of the protocol, as a
    client that can do nothing and as one that can be asked. No tool is called. Nothing is left running.
    """
    operation = control.Probe(name=name, project=project_root(project))
    with connected(start=True) as client, busy(f"probing {name}"):
        raw = client.ask(operation, SLOW)
    found = control.parse_result(raw, ProbeResult)
    if as_json:
        print_json(raw)
    else:
        for finding in found.findings:
            _show(finding)
        _suggest(found)
    if not any(finding.spoken for finding in found.findings):
        raise SmcpError(f"server '{name}' speaks neither era of MCP", remedy=f"see: smcp logs {name}")


def _show(finding: Finding) -> None:
    if not finding.spoken:
        print_table((finding.era, "no"), [("", finding.trouble)])
        return
    rows = [
        ("versions", ", ".join(finding.versions)),
        ("server", _server(finding)),
        ("capabilities", ", ".join(msgspec.json.decode(finding.capabilities, type=dict[str, Any]))),
        ("start", "-" if finding.start is None else f"{finding.start * 1000:.0f} ms"),
        ("memory", "-" if finding.memory is None else format_size(finding.memory >> 20 << 20)),
    ]
    for kind in NAMED_BY:
        if kind in finding.lists:
            rows.append((kind, _names(finding.lists[kind])))
        difference = finding.difference.get(kind, findings.Difference())
        if difference.more:
            rows.append(("", f"and for hosts that can be asked: {_names(difference.more)}"))
        if difference.less:
            rows.append(("", f"but not for hosts that can be asked: {_names(difference.less)}"))
    rows.append(("asks", ", ".join(finding.asks) or "nothing, as long as no tool is called"))
    print_table((finding.era, "yes"), rows)


def _server(finding: Finding) -> str:
    told = msgspec.json.decode(finding.server, type=dict[str, Any])
    return one_line(" ".join(str(told[key]) for key in ("name", "version") if key in told))


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return one_line(f"{len(names)}: {', '.join(names[:_SHOWN])}{more}" if names else "none")


def _suggest(found: ProbeResult) -> None:
    if found.suggestions:
        console().print()
        rows = [(f'{one.key} = "{one.value}"', one.now, one.reason) for one in found.suggestions]
        print_table(("SUGGESTED", "NOW", "BECAUSE"), rows)
