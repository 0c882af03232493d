"""The shapes of MCP: versions, capabilities, lists."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol import mcp

EVERYTHING = {
    **{key: {} for key in ("experimental", "logging", "completions", "tasks", "extensions")},
    "tools": {"listChanged": False},
    "prompts": {},
    "resources": {"subscribe": True},
}


@pytest.mark.parametrize("text", [*mcp.LEGACY_VERSIONS, "2026-07-28", "1999-01-01"])
def test_versions(text: str) -> None:
    assert mcp.is_version(text)
    assert mcp.negotiate(text) == (text if text in mcp.LEGACY_VERSIONS else "2025-11-25")


@pytest.mark.parametrize(
    "text",
    ["", "latest", "2025-11-25\n", "2025-11", "2025-11-25-rc", "\u0662\u0660\u0662\u0665-\u0661\u0661-\u0662\u0665"],
)
def test_what_is_no_version(text: str) -> None:
    assert not mcp.is_version(text)


@pytest.mark.parametrize(
    ("version", "hidden"),
    [
        ("2024-11-05", {"completions", "tasks", "extensions"}),
        ("2025-03-26", {"tasks", "extensions"}),
        ("2025-06-18", {"tasks", "extensions"}),
        ("2025-11-25", {"extensions"}),
    ],
)
def test_a_host_is_told_the_capabilities_of_its_revision(version: str, hidden: set[str]) -> None:
    told = mcp.server_capabilities(EVERYTHING, version)
    assert EVERYTHING.keys() - told.keys() == hidden
    assert told["tools"] == {"listChanged": True}
    assert told["resources"] == {"subscribe": True, "listChanged": True}
    assert mcp.server_capabilities({"tools": None}, version) == {"tools": None}


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("2024-11-05", {"roots": {"listChanged": True}, "sampling": {}}),
        ("2025-06-18", {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {}}),
        ("2025-11-25", {"roots": {"listChanged": True}, "sampling": {"tools": {}}, "elicitation": {"url": {}}}),
    ],
)
def test_a_child_is_told_what_can_be_relayed(version: str, told: dict[str, Any]) -> None:
    declared = {
        "roots": {"listChanged": True},
        "sampling": {"tools": {}},
        "elicitation": {"url": {}},
        "tasks": {},
        "experimental": {},
    }
    assert mcp.relayed_capabilities(declared, version) == told
    assert mcp.relayed_capabilities({}, version) == {}


def test_lists() -> None:
    assert set(mcp.CHANGED.values()) == {"tools", "prompts", "resources"}
    assert mcp.LISTINGS["resources/templates/list"].key == "resourceTemplates"
    assert mcp.LISTINGS["resources/templates/list"].changed == "notifications/resources/list_changed"
    assert min(mcp.LEVELS, key=mcp.LEVELS.__getitem__) == "debug"
