"""Whose a request of a child is; the conversations are in `test_callbacks`."""

from __future__ import annotations

from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.attribution import Addressee, Attribution
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.tasks import Tasks


def calls(*pending: tuple[int, int | None, str]) -> dict[int, Pending]:
    return {at: Pending(session, b"1", method) for at, session, method in pending}


def ladder(sessions: int, pending: dict[int, Pending], *, exclusive: bool = False) -> Attribution:
    attached = {key: Attachment(key) for key in range(1, sessions + 1)}
    return Attribution(attached, pending, Tasks(), exclusive=exclusive)


def test_the_child_of_one_host_asks_that_host() -> None:
    flight = calls((5, 1, "tools/call"), (6, 1, "tools/list"), (7, None, "tools/call"))
    assert ladder(1, flight, exclusive=True).find({}) == Addressee(1, (5,))
    assert ladder(1, {}, exclusive=True).find({}) == Addressee(1)
    assert ladder(0, {}, exclusive=True).find({}) is None


def test_one_host_with_calls_in_flight_is_asked() -> None:
    flight = calls((5, 2, "tools/call"), (6, 2, "prompts/get"), (7, 1, "tools/list"))
    assert ladder(2, flight).find({}) == Addressee(2, (5, 6))


def test_calls_of_two_hosts_prove_nothing() -> None:
    assert ladder(2, calls((5, 2, "tools/call"), (6, 1, "resources/read"))).find({}) is None


def test_with_nothing_in_flight_the_only_host_is_asked() -> None:
    assert ladder(1, {}).find({}) == Addressee(1)
    assert ladder(2, {}).find({}) is None
    assert ladder(0, {}).find({}) is None


def test_a_host_that_is_gone_is_not_asked() -> None:
    assert ladder(1, calls((5, 9, "tools/call"))).find({}) is None
