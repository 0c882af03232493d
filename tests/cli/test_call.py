"""``smcp call``: arguments in, content out, nothing changed on the way."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, raw


def call_result(*content: dict[str, Any], **more: Any) -> msgspec.Raw:
    return raw({"content": content, **more})


def test_call(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = call_result(
        {"type": "text", "text": "one\ntwo"}, {"type": "text", "text": "[three]"}
    )
    ran = smcp("call", "math", "add", '{"a": 123456789012345678901, "b": 1e400}', "--timeout", "2.5")
    assert (ran.status, ran.out, ran.err) == (0, "one\ntwo\n[three]\n", "")
    (operation,) = daemon.asked
    assert isinstance(operation, control.Call)
    assert (operation.name, operation.tool, operation.timeout) == ("math", "add", 2.5)
    assert bytes(operation.arguments) == b'{"a": 123456789012345678901, "b": 1e400}'


def test_call_reads_arguments_from_stdin(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = call_result()
    assert smcp("call", "math", "add", "-", stdin='{"a":\n1}').status == 0
    assert smcp("call", "math", "add").status == 0
    texts = [bytes(operation.arguments) for operation in daemon.asked if isinstance(operation, control.Call)]
    assert texts == [b'{"a":1}', b"{}"]


@pytest.mark.parametrize("arguments", ["", "[1]", "{", "nonsense", '{"a": 1} {}'])
def test_call_refuses_what_is_no_object(smcp: Smcp, daemon: FakeDaemon, arguments: str) -> None:
    ran = smcp("call", "math", "add", arguments)
    assert ran.status == 2
    assert ran.err.startswith("error[usage]:")
    assert not daemon.asked


def test_a_tool_that_fails(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = call_result({"type": "text", "text": "division by zero"}, isError=True)
    ran = smcp("call", "math", "div")
    assert (ran.status, ran.out, ran.err) == (1, "", "error[tool]: div of math: division by zero\n")
    ran = smcp("call", "math", "div", "--json")
    assert ran.status == 1
    assert json.loads(ran.out)["isError"] is True


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        ({"type": "image", "mimeType": "image/png", "data": "AAAA"}, "[image image/png, 3 bytes; --json has it]"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}, "inside"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "AA"}}, "[resource a:b]"),
        ({"type": "resource_link", "uri": "a:b"}, "[resource a:b]"),
        ({"type": "hologram"}, "[hologram; --json has it]"),
        ({}, "[content; --json has it]"),
    ],
)
def test_other_content(smcp: Smcp, daemon: FakeDaemon, block: dict[str, Any], shown: str) -> None:
    daemon.answers[control.Call] = call_result(block)
    assert smcp("call", "m", "t").out == shown + "\n"


def test_content_with_a_number_beyond_ours(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = msgspec.Raw(b'{"content": [{"type": "audio", "level": 1e400}]}')
    assert smcp("call", "m", "t").out == "[content; --json has it]\n"
    assert "1e400" in smcp("call", "m", "t", "--json").out


def test_structured_content_alone(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = msgspec.Raw(b'{"content": [], "structuredContent": {"n": 12345678901234567890123}}')
    assert smcp("call", "m", "t").out == '{\n  "n": 12345678901234567890123\n}\n'


def test_an_installation_is_told_on_stderr(smcp: Smcp, daemon: FakeDaemon) -> None:
    said = control.event_line(1, control.Progress(text="installing time …"))
    result = control.result_line(1, {"content": [{"type": "text", "text": "now"}]})
    daemon.answers[control.Call] = said + said + result
    ran = smcp("call", "time", "now")
    assert (ran.status, ran.out, ran.err) == (0, "now\n", "installing time …\n")
