"""Warp: what it reads from files and exports to them: a table of servers under one of several names, or bare.

Servers that were made in its settings are in its own database; an export has them in this form.

https://docs.warp.dev/agents/capabilities/mcp
https://www.skills.sh/warpdotdev/warp/agent-add-mcp (its files)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, in_home, in_project
from supervisord_mcp.hosts.entry import Scope

WARP = Host(
    key="warp",
    title="Warp",
    dialect=Dialect(
        tables=(("mcpServers",), ("mcp_servers",), ("servers",)),
        shapes=(Shape(cwd=("working_directory",)),),
        bare=True,
    ),
    places=(Place(in_home(".warp/.mcp.json")), Place(in_project(".warp/.mcp.json"), Scope.PROJECT)),
    sources=("https://docs.warp.dev/agents/capabilities/mcp",),
)
