"""The words of the lifecycle are values that say whom they mean."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import get_args

import pytest

from supervisord_mcp.policy.events import (
    CancelTimer,
    Command,
    Demand,
    Event,
    OfRun,
    Restart,
    SetTimer,
    Spawned,
    Start,
    Stop,
    TimerFired,
)


def test_every_event_is_asked_for_or_says_to_which_run_or_timer_it_belongs() -> None:
    free = {Start, Stop, Restart, Demand}
    for kind in get_args(Event):
        assert (kind in free) != (issubclass(kind, OfRun) or kind is TimerFired)
        assert (kind in free) == (not fields(kind))


def test_every_command_says_for_which_run_or_timer_it_is() -> None:
    for kind in set(get_args(Command)) - {CancelTimer}:
        assert fields(kind)[0].name == ("serial" if kind is SetTimer else "generation")


def test_words_are_values() -> None:
    word = Spawned(3)
    assert word == Spawned(3) != Spawned(4)
    with pytest.raises(FrozenInstanceError):
        word.generation = 4  # type: ignore[misc]
