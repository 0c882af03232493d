"""The checker of traffic: it follows the revision, and it can fail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.conversation import Json, call, error, notification, request, result
from tests.kit.wire import LEGACY, MODERN, VERSION_KEY, Wire, schema

META = {VERSION_KEY: MODERN, "io.modelcontextprotocol/clientCapabilities": {}}
SERVER = {"name": "s", "version": "1"}


def greeted(version: str) -> Wire:
    wire = Wire()
    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    assert wire.fault("client", request(0, "initialize", hello)) is None
    said = {"protocolVersion": version, "capabilities": {}, "serverInfo": SERVER}
    assert wire.fault("server", result(0, said)) is None
    assert wire.revision == version
    return wire


def modern(identity: Json, method: str, **params: Any) -> Json:
    return request(identity, method, {**params, "_meta": META})


@pytest.mark.parametrize("version", LEGACY)
def test_a_conversation_of_a_handshake_revision(version: str) -> None:
    wire = greeted(version)
    assert wire.fault("client", notification("notifications/initialized")) is None
    assert wire.fault("client", call("a")) is None
    assert wire.fault("server", result("a", {"content": [{"type": "text", "text": "t"}]})) is None
    assert wire.fault("client", call("b")) is None
    assert wire.fault("server", error("b", -32002, "m") | {"error": {"code": -32002, "message": "m"}}) is None
    assert wire.fault("server", request(1, "roots/list")) is None
    assert wire.fault("client", result(1, {"roots": []})) is None
    assert wire.fault("client", request(2, "ping")) is None
    assert wire.fault("server", result(2)) is None
    assert wire.fault("client", request(3, "vendor/x")) is None
    assert wire.fault("server", result(3, {"anything": 1})) is None


@pytest.mark.parametrize("version", LEGACY)
def test_what_is_wrong_in_a_handshake_revision(version: str) -> None:
    wire = greeted(version)
    assert "'name' is a required property" in str(wire.fault("client", request(1, "tools/call", {})))
    assert "'content' is a required property" in str(wire.fault("server", result(1, {"no": 1})))
    assert "a server does not send tools/call" in str(wire.fault("server", call(1)))
    assert "JSONRPCNotification" in str(wire.fault("client", notification("vendor/x", {}) | {"method": 5}))
    assert wire.fault("client", call(1.5)) == "id 1.5 is none"
    assert wire.fault("client", request(5, "x", [1])) == "params must be an object"
    assert wire.fault("client", 5) == wire.fault("client", {"jsonrpc": "1.0"}) == "no JSON-RPC message"
    assert wire.fault("client", {"jsonrpc": "2.0", "id": 7}) == "neither a result nor an error"
    assert "message" in str(wire.fault("server", {"jsonrpc": "2.0", "id": 1, "error": {"code": 5}}))
    wire.fault("server", request(9, "roots/list"))
    assert "'roots' is a required property" in str(wire.fault("client", result(9)))


@pytest.mark.parametrize(("version", "fits"), [("2024-11-05", False), ("2025-03-26", True)])
def test_sound_is_of_2025_03_26(version: str, fits: bool) -> None:
    wire = greeted(version)
    wire.fault("client", call(1))
    audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
    assert (wire.fault("server", result(1, {"content": [audio]})) is None) is fits


def test_what_a_client_says_before_it_is_answered_is_of_the_revision_it_wants() -> None:
    wire = Wire()
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
    assert wire.fault("client", request(0, "initialize", hello)) is None
    assert "CallToolRequest" in str(wire.fault("client", request(1, "tools/call", {})))
    assert wire.revision is None


def test_arrays_are_of_one_revision() -> None:
    wire = greeted("2025-03-26")
    assert wire.fault("client", [request(1, "ping"), notification("notifications/initialized")]) is None
    assert "required" in str(wire.fault("client", [request(2, "ping"), request(3, "tools/call", {})]))
    assert wire.fault("client", []) == "an empty array"
    assert "an array in revision 2025-06-18" in str(greeted("2025-06-18").fault("client", [request(1, "ping")]))


def test_a_conversation_of_2026_07_28() -> None:
    wire = Wire()
    assert wire.fault("client", modern(1, "server/discover")) is None
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    assert wire.fault("server", result(1, {**hints, "supportedVersions": [MODERN], "capabilities": {}})) is None
    assert not wire.revision, "a probe decides nothing"
    assert wire.fault("client", modern(2, "tools/call", name="t")) is None
    ask = {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list"}}}
    assert wire.fault("server", result(2, ask)) is None
    assert wire.fault("client", modern(3, "tools/call", name="t", inputResponses={"a": {"roots": []}})) is None
    assert wire.fault("server", result(3, {"content": [], "resultType": "complete", "structuredContent": 5})) is None


def test_what_is_wrong_in_2026_07_28() -> None:
    wire = Wire()
    assert wire.fault("client", modern(1, "tools/list")) is None
    assert "'resultType' is a required property" in str(
        wire.fault("server", result(1, {"tools": [], "ttlMs": 0, "cacheScope": "private"}))
    )
    assert "'_meta' is a required property" in str(wire.fault("client", call(2)))
    wire.fault("client", modern(3, "tools/list"))
    assert "answered with input_required" in str(wire.fault("server", result(3, {"resultType": "input_required"})))
    assert wire.fault("server", request(4, "vendor/x")) == "a server sends no requests"
    assert wire.fault("server", error(1, -32002, "m")) == f"error -32002 does not exist in {MODERN}"
    missing = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "m"}}
    assert "'data' is a required property" in str(wire.fault("server", missing))


def test_the_tasks_extension() -> None:
    wire = Wire()
    assert wire.fault("client", modern(1, "tools/call", name="t")) is None
    assert wire.fault("server", result(1, {"resultType": "task"})) is not None
    assert wire.fault("client", modern(2, "tasks/get", taskId="t")) is None
    assert wire.fault("server", result(2, {"resultType": "complete"})) is not None


def test_tasks_of_2025_11_25() -> None:
    wire = greeted("2025-11-25")
    assert wire.fault("client", request(1, "tools/call", {"name": "t", "task": {"ttl": 1}})) is None
    assert "CreateTaskResult" in str(wire.fault("server", result(1, {"task": {}})))


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_every_request_has_a_result_that_is_known(revision: str) -> None:
    known = schema(revision)
    for methods in (known.methods("client"), known.methods("server")):
        for method, name in methods.items():
            if name.endswith("Request"):
                assert known.result_of(method) in known.definitions
    assert known.result_of("vendor/x") == "Result"


def test_an_id_is_that_of_the_first_request_until_it_is_settled() -> None:
    wire = greeted("2025-11-25")
    wire.fault("client", request(1, "ping"))
    wire.fault("client", call(1))
    assert wire.fault("server", result(1)) is None
    wire.fault("client", call(2))
    wire.fault("client", notification("notifications/cancelled", {"requestId": 2}))
    wire.fault("client", request(2, "ping"))
    assert wire.fault("server", result(2)) is None


def test_an_id_that_cannot_be_read_is_null() -> None:
    told = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}}
    assert greeted("2025-06-18").fault("server", told) is None


def test_very_long_messages_are_checked_by_their_envelope() -> None:
    wire = greeted("2025-11-25")
    assert wire.fault("client", request(1, "tools/call", {}), size=1_000_000) is None
    assert wire.fault("client", call(None), size=1_000_000) == "id None is none"
