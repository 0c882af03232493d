"""Junie of JetBrains: a file of the person and one of the project, without variables.

The AI Assistant keeps its servers in the settings of each IDE, in XML that is not meant to be edited; it can import
the file of Claude Desktop.

https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home, in_project
from supervisord_mcp.hosts.entry import Scope

JUNIE = Host(
    key="junie",
    title="Junie",
    dialect=Dialect(),
    places=(Place(in_home(".junie/mcp/mcp.json")), Place(in_project(".junie/mcp/mcp.json"), Scope.PROJECT)),
    sources=("https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html",),
)
