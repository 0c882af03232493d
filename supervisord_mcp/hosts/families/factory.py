"""Factory: its command line (Droid) with a file of the person and one of the project, and the older Bridge.

Which variables it knows is not documented there; those of ``.mcp.json`` are taken.

https://docs.factory.ai/factory-cli/configuration/mcp
https://docs.factory.ai/user-guides/factory-bridge/model-context-protocol
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_app_data, in_home, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import braces

FACTORY = Host(
    key="factory",
    title="Factory",
    dialect=Dialect(variables=braces),
    places=(
        Place(in_home(".factory/mcp.json")),
        Place(in_app_data("Factory Bridge/mcp.json"), label="Bridge"),
        Place(in_project(".factory/mcp.json"), Scope.PROJECT),
    ),
    sources=(
        "https://docs.factory.ai/factory-cli/configuration/mcp",
        "https://docs.factory.ai/user-guides/factory-bridge/model-context-protocol",
    ),
)
