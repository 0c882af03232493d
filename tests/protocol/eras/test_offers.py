"""What a host is told by `server/discover`."""

from __future__ import annotations

import json

import pytest

from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.eras import offers

HANDSHAKE = (
    b'{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"tasks":{},"logging":{},"vendor":{}},'
    b'"serverInfo":{"name":"s"},"instructions":"be kind"}'
)
DISCOVERED = b'{"supportedVersions":["2027-01-01","2026-07-28"],"capabilities":{"x":{}},"ttlMs":5,"vendor":1e400}'


def test_a_handshake_is_put_in_the_other_form() -> None:
    assert json.loads(offers.known(Catalogue(HANDSHAKE))) == {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "instructions": "be kind",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s"}},
    }


@pytest.mark.parametrize("handshake", [b"{}", b'{"capabilities":7}'])
def test_a_handshake_that_says_nothing_offers_nothing(handshake: bytes) -> None:
    assert json.loads(offers.of_handshake(handshake))["capabilities"] == {}


def test_what_a_modern_server_said_is_told_as_it_is_but_for_versions_and_age() -> None:
    told = offers.known(Catalogue(HANDSHAKE, {}, DISCOVERED))
    assert told == b'{"supportedVersions":["2026-07-28"],"capabilities":{"x":{}},"ttlMs":0,"vendor":1e400}'
    assert offers.served(DISCOVERED) == told.replace(b'"ttlMs":0', b'"ttlMs":5')


@pytest.mark.parametrize("theirs", [None, b"7", b"[]", b'["2025-11-25"]'])
def test_versions_of_others_are_not_promised(theirs: bytes | None) -> None:
    assert offers.shared_versions(theirs) == []
