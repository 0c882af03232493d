"""``smcp events``."""

from __future__ import annotations

import json

import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream, clean_lines


def test_events(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {"instance": "i", "from": "A", "error": "x\ny", "list": ["p", "q"], "none": [], "n": 3}
    record = control.EventRecord(time=0.0, kind="state", server="git", instance="i", data=data)
    daemon.answers[control.Events] = Stream([record, control.EventRecord(time=1.5, kind="loaded")])
    first, second = clean_lines(smcp("events").out)
    assert first.split("  ")[1:] == ["git", "i", "state", "from=A error=x | y list=p,q none=- n=3"]
    assert second.split("  ")[1:] == ["-", "loaded"]
    found = [json.loads(line) for line in smcp("events", "--json", "-f").out.splitlines()]
    assert [event["kind"] for event in found] == ["state", "loaded"]
    assert daemon.asked == [control.Events(), control.Events(follow=True)]
