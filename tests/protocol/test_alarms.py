"""Time as a command and an event."""

from __future__ import annotations

from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.commands import Note


def test_what_was_put_off_is_done_once() -> None:
    alarms = Alarms()
    alarm = alarms.after(2.0, lambda: [Note("x", "now")])
    assert (alarm.seconds, len(alarms)) == (2.0, 1)
    assert alarms.rang(alarm.serial) == [Note("x", "now")]
    assert alarms.rang(alarm.serial) == []
    assert len(alarms) == 0


def test_what_was_forgotten_is_not_done() -> None:
    alarms = Alarms()
    first = alarms.after(1.0, lambda: [Note("x", "first")])
    second = alarms.after(1.0, lambda: [Note("x", "second")])
    alarms.forget(first)
    alarms.forget(None)
    assert alarms.rang(first.serial) == []
    assert alarms.rang(second.serial) == [Note("x", "second")]


def test_an_alarm_nobody_set_is_ignored() -> None:
    assert Alarms().rang(7) == []
