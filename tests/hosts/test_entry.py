"""The normal form."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.hosts.entry import HostEntry, Scope, Unresolved, literal


@pytest.mark.parametrize(
    ("text", "value"),
    [("", ""), ("a", "a"), ("$$1 $~ $}", "$1 ~ }"), ("${A}", None), ("x${A:-b}", None), ("~/x", None), ("x~", "x~")],
)
def test_the_plain_value_of_a_text(text: str, value: str | None) -> None:
    assert literal(text) == value


def test_an_entry_without_a_command_starts_nothing() -> None:
    entry = HostEntry("cursor", Path("/f"), Scope.USER, ("mcpServers", "a"), "a", 1, url="https://example.com")
    assert not entry.stdio


def test_what_is_told_of_a_reference_shows_no_default() -> None:
    one = Unresolved(("s", "args", 0), "args[0]", "${TOKEN:-${hunter2}", "why")
    assert one.told == "args[0]: ${TOKEN:-•••}: why"
    assert Unresolved((), "cwd", "${file}", "why").told == "cwd: ${file}: why"
