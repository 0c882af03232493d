"""Content blocks that a revision does not know are described, and the others keep their bytes (pitfall 40)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from supervisord_mcp.protocol import content, mcp

Json = Any

TEXT = {"type": "text", "text": "t"}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
EMBEDDED = {"type": "resource", "resource": {"uri": "x:y", "text": "t"}}
LINK = {"type": "resource_link", "uri": "x:y", "name": "n"}
BLOCKS = st.sampled_from([TEXT, IMAGE, AUDIO, EMBEDDED, LINK, {"type": "later"}, {}, 5])


def told(block: Json, version: str) -> Json:
    return json.loads(bytes(content.older_block(json.dumps(block).encode(), version)))


@pytest.mark.parametrize("version", mcp.LEGACY_VERSIONS)
@pytest.mark.parametrize("block", [TEXT, IMAGE, AUDIO, EMBEDDED, LINK])
def test_a_block_is_described_where_its_kind_is_unknown(block: Json, version: str) -> None:
    unknown = (block is AUDIO and version < "2025-03-26") or (block is LINK and version < "2025-06-18")
    assert told(block, version)["type"] == ("text" if unknown else block["type"])


def test_sound_is_described() -> None:
    described = {
        "type": "text",
        "text": "[audio of audio/wav, 3 bytes, left out: this client's protocol revision has no audio]",
    }
    assert told(AUDIO, "2024-11-05") == described
    assert told({**AUDIO, "annotations": {"priority": 1}}, "2024-11-05") == {
        **described,
        "annotations": {"priority": 1},
    }
    assert "audio of unknown type, 0 bytes" in told({"type": "audio"}, "2024-11-05")["text"]


@pytest.mark.parametrize(
    ("link", "text"),
    [
        (LINK, '[resource "n" at x:y]'),
        ({**LINK, "title": "T", "mimeType": "text/plain"}, '[resource "T" (text/plain) at x:y]'),
        ({**LINK, "description": "all of it"}, '[resource "n" at x:y: all of it]'),
        ({"type": "resource_link"}, "[resource at unknown address]"),
    ],
)
def test_a_link_says_where_the_resource_is(link: Json, text: str) -> None:
    assert told(link, "2025-03-26") == {"type": "text", "text": text}


@given(st.lists(BLOCKS), st.sampled_from(mcp.LEGACY_VERSIONS))
def test_order_and_number_of_blocks_stay(blocks: list[Json], version: str) -> None:
    text = json.dumps(blocks).encode()
    older = content.older_blocks(text, version)
    after = json.loads(bytes(older))
    assert len(after) == len(blocks)
    assert all(one == other or one["type"] == "text" for one, other in zip(after, blocks, strict=True))
    if after == blocks:
        assert older is text


def test_what_is_no_array_of_blocks_is_left_alone() -> None:
    assert content.older_blocks(b"5", "2024-11-05") == b"5"


def test_the_block_of_a_message() -> None:
    def older(message: Json) -> Json:
        return json.loads(bytes(content.older_message(json.dumps(message).encode(), "2024-11-05")))

    assert older({"role": "user", "content": LINK})["content"]["type"] == "text"
    for message in ({"role": "user", "content": TEXT}, {"role": "user"}, 5):
        assert older(message) == message


def test_a_block_of_text() -> None:
    assert json.loads(content.text_block('a"b')) == {"type": "text", "text": 'a"b'}


@pytest.mark.parametrize(("text", "expected"), [(b"{}", True), (b"[]", False), (b"null", False), (b'"{"', False)])
def test_an_object_is_told_by_its_first_byte(text: bytes, expected: bool) -> None:
    assert content.is_object(Raw(text)) is expected
