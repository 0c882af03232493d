"""The greeting on the daemon's socket."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol.hello import Hello, accept_line, parse_hello, refuse_line, verdict_line

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXTS, st.dictionaries(TEXTS, TEXTS, max_size=3), st.none() | TEXTS)
def test_a_greeting_survives_the_way(name: str, environ: dict[str, str], project: str | None) -> None:
    hello = Hello(smcp=1, role="shim", server=name, project=project, environ=environ)
    assert parse_hello(msgspec.json.encode(hello)) == hello


def test_what_is_left_out_has_a_default_and_what_is_unknown_is_ignored() -> None:
    hello = parse_hello(b'{"smcp":1,"role":"control","later":[1]}')
    assert hello == Hello(smcp=1, role="control")
    assert (hello.cwd, hello.pid, hello.resume, hello.environ) == ("/", 0, None, {})


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"GET / HTTP/1.1",
        b'{"smcp":1}',
        b'{"smcp":"1","role":"shim"}',
        b'{"smcp":1,"role":"boss"}',
        b'{"smcp":1,"role":"shim","server":"\xff"}',
        b'{"smcp":1,"role":"shim","environ":' + b'{"a":' * 100_000,
    ],
    ids=lambda line: repr(line)[:30],
)
def test_what_is_no_greeting(line: bytes) -> None:
    with pytest.raises(FramingError, match="not a greeting of smcp"):
        parse_hello(line)


def test_another_version_says_what_to_do() -> None:
    with pytest.raises(FramingError, match="version 2 is not known; upgrade"):
        parse_hello(b'{"smcp":2,"role":"shim"}')


def test_answers_are_one_line() -> None:
    assert accept_line("T-1") == b"ok T-1\n"
    assert refuse_line(4, "no such server\nknown: a\r\n") == "no 4 no such server\u2028known: a \u2028\n".encode()
    assert verdict_line(0) == b"0\n"
    assert verdict_line(5, "it ended:\nexit 1") == "5 it ended:\u2028exit 1\n".encode()
