"""Where a session is read until its era and its capabilities are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from supervisord_mcp.protocol.anteroom import Reply, Waits
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.threshold import Decided, Outcome, Threshold, Unknown
from tests.kit.conversation import call, cancelled, error, matches, notification, request, result

MODERN = "2026-07-28"
KNOWN = b'{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}'


def modern(identity: Any, method: str, version: str = MODERN, **params: Any) -> dict[str, Any]:
    """Return a request of the modern era."""
    told = envelope.write(json.dumps(params).encode(), Envelope(version, {"elicitation": {}}, {"name": "h"}))
    return request(identity, method, json.loads(told))


def opening(**params: Any) -> dict[str, Any]:
    return request(0, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, **params})


class Arriving:
    """A session at the threshold."""

    def __init__(self, discovered: bytes | None = KNOWN) -> None:
        self.threshold = Threshold(discovered)

    def says(self, message: Any) -> list[Outcome]:
        line = message if isinstance(message, bytes | Oversized) else json.dumps(message).encode()
        return self.threshold.from_session(line)

    def hears(self, message: Any) -> Any:
        """Say something that is answered with one message."""
        (reply,) = self.says(message)
        assert isinstance(reply, Reply)
        return json.loads(reply.line)


def text(message: Any) -> bytes:
    return json.dumps(message).encode()


def test_a_handshake_decides_for_the_legacy_era() -> None:
    line = text(opening())
    assert Arriving().says(line) == [Decided("legacy", "2025-06-18", {"roots": {}}, (line,))]


def test_a_modern_request_decides_for_the_modern_era() -> None:
    line = text(modern(5, "tools/list"))
    assert Arriving().says(line + b"\r") == [Decided("modern", MODERN, {"elicitation": {}}, (line,))]


@pytest.mark.parametrize("then", [opening(), modern(2, "tools/list")])
def test_a_probe_is_answered_and_decides_nothing(then: Any) -> None:
    arriving = Arriving()
    for identity in ("server-discover-probe-1", 0):
        assert arriving.hears(modern(identity, "server/discover")) == result(identity, json.loads(KNOWN))
    (decided,) = arriving.says(then)
    assert isinstance(decided, Decided)


def test_a_probe_waits_until_the_server_was_asked() -> None:
    arriving = Arriving(None)
    assert arriving.says(modern(1, "server/discover")) == [Waits(b"1"), Unknown()]
    assert arriving.says(modern(2, "server/discover")) == [Waits(b"2")]
    for again in (modern(2, "server/discover"), modern(1, "tools/list"), request(1, "ping")):
        text = f"id {again['id']} is already in use by a request that is not answered yet"
        assert matches(error(None, -32600, text), arriving.hears(again))
    told = arriving.threshold.learnt(KNOWN)
    assert [json.loads(reply.line)["id"] for reply in told if isinstance(reply, Reply)] == [1, 2]
    assert arriving.threshold.learnt(KNOWN) == []
    assert arriving.hears(modern(3, "server/discover")) == result(3, json.loads(KNOWN))


def test_a_probe_of_a_server_that_cannot_be_asked_gets_an_error() -> None:
    arriving = Arriving(None)
    arriving.says(modern(1, "server/discover"))
    (reply,) = arriving.threshold.failed("it does not start")
    assert isinstance(reply, Reply)
    assert matches(error(1, -32603, "it does not start"), json.loads(reply.line))
    assert arriving.says(modern(2, "server/discover")) == [Waits(b"2"), Unknown()]


def test_what_decides_nothing_is_answered_here() -> None:
    arriving = Arriving()
    assert matches(result("p"), arriving.hears(request("p", "ping")))
    assert matches(error(2, -32600, "initialize comes first"), arriving.hears(call(2)))
    assert matches(error(3, -32602), arriving.hears(request(3, "initialize", {"protocolVersion": 5})))
    assert matches(error(4, -32602), arriving.hears(request(4, "server/discover")))
    assert matches(error(5, -32022), arriving.hears(modern(5, "tools/list", "2099-01-01")))
    for message in (notification("notifications/initialized"), result(1), cancelled(4), b"", b"\r"):
        assert arriving.says(message) == []


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b"garbage", None),
        (b"[]", None),
        (b'{"jsonrpc":"2.0","id":{},"method":"x"}', None),
        (b'{"jsonrpc":"2.0","id":null,"method":"x"}', None),
        (b'{"id":5,"method":"x"}', 5),
        (Oversized(b'{"jsonrpc":"2.0","id":5,"method":"x","params":{', b"}}", 5000), 5),
    ],
)
def test_what_is_no_message_is_answered(line: bytes | Oversized, identity: int | None) -> None:
    assert matches(error(identity, ...), Arriving().hears(line))
