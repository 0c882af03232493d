"""Envelopes: what is read, what is refused, and that every other byte stays."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import jsonrpc
from tests.protocol.texts import BLANKS, OBJECTS, STRINGS, VALUES


@given(st.lists(st.tuples(STRINGS, VALUES), max_size=4), BLANKS)
def test_members_pass_as_they_came(extra: list[tuple[str, str]], blank: str) -> None:
    members = {"jsonrpc": '"2.0"', "method": '"m"', "result": "1"}
    members |= {json.loads(key): value for key, value in extra if json.loads(key) != "id"}
    line = blank + "{" + ",".join(f"{blank}{json.dumps(key)}{blank}:{blank}{value}" for key, value in members.items())
    message = jsonrpc.parse((line + blank + "}").encode())
    compact = ",".join(f"{_key(key)}:{value}" for key, value in members.items())
    assert jsonrpc.encode(message.members) == f"{{{compact}}}\n".encode()


def _key(key: str) -> str:
    """Keys are the one thing written anew, in the same way as everything of our own."""
    return jsonrpc.text_of(key).decode()


@given(OBJECTS)
def test_members_of_an_object_are_the_last_ones_of_their_name(text: str) -> None:
    found = jsonrpc.members_of(text.encode())
    values = {key: json.loads(bytes(value)) for key, value in found.items()}
    assert values == json.loads(text)
    assert all(bytes(value) in text.encode() for value in found.values())


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"x"}', (True, False)),
        ('{"jsonrpc":"2.0","method":"x"}', (False, False)),
        ('{"jsonrpc":"2.0","id":1,"result":null}', (False, True)),
        ('{"jsonrpc":"2.0","id":1,"error":{}}', (False, True)),
    ],
)
def test_kinds_of_messages(line: str, kind: tuple[bool, bool]) -> None:
    message = jsonrpc.parse(line.encode())
    assert (message.is_request, message.is_response) == kind


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", -32700),
        (b"{", -32700),
        (b'{"id":1,}', -32700),
        (b'{"method":"x","y":"\xff"}', -32700),
        (b'{"method":"x","y":"\xed\xa0\x80"}', -32700),
        (b'{"method":"x","y":"\\ud800"}', -32700),
        (b'{"method":"x","y":"\t"}', -32700),
        (b'{"method":"x","y":NaN}', -32700),
        (b"[]", -32600),
        (b'"x"', -32600),
        (b"5", -32600),
        (b"{}", -32600),
        (b'{"id":1}', -32600),
        (b'{"method":5}', -32600),
        (b'{"method":null,"id":1}', -32600),
        (b'{"a":' * 2000 + b"1" + b"}" * 2000, -32600),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_is_no_message(line: bytes, code: int) -> None:
    with pytest.raises(FramingError) as caught:
        jsonrpc.parse(line)
    assert caught.value.rpc_code == code


def test_params() -> None:
    def params(text: str) -> dict[str, bytes]:
        message = jsonrpc.parse(f'{{"method":"x"{text}}}'.encode())
        return {key: bytes(value) for key, value in message.params().items()}

    assert params("") == params(',"params":null') == params(',"params":{}') == {}
    assert params(',"params":{"a":1,"b":{"c":2}}') == {"a": b"1", "b": b'{"c":2}'}
    for wrong in ("[1]", '"x"', "5"):
        with pytest.raises(FramingError) as caught:
            params(f',"params":{wrong}')
        assert caught.value.rpc_code == -32602


def test_params_with_half_a_surrogate_pair_can_be_read_where_a_server_wrote_them() -> None:
    message = jsonrpc.message_of({"method": Raw(b'"x"'), "params": Raw(b'{"a":"\\ud83d","b":1}')})
    assert message.params()["b"] == Raw(b"1")


@pytest.mark.parametrize("identity", ["0", "-1", "7", '""', '"x"', "1.0", "-5.00", "123456789012345678901234567890"])
def test_ids(identity: str) -> None:
    assert jsonrpc.valid_id(identity.encode())


@pytest.mark.parametrize("identity", ["null", "true", "1.5", "1e2", "{}", "[1]", "-"])
def test_what_is_no_id(identity: str) -> None:
    assert not jsonrpc.valid_id(identity.encode())


def test_lines_of_our_own() -> None:
    assert jsonrpc.result_line(b'"1"', b"{}") == b'{"jsonrpc":"2.0","id":"1","result":{}}\n'
    assert jsonrpc.request_line(3, "é\n") == '{"jsonrpc":"2.0","id":3,"method":"é\\n"}\n'.encode()
    assert jsonrpc.request_line(3, "x", Raw(b"{}")) == b'{"jsonrpc":"2.0","id":3,"method":"x","params":{}}\n'
    assert jsonrpc.notification_line("x") == b'{"jsonrpc":"2.0","method":"x"}\n'
    assert jsonrpc.notification_line("x", b"{}") == b'{"jsonrpc":"2.0","method":"x","params":{}}\n'
    error = json.loads(jsonrpc.error_line(None, -32600, "a\nb"))
    assert error == {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "a\nb"}}
    assert json.loads(jsonrpc.error_line(b"0", 1, "x", {"y": 0}))["error"] == {
        "code": 1,
        "message": "x",
        "data": {"y": 0},
    }


def test_a_text_that_is_no_unicode_does_not_break_an_answer() -> None:
    line = jsonrpc.error_line(b"1", 1, "no such file: \udcff", {"é\ud800": [1]})
    assert line.count(b"\n") == 1
    assert json.loads(line)["error"] == {"code": 1, "message": "no such file: ?", "data": {"é?": [1]}}


@pytest.mark.parametrize(
    ("text", "members", "value", "string"),
    [
        (None, {}, None, None),
        (b'{"a":1}', {"a": b"1"}, {"a": 1}, None),
        (b'"x"', {}, "x", "x"),
        (b"[1]", {}, [1], None),
        (b"1e400", {}, None, None),
        (b'"\\ud800"', {}, None, None),
        (b"{", {}, None, None),
        (b"[" * 5000 + b"]" * 5000, {}, None, None),
        (b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", {}, None, None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_reading_texts(text: bytes | None, members: dict[str, bytes], value: Any, string: str | None) -> None:
    assert {key: bytes(found) for key, found in jsonrpc.members_of(text).items()} == members
    assert jsonrpc.value_of(text) == value
    assert jsonrpc.string_of(text) == string


def test_objects_are_put_together_of_texts() -> None:
    assert jsonrpc.object_text({}) == b"{}"
    assert (
        jsonrpc.object_text({"é\n": b"1e400", "b": Raw(b'{"a":1,"a":2}')})
        == '{"é\\n":1e400,"b":{"a":1,"a":2}}'.encode()
    )
