"""``smcp events``."""

from __future__ import annotations

import json

import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream, clean_lines


def test_events(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {
        "instance": "i",
        "from": "A",
        "error": "x\ny",
        "list": ["p", "q"],
        "none": [],
        "n": 3,
        "p": None,
        "q": False,
    }
    record = control.EventRecord(time=0.0, kind="state", server="git", instance="i", data=data)
    daemon.answers[control.Events] = Stream([record, control.EventRecord(time=1.5, kind="loaded")])
    first, second = clean_lines(smcp("events").out)
    assert first.startswith("1970-01-01T00:00:00.000Z  "), "as in logs"
    assert first[26:] == "git           state            from=A error=x | y list=p,q none=nothing n=3 p=- q=no  i"
    assert second[26:] == "-             loaded"
    found = [json.loads(line) for line in smcp("events", "--json", "-f").out.splitlines()]
    assert [event["kind"] for event in found] == ["state", "loaded"]
    assert smcp("events", "git", "--kind", "state", "--kind", "limit").status == 0
    assert daemon.asked == [
        control.Events(),
        control.Events(follow=True),
        control.Events(name="git", kinds=("state", "limit")),
    ]


@pytest.mark.parametrize(("kind", "hint"), [("stat", "did you mean 'state'?"), ("xyzzy", "there are: state, ")])
def test_a_kind_that_there_is_not_is_refused(smcp: Smcp, daemon: FakeDaemon, kind: str, hint: str) -> None:
    ran = smcp("events", "--kind", kind)
    assert ran.status == 2
    assert hint in " ".join(ran.err.split())
    assert daemon.asked == []


def test_the_end_of_the_daemon_is_told(smcp: Smcp, daemon: FakeDaemon) -> None:
    following = Stream([control.EventRecord(time=0.0, kind="state")])
    following.cut = True
    daemon.answers[control.Events] = following
    ran = smcp("events", "-f")
    assert ran.status == 3
    assert len(ran.out.splitlines()) == 1
    assert ran.err.splitlines()[0] == "error[no-daemon]: the daemon ended, so nothing more comes"
