"""``smcp probe``."""

from __future__ import annotations

import json
from typing import Any

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines, raw

LEGACY = {
    "era": "legacy",
    "spoken": True,
    "versions": ["2025-11-25"],
    "server": {"name": "ex", "version": "2"},
    "capabilities": {"tools": {}, "logging": {}},
    "start": 0.1234,
    "memory": (40 << 20) + 5,
    "lists": {"tools": [f"t{number}" for number in range(10)], "prompts": []},
    "difference": {"tools": {"more": ["ask"], "less": ["t0"]}},
    "asks": ["roots/list"],
}
MODERN = {"era": "modern", "trouble": "answered server/discover with an error"}
SUGGESTED = [{"key": "callbacks", "value": "on", "now": "off", "reason": "it hides ask"}]


def found(*findings: Any, suggestions: Any = ()) -> Any:
    return raw({"name": "ex", "findings": findings, "suggestions": suggestions})


def test_probe(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Probe] = found(LEGACY, MODERN, suggestions=SUGGESTED)
    lines = [" ".join(line.split()) for line in clean_lines(smcp("probe", "ex").out)]
    assert lines == [
        "legacy yes",
        "versions 2025-11-25",
        "server ex 2",
        "capabilities tools, logging",
        "start 123 ms",
        "memory 40M",
        "tools 10: t0, t1, t2, t3, t4, t5, t6, t7 and 2 more",
        "and for hosts that can be asked: 1: ask",
        "but not for hosts that can be asked: 1: t0",
        "prompts none",
        "asks roots/list",
        "modern no",
        "answered server/discover with an error",
        "",
        "SUGGESTED NOW BECAUSE",
        'callbacks = "on" off it hides ask',
    ]
    assert daemon.asked == [control.Probe(name="ex")]


def test_probe_for_programs(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Probe] = found(LEGACY)
    assert json.loads(smcp("probe", "ex", "--json").out)["findings"] == [LEGACY]


def test_a_server_that_speaks_nothing_is_a_failure(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Probe] = found({"era": "legacy", "trouble": "ended (exit 1)"}, MODERN)
    ran = smcp("probe", "ex")
    assert ran.status == 1
    assert "ended (exit 1)" in ran.out
    assert "smcp logs ex" in ran.err


def test_what_is_not_known_is_left_open(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Probe] = found({"era": "modern", "spoken": True})
    out = smcp("probe", "ex").out
    assert "start" in out
    assert "nothing, as long as no tool is called" in out
