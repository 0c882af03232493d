"""The normal form."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.hosts.entry import HostEntry, Scope, literal


@pytest.mark.parametrize(
    ("text", "value"),
    [("", ""), ("a", "a"), ("$$1 $~ $}", "$1 ~ }"), ("${A}", None), ("x${A:-b}", None), ("~/x", None), ("x~", "x~")],
)
def test_the_plain_value_of_a_text(text: str, value: str | None) -> None:
    assert literal(text) == value


def test_an_entry_without_a_command_starts_nothing() -> None:
    entry = HostEntry("cursor", Path("/f"), Scope.USER, ("mcpServers", "a"), "a", 1, url="https://example.com")
    assert not entry.stdio
