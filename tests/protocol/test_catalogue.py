"""What a server offers: kept, answered from, compared."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol import catalogue
from supervisord_mcp.protocol.catalogue import Catalogue, array_text, items_of
from tests.protocol.texts import VALUES

HANDSHAKE = b'{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"n":1e400}}'
TEXTS = VALUES.map(str.encode)


def of(*tools: bytes) -> Catalogue:
    return Catalogue(HANDSHAKE, {"tools/list": tools})


@given(st.dictionaries(st.sampled_from(["tools/list", "prompts/list"]), st.lists(TEXTS, max_size=3).map(tuple)))
def test_it_is_kept_byte_for_byte(lists: dict[str, tuple[bytes, ...]]) -> None:
    known = Catalogue(HANDSHAKE, lists)
    assert catalogue.load(catalogue.dump(known)) == known
    assert known.offers == sum(map(len, lists.values()))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"format":2,"handshake":{"a":1},"lists":{}}',
        b'{"format":1,"handshake":5,"lists":{}}',
        b'{"format":1,"handshake":{},"lists":{}}',
        b'{"format":1,"handshake":{"a":1},"lists":{"tools/list":5}}',
        b'{"format":1,"handshake":{"a":1},"lists":{"tools/list":["\xff"]',
        b'{"format":1,"handshake":' + b"[" * 100_000,
    ],
    ids=lambda data: repr(data)[:40],
)
def test_what_is_damaged_or_of_another_version_is_nothing(data: bytes) -> None:
    assert catalogue.load(data) is None


def test_the_revision_of_the_server() -> None:
    assert Catalogue(HANDSHAKE).version == "2025-11-25"
    assert Catalogue(b"{}").version == ""


def test_lists_that_are_not_known_are_left_out() -> None:
    loaded = catalogue.load(b'{"format":1,"handshake":{"a":1},"lists":{"tools/list":[1],"widgets/list":[2]}}')
    assert loaded == Catalogue(b'{"a":1}', {"tools/list": (b"1",)})


def test_hosts_are_answered_from_it() -> None:
    known = of(b'{"name":"a"}', b'{"name":"b","n":1e400}')
    assert known.answer("tools/list") == b'{"tools":[{"name":"a"},{"name":"b","n":1e400}]}'
    assert known.answer("prompts/list") is None
    assert known.capabilities == {"tools": {}}
    assert Catalogue(b'{"capabilities":5}').capabilities == {}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((b'{"a":1,"b":2}',), (b'{ "b":2, "a":1 }',), True),
        ((b'"\\u0061"',), (b'"a"',), True),
        ((b"1", b"2"), (b"2", b"1"), False),
        ((b"1",), (), False),
        ((b'{"half":"\\ud800"}',), (b'{"half":"\\ud801"}',), False),
        ((b"1e400",), (b"1e401",), False),
        ((b"1e400",), (b"1e400",), True),
        ((b"null",), (b"null",), True),
    ],
)
def test_lists_are_compared_by_value_and_order(one: tuple[bytes, ...], other: tuple[bytes, ...], same: bool) -> None:
    assert of(*one).differences(of(*other)) == (() if same else ("tools",))


def test_both_lists_of_resources_are_one_capability() -> None:
    one = Catalogue(HANDSHAKE, {"resources/list": (b"1",), "prompts/list": (b"1",)})
    other = Catalogue(HANDSHAKE, {"resources/list": (b"1",), "resources/templates/list": (b"1",)})
    assert one.differences(other) == ("prompts", "resources")


@given(st.lists(TEXTS, max_size=5))
def test_an_array_is_its_items(items: list[bytes]) -> None:
    text = array_text(tuple(items))
    assert items_of(text) == tuple(items)
    json.loads(text)


@pytest.mark.parametrize(
    "text", [None, b"{}", b"[", b"", b"[" * 100_000 + b"]" * 100_000], ids=lambda text: repr(text)[:20]
)
def test_what_is_no_array_has_no_items(text: bytes | None) -> None:
    assert items_of(text) == ()


def test_what_a_modern_server_says_of_itself_is_kept_too() -> None:
    said = b'{"resultType":"complete","ttlMs":5,"supportedVersions":["2026-07-28"],"n":1e99}'
    kept = Catalogue(b'{"protocolVersion":"2026-07-28"}', {"tools/list": (b"1",)}, said)
    assert catalogue.load(catalogue.dump(kept)) == kept
    # What was stored before there was such a thing is as good as ever.
    older = Catalogue(b'{"protocolVersion":"2025-11-25"}', {})
    assert b"discovered" not in catalogue.dump(older)
    assert catalogue.load(catalogue.dump(older)) == older
