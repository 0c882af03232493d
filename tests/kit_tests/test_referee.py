"""Whose fault a message is that fits no schema."""

from __future__ import annotations

import json

import pytest

from tests.kit.conversation import Json, Talk, call, request, result
from tests.kit.referee import Referee, bodies
from tests.kit.wire import Wire


def line(message: Json) -> bytes:
    return json.dumps(message).encode()


def test_smcp_is_to_blame_for_what_it_says() -> None:
    referee, wire = Referee(), Wire()
    wire.revision = "2025-11-25"
    assert "required" in str(referee.smcp_says(wire, "client", line(request(1, "tools/call", {}))))
    assert referee.smcp_says(wire, "client", b"nonsense") == "no JSON: nonsense"
    assert referee.smcp_says(wire, "client", line(call(2))) is None
    assert referee.faults == []


def test_a_peer_is_to_blame_for_what_is_passed_on() -> None:
    referee, host, child = Referee(), Wire(), Wire()
    host.revision = child.revision = "2025-11-25"
    referee.smcp_says(child, "client", line(call(1)))
    host.fault("client", call("h"))
    assert referee.peer_says(child, "server", b'log: {"jsonrpc":"2.0","id":1,"result":{"a":1,"_meta":{}}}') is not None
    assert len(referee.faults) == 1
    assert referee.smcp_says(host, "server", line(result("h", {"a": 1, "_meta": {"b": 2}}))) is None
    host.fault("client", call("i"))
    assert referee.smcp_says(host, "server", line(result("i", {"a": 2}))) is not None


def test_a_request_without_parameters_is_passed_on_too() -> None:
    referee, host, child = Referee(), Wire(), Wire()
    host.revision = child.revision = "2025-03-26"
    referee.peer_says(host, "client", line([request(1, "tools/call")]))
    assert referee.smcp_says(child, "client", line(request(9, "tools/call"))) is None


def test_what_is_passed_on_in_words_of_the_other_era_is_recognized() -> None:
    wrong = {"tools": [{"name": "a"}, {"name": "b"}], "nextCursor": "n"}
    assert bodies(result(1, wrong)) & bodies(result(2, {"tools": [{"name": "b", "execution": {}}], "ttlMs": 0}))
    assert not bodies(result(1, wrong)) & bodies(result(2, {"tools": [{"name": "c"}], "ttlMs": 0}))
    question = {"mode": "form", "message": "m"}
    asked = {
        "resultType": "input_required",
        "inputRequests": {"a": {"method": "elicitation/create", "params": question}},
    }
    assert bodies(result(1, asked)) & bodies(request(5, "elicitation/create", {"message": "m", "_meta": {}}))
    assert bodies(result(1, {"tools": 5, "inputRequests": []}))
    assert bodies(5) == {"5"}
    claim = {"elicitation": 7}
    meta = {"io.modelcontextprotocol/clientCapabilities": claim}
    assert bodies(request(1, "x", {"_meta": meta})) & bodies(request(2, "initialize", {"capabilities": claim}))
    assert not bodies(request(1, "x", {"_meta": 5})) & bodies(request(2, "initialize", {"capabilities": {}}))


def test_what_is_remembered_of_a_server_is_its_own() -> None:
    referee, host = Referee(), Wire()
    host.revision = "2025-11-25"
    referee.remembers({"tools/list": (b'{"name":"a"}',)})
    host.fault("client", request(1, "tools/list"))
    assert referee.smcp_says(host, "server", line(result(1, {"tools": [{"name": "a"}]}))) is None
    host.fault("client", request(2, "tools/list"))
    assert referee.smcp_says(host, "server", line(result(2, {"tools": [{"name": "b"}]}))) is not None


def test_a_conversation_fails_when_smcp_breaks_a_schema() -> None:
    with Talk() as talk:
        talk.child_runs()
        (a,) = talk.hosts("a")
        a.says(call(1))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(1))
        (command,) = talk.mux._talk.succeed(talk.mux._talk.sessions[a.key], b"2", b'{"roots":5}')
        a.wire.fault("client", request(2, "tools/list"))
        with pytest.raises(AssertionError, match="smcp says what no schema allows: ListToolsResult: 'tools'"):
            talk._apply([command])
