"""Cursor: a file of the person and one of the project, with variables in the manner of VS Code.

https://cursor.com/docs/context/mcp
https://github.com/getsentry/xcodebuildmcp.com/pull/15 (the workspace in the file of the person)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, in_home, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import editor

CURSOR = Host(
    key="cursor",
    title="Cursor",
    dialect=Dialect(shapes=(Shape(env_file=("envFile",)),), variables=editor),
    places=(Place(in_home(".cursor/mcp.json")), Place(in_project(".cursor/mcp.json"), Scope.PROJECT)),
    sources=("https://cursor.com/docs/context/mcp",),
)
