"""What is counted and told of a server's network."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.egress.meter import Bucket, Contact, Meter


@given(st.lists(st.floats(0, 0.5), max_size=200))
def test_a_rate_is_never_exceeded(pauses: list[float]) -> None:
    bucket, now, taken = Bucket(10, 5), 0.0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(now) == 0
    assert taken <= 5 + now * 10 + 1e-6


def test_the_wait_is_long_enough() -> None:
    bucket = Bucket(4, 1)
    assert bucket.take(0) == 0
    wait = bucket.take(0)
    assert wait == 0.25
    assert bucket.take(wait) == 0
    bucket.give_back()
    assert bucket.take(wait) == 0


def test_reports_have_a_pace_and_say_what_was_left_out() -> None:
    told: list[Contact] = []
    now = [0.0]
    meter = Meter("files", told.append, lambda: now[0])
    for _ in range(100):
        meter.note("a.test", 443, "refused", "because")
    assert len(told) == 40
    now[0] = 10.0
    meter.note("b\n.test", 443, "passed", traffic=(1, 2))
    assert told[-1] == Contact("files", "b?.test", 443, "passed", "", 1, 2, 60)
    assert (meter.usage.refused, meter.usage.failed) == (100, 0)


def test_the_first_places_that_were_refused_are_remembered() -> None:
    meter = Meter("files", lambda contact: None, lambda: 0.0)
    meter.note("fine.test", 443, "passed")
    meter.note("down.test", 443, "failed", "no answer")
    meter.note("", 0, "refused", "too many connections")
    for number in range(20):
        for _ in range(2):
            meter.note(f"{number}\n.test", 443, "refused", "because")
    meter.note("name.test", 0, "refused", "because")
    assert meter.refused == tuple(f"{number}?.test:443" for number in range(8))
