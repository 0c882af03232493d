"""Claude Code: user and local entries in one file that it rewrites all the time, and ``.mcp.json`` of a project.

https://code.claude.com/docs/en/mcp
"""

from __future__ import annotations

from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.base import EACH, Dialect, Host, Place, in_project, in_variable
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.syntax import value_at
from supervisord_mcp.hosts.variables import braces


def _is_disabled(data: Any, path: KeyPath) -> bool:
    """Return whether a project has an entry of its own switched off, as ``/mcp`` does."""
    if path[0] != "projects":
        return False
    names = value_at(data, path[:2]).get("disabledMcpServers")
    return isinstance(names, list) and path[-1] in names


_PROJECT = Dialect(variables=braces, expanded=frozenset({"command", "args", "env"}))

CLAUDE_CODE = Host(
    key="claude-code",
    title="Claude Code",
    dialect=Dialect(
        tables=(("mcpServers",), ("projects", EACH, "mcpServers")),
        variables=braces,
        expanded=frozenset({"command", "args", "env"}),
        switched_off=_is_disabled,
    ),
    places=(
        Place(in_variable("CLAUDE_CONFIG_DIR", "", ".claude.json")),
        Place(in_project(".mcp.json"), Scope.PROJECT, dialect=_PROJECT),
    ),
    sources=("https://code.claude.com/docs/en/mcp",),
)
