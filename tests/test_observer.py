"""Everybody is told, whatever one of them does wrong."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from supervisord_mcp.observer import KEPT, Event, Observers


def test_all_are_told_in_order_and_the_last_events_are_kept() -> None:
    observers = Observers()
    told: list[tuple[str, str]] = []
    observers.add(lambda event: told.append(("first", event.kind)))
    observers.add(lambda event: told.append(("second", event.kind)))
    observers.publish(Event("a"))
    observers.publish(Event("b", "server"))
    assert told == [("first", "a"), ("second", "a"), ("first", "b"), ("second", "b")]
    assert [event.kind for event in observers.recent] == ["a", "b"]


def test_old_events_make_room() -> None:
    observers = Observers()
    for number in range(KEPT + 10):
        observers.publish(Event(str(number)))
    assert [observers.recent[0].kind, observers.recent[-1].kind] == ["10", str(KEPT + 9)]
    assert len(observers.recent) == KEPT


def test_who_has_enough_is_told_no_more() -> None:
    observers = Observers()
    told: list[str] = []
    remove = observers.add(lambda event: told.append(event.kind))
    observers.publish(Event("a"))
    remove()
    remove()
    observers.publish(Event("b"))
    assert told == ["a"]


def test_the_same_observer_twice_is_two_and_each_end_ends_one() -> None:
    observers = Observers()
    told: list[str] = []

    def observer(event: Event) -> None:
        told.append(event.kind)

    first, second = observers.add(observer), observers.add(observer)
    observers.publish(Event("a"))
    first()
    observers.publish(Event("b"))
    second()
    observers.publish(Event("c"))
    assert told == ["a", "a", "b"]


def test_an_observer_that_fails_is_taken_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers()
    told: list[str] = []

    def fail(event: Event) -> None:
        raise ValueError(f"no {event.kind}")

    observers.add(fail)
    observers.add(lambda event: told.append(event.kind))
    with caplog.at_level(logging.ERROR):
        observers.publish(Event("a"))
        observers.publish(Event("b"))
    assert told == ["a", "observer-dropped", "b"]
    assert [record.message for record in caplog.records] == ["an observer failed and is no longer told"]


def test_an_observer_may_leave_while_it_fails(caplog: pytest.LogCaptureFixture) -> None:
    observers = Observers()

    def leave(event: Event) -> None:
        remove()
        raise ValueError(event.kind)

    remove = observers.add(leave)
    observers.publish(Event("a"))
    observers.publish(Event("b"))
    assert len(caplog.records) == 1


def test_observers_may_come_and_go_while_others_are_told() -> None:
    observers = Observers()
    told: list[str] = []

    def first(event: Event) -> None:
        remove()
        observers.add(lambda late: told.append(f"late {late.kind}"))

    remove = observers.add(first)
    observers.add(lambda event: told.append(event.kind))
    observers.publish(Event("a"))
    observers.publish(Event("b"))
    assert told == ["a", "b", "late b"]


def test_an_observer_may_publish() -> None:
    observers = Observers()
    told: list[str] = []

    def answer(event: Event) -> None:
        if event.kind == "a":
            observers.publish(Event("b"))

    observers.add(answer)
    observers.add(lambda event: told.append(event.kind))
    observers.publish(Event("a"))
    assert sorted(told) == ["a", "b"]
    assert [event.kind for event in observers.recent] == ["a", "b"]


def test_an_event_knows_when_it_was() -> None:
    before = datetime.now(UTC)
    event = Event("a", "server", {"pid": 3})
    assert before <= event.at <= datetime.now(UTC)
    assert event.data == {"pid": 3}
