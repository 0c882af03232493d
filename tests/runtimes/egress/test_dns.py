"""Packets of names: whatever comes, the answer is one or none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.egress import dns

KNOWN = {"ok.test": "198.18.0.2"}


def query(name: str, kind: int = 1, *, flags: int = 0x100, group: int = 1, extra: bytes = b"", count: int = 1) -> bytes:
    labels = b"".join(bytes((len(label),)) + label.encode() for label in name.split("."))
    return struct.pack(">6H", 7, flags, count, 0, 0, 0) + labels + b"\0" + struct.pack(">2H", kind, group) + extra


def ask(packet: bytes) -> tuple[int, int, bytes]:
    """Return the code, the number of records, and the packet that answers."""
    response = dns.answer(packet, lambda name: KNOWN.get(name.lower()))
    assert response is not None
    identity, flags, _, records, _, _ = struct.unpack_from(">6H", response)
    assert identity == int.from_bytes(packet[:2], "big")
    assert flags & 0x8000
    return flags & 15, records, response


@pytest.mark.parametrize("name", ["ok.test", "OK.tEsT"])
def test_a_known_name_has_its_address_and_comes_back_as_it_was_written(name: str) -> None:
    code, records, response = ask(query(name))
    assert (code, records) == (0, 1)
    assert response.endswith(bytes((0, 4, 198, 18, 0, 2)))
    assert query(name)[12:] in response


@pytest.mark.parametrize("kind", [28, 16, 15, 65, 255, 12])
def test_a_known_name_has_nothing_else(kind: int) -> None:
    assert ask(query("ok.test", kind))[:2] == (0, 0)


@pytest.mark.parametrize("kind", [1, 28, 16, 255])
def test_any_other_name_does_not_exist(kind: int) -> None:
    assert ask(query("secret.evil.test", kind))[:2] == (3, 0)


def test_what_is_no_plain_question_is_answered_with_its_fault() -> None:
    assert ask(query("ok.test", group=3))[0] == 5
    assert ask(query("ok.test", flags=0x2800))[0] == 4
    assert ask(query("ok.test", count=2))[0] == 1
    assert ask(query("ok.test")[:-1])[0] == 1
    assert dns.answer(query("ok.test", flags=0x8000), KNOWN.get) is None
    assert dns.answer(b"short", KNOWN.get) is None


def test_an_option_record_is_no_hindrance() -> None:
    assert ask(query("ok.test", extra=b"\0" + struct.pack(">2HIH", 41, 1232, 0, 0)))[:2] == (0, 1)


def test_pointers_are_followed_backwards_only() -> None:
    head = struct.pack(">6H", 7, 0, 1, 0, 0, 0)
    forwards = head + b"\x02ok\xc0\x10" + struct.pack(">2H", 1, 1)
    itself = head + b"\xc0\x0c" + struct.pack(">2H", 1, 1)
    header = head + b"\x02ok\xc0\x00" + struct.pack(">2H", 1, 1)
    for packet in (forwards, itself):
        assert dns.read_question(packet) is None
    assert dns.answer(header, KNOWN.get) is not None


@given(st.binary(max_size=600))
def test_any_bytes_have_an_answer_or_none(packet: bytes) -> None:
    response = dns.answer(packet, lambda name: "198.18.0.9" if len(name) % 2 else None)
    assert response is None or (len(response) <= len(packet) + 300 and response[2] & 0x80)


@given(st.lists(st.binary(min_size=1, max_size=63), max_size=6), st.integers(0, 65535))
def test_a_question_is_read_as_it_was_written(labels: list[bytes], kind: int) -> None:
    question = dns.Question(tuple(labels), kind, 1)
    encoded = question.encoded()
    read = dns.read_question(bytes(12) + encoded)
    assert read == (question if len(encoded) <= 259 else None)
