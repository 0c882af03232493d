"""Claude Desktop: one file of the person, in plain JSON without variables.

https://modelcontextprotocol.io/docs/develop/connect-local-servers
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_app_data

CLAUDE_DESKTOP = Host(
    key="claude-desktop",
    title="Claude Desktop",
    dialect=Dialect(),
    places=(Place(in_app_data("Claude/claude_desktop_config.json")),),
    sources=("https://modelcontextprotocol.io/docs/develop/connect-local-servers",),
)
