"""Windsurf: one file of the person, each for the editor and the plugin of other editors.

https://docs.windsurf.com/windsurf/cascade/mcp
https://docs.windsurf.com/plugins/cascade/mcp
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home
from supervisord_mcp.hosts.variables import env

WINDSURF = Host(
    key="windsurf",
    title="Windsurf",
    dialect=Dialect(variables=env),
    places=(
        Place(in_home(".codeium/windsurf/mcp_config.json")),
        Place(in_home(".codeium/mcp_config.json"), label="plugin"),
    ),
    sources=("https://docs.windsurf.com/windsurf/cascade/mcp", "https://docs.windsurf.com/plugins/cascade/mcp"),
)
