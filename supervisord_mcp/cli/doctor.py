"""``smcp doctor``: what this machine can do for servers and their isolation, and what to do where it cannot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec
import typer

from supervisord_mcp.cli.client import connected, paths
from supervisord_mcp.cli.output import console, print_json, printable
from supervisord_mcp.cli.parameters import AsJson
from supervisord_mcp.doctor import Finding, can_isolate, judge, judge_room, worst
from supervisord_mcp.errors import IsolationError, SmcpError
from supervisord_mcp.examination import examine, room
from supervisord_mcp.protocol import control
from supervisord_mcp.shim import home_directory

_STYLES: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(as_json: AsJson = False) -> None:
    """Examine this machine: sandbox, namespaces, Landlock, limits, engines, Node, uv, disk, and adopted hosts.

    What is not well comes with its remedy. No daemon is needed and nothing is changed. The exit status is 7 where
    servers cannot be isolated, 0 otherwise.
    """
    machine = examine(os.environ, home_directory(os.environ, os.getuid()))
    findings = (*judge(machine), *_disk(), *_hosts())
    if as_json:
        print_json(msgspec.json.encode({"verdict": worst(findings), "findings": findings}))
    else:
        _print(findings)
    if not can_isolate(machine):
        raise typer.Exit(IsolationError.exit_status)


def _disk() -> list[Finding]:
    """Return whether there is room for what is kept, and what a daemon that runs cannot write."""
    findings = [judge_room(room(str(paths().state_dir)))]
    with suppress(SmcpError), connected() as client:
        daemon = client.ask_for(control.Status(), control.StatusResult).daemon
        told = (("logs", daemon.logging), ("audit", daemon.audit))
        remedy = "Make room, or let it be written; it goes on by itself."
        findings += [Finding(subject, "problem", text, remedy) for subject, text in told if text != "ok"]
    return findings


def _hosts() -> list[Finding]:
    """Return what changed in files of hosts since they were adopted; nothing where none was."""
    from supervisord_mcp.adoption.gathering import Person, drifted
    from supervisord_mcp.adoption.records import Records

    try:
        records = Records.of(paths()).adopted()
        drift = drifted(Person(paths(), os.environ), records)
    except SmcpError as error:
        return [Finding("hosts", "warning", error.message, error.remedy)]
    if records and not drift:
        return [Finding("hosts", "ok", "what was adopted is as it was left")]
    return [Finding("hosts", "warning" if one.remedy else "ok", one.text, one.remedy) for one in drift]


def _print(findings: Sequence[Finding]) -> None:
    from rich.text import Text

    screen = console()
    width = max(len(finding.subject) for finding in findings)
    for finding in findings:
        verdict = Text(f"{finding.verdict:<9}", style=_STYLES[finding.verdict])
        screen.print(Text.assemble(f"{finding.subject:<{width}}  ", verdict, printable(finding.text)), soft_wrap=True)
        if finding.remedy:
            screen.print(Text(" " * (width + 11) + printable(finding.remedy)), soft_wrap=True)
