"""Claude Code: user and local entries in one file that it rewrites all the time, and ``.mcp.json`` of a project.

https://code.claude.com/docs/en/mcp
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import EACH, Dialect, Host, Place, in_project, in_variable
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import braces

_PROJECT = Dialect(variables=braces, expanded=frozenset({"command", "args", "env"}))

CLAUDE_CODE = Host(
    key="claude-code",
    title="Claude Code",
    dialect=Dialect(
        tables=(("mcpServers",), ("projects", EACH, "mcpServers")),
        variables=braces,
        expanded=frozenset({"command", "args", "env"}),
    ),
    places=(
        Place(in_variable("CLAUDE_CONFIG_DIR", "", ".claude.json")),
        Place(in_project(".mcp.json"), Scope.PROJECT, dialect=_PROJECT),
    ),
    sources=("https://code.claude.com/docs/en/mcp",),
)
