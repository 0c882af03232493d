"""Roo Code: a file of the person in every editor, and one of the project.

https://docs.roocode.com/features/mcp/using-mcp-in-roo
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.families.vscode import in_extension
from supervisord_mcp.hosts.variables import editor

ROO = Host(
    key="roo",
    title="Roo Code",
    dialect=Dialect(variables=editor),
    places=(
        Place(in_extension("rooveterinaryinc.roo-cline", "mcp_settings.json"), label="extension"),
        Place(in_project(".roo/mcp.json"), Scope.PROJECT),
    ),
    sources=("https://docs.roocode.com/features/mcp/using-mcp-in-roo",),
)
