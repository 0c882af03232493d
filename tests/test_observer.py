"""Everybody is told, whatever one of them does wrong."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from supervisord_mcp import observer as module
from supervisord_mcp.credentials.masking import masker
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


def test_an_observer_that_fails_is_reported() -> None:
    observers = Observers()
    observers.add(lambda event: 1 / 0, "divider")
    observers.publish(Event("a"))
    [_, report] = observers.recent
    assert (report.kind, report.data) == ("observer-dropped", {"observer": "divider", "cause": "division by zero"})
    assert observers.dropped == {"divider": "division by zero"}


def test_an_observer_that_is_slow_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(module, "_clock", lambda: clock[0])
    observers = Observers()
    told: list[str] = []
    takes = {"quick": 0.0005, "slow": 0.3}

    def observer(event: Event) -> None:
        told.append(event.kind)
        clock[0] += takes.get(event.kind, 0.0)

    observers.add(observer, "slowpoke")
    for _ in range(5000):
        observers.publish(Event("quick"))  # 2.5 s, but never long
    for _ in range(3):
        observers.publish(Event("slow"))
    clock[0] += 11.0
    for _ in range(3):
        observers.publish(Event("slow"))  # 0.9 s of another period
    assert observers.dropped == {}
    observers.publish(Event("slow"))
    assert observers.dropped == {"slowpoke": "it took more than 1 s within 10 s"}
    observers.publish(Event("quick"))
    assert len(told) == 5007


def test_one_that_counts_is_told_at_once_of_what_is_told_together_and_is_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(module, "_clock", lambda: clock[0])
    observers = Observers()
    told: list[list[str]] = []

    def observer(events: Sequence[Event]) -> None:
        clock[0] += 50.0
        told.append([event.kind for event in events])

    stop = observers.events.add_counter(observer, "counter")
    observers.events.tell_all([Event("a"), Event("b")])
    assert (told, observers.dropped) == ([["a", "b"]], {})
    stop()
    observers.events.tell(Event("c"))
    assert told == [["a", "b"]]


def until(condition: object) -> None:
    """Return once something is so that a thread does."""
    assert callable(condition)
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_one_that_waits_watches_apart() -> None:
    observers = Observers()
    threads: set[int] = set()
    told: list[str] = []
    gate = threading.Event()

    def observer(event: Event) -> None:
        gate.wait(10)
        threads.add(threading.get_ident())
        told.append(event.kind)

    remove = observers.add(observer, "writer", apart=True)
    for number in range(3):
        observers.publish(Event(str(number)))
    assert told == []
    gate.set()
    until(lambda: told == ["0", "1", "2"])
    assert threading.get_ident() not in threads
    remove()
    remove()
    observers.publish(Event("late"))
    until(lambda: not any(thread.name == "observer writer" for thread in threading.enumerate()))
    assert told == ["0", "1", "2"]


def test_one_that_watches_apart_and_fails_is_taken_out() -> None:
    observers = Observers()

    def observer(event: Event) -> None:
        raise OSError("disk full")

    observers.add(observer, "writer", apart=True)
    observers.publish(Event("a"))
    until(lambda: not any(thread.name == "observer writer" for thread in threading.enumerate()))
    assert observers.dropped == {}
    observers.publish(Event("b"))
    assert observers.dropped == {"writer": "disk full"}


def test_one_that_does_not_keep_up_is_taken_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKLOG", 5)
    observers, gate = Observers(), threading.Event()
    observers.add(lambda event: gate.wait(10), "writer", apart=True)
    for number in range(8):
        observers.publish(Event(str(number)))
    gate.set()
    assert observers.dropped == {"writer": "it is 5 behind"}
    until(lambda: not any(thread.name == "observer writer" for thread in threading.enumerate()))


def test_a_channel_knows_whether_anybody_watches() -> None:
    observers = Observers()
    watched = [observers.calls.watched]
    for remove in (observers.calls.add(print), observers.calls.add(print)):
        watched.append(observers.calls.watched)
        remove()
        watched.append(observers.calls.watched)
    assert watched == [False, True, True, True, False]


def test_no_event_has_a_secret() -> None:
    masker.learn("s3cret-value", "vault:mine")
    observers, told = Observers(), list[Event]()
    observers.add(told.append)
    observers.publish(Event("state", "s", {"cause": "it said s3cret-value", "count": 2}))
    assert told[0].data == observers.recent[0].data == {"cause": "it said ***", "count": 2}
