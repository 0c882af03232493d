"""The first message of TLS, from real clients and from nobody."""

from __future__ import annotations

import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.egress.clienthello import Hello, server_name


def hello(name: str | None) -> bytes:
    """Return what a client of Python sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def split(message: bytes, size: int) -> bytes:
    """Return the message in records of a size."""
    body = message[5:]
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


def made(*names: bytes) -> bytes:
    """Return a message with as many lists of names as given."""
    extensions = b"".join(b"\0\0" + _sized(_sized(listed)) for listed in names) + b"\x00\x17\x00\x00"
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\x00\x02\x13\x01" + b"\x01\x00" + _sized(extensions)
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    return b"\x16\x03\x01" + _sized(message)


def _sized(content: bytes) -> bytes:
    return len(content).to_bytes(2, "big") + content


def test_the_name_is_found() -> None:
    assert server_name(hello("www.ok.test")) == "www.ok.test"
    assert server_name(hello("www.ok.test") + b"more") == "www.ok.test"
    assert server_name(hello(None)) is Hello.NAMELESS


@pytest.mark.parametrize("size", [1, 2, 3, 5, 40, 100])
def test_the_name_is_found_in_any_number_of_records(size: int) -> None:
    whole = split(hello("www.ok.test"), size)
    assert server_name(whole) == "www.ok.test"
    for at in range(len(whole)):
        assert server_name(whole[:at]) is Hello.INCOMPLETE


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1", b"SSH-2.0-x", b"\x00\x00\x00\x08\x04\xd2\x16\x2f", b"\x16\x02"])
def test_what_is_not_tls_passes(data: bytes) -> None:
    assert server_name(data) is Hello.NOT_TLS


def test_two_names_are_none() -> None:
    one = b"\x00\x00\x06a.test"
    assert server_name(made(one)) == "a.test"
    assert server_name(made(one, one)) is Hello.MALFORMED
    assert server_name(made(one + one)) is Hello.MALFORMED
    assert server_name(made(b"\x01\x00\x06a.test")) is Hello.MALFORMED
    assert server_name(made()) is Hello.NAMELESS


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x04\x02\x00\x00\x00",
        b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
        b"\x16\x03\x01\x00\x02\x01\x00\x17\x03\x03\x00\x01a",
        b"\x16\x03\x01\x00\x06\x01\x00\x00\x02\x03\x03",
    ],
)
def test_what_begins_like_tls_and_is_not_is_found_out(data: bytes) -> None:
    assert server_name(data) is Hello.MALFORMED


@given(st.binary(max_size=400))
def test_any_bytes_are_something(data: bytes) -> None:
    for start in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x00\x40\x01\x00\x00\x3c\x03\x03"):
        assert isinstance(server_name(start + data), Hello | str)


@given(st.data())
def test_a_changed_message_never_breaks_the_reader(data: st.DataObject) -> None:
    message = bytearray(hello("www.ok.test"))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(server_name(bytes(message)), Hello | str)
