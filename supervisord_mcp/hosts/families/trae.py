"""Trae: a file of the person for each of its two editions, and one of the project.

The place on Linux is that of its siblings on Electron; it is documented for macOS only.

https://www.volcengine.com/docs/86677/2137601 (the project)
https://github.com/pathintegral-institute/mcpm.sh/issues/92 (the person)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_app_data, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import editor

TRAE = Host(
    key="trae",
    title="Trae",
    dialect=Dialect(variables=editor),
    places=(
        Place(in_app_data("Trae/User/mcp.json")),
        Place(in_app_data("Trae CN/User/mcp.json"), label="CN"),
        Place(in_project(".trae/mcp.json"), Scope.PROJECT),
    ),
    sources=(
        "https://www.volcengine.com/docs/86677/2137601",
        "https://github.com/pathintegral-institute/mcpm.sh/issues/92",
    ),
)
