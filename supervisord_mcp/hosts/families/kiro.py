"""Kiro: settings of the person and the workspace, and servers of agents; ``${NAME}`` in all of them.

https://kiro.dev/docs/mcp/configuration
https://kiro.dev/docs/cli/chat/configuration
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import (
    Dialect,
    Host,
    Place,
    in_home,
    in_home_directory,
    in_project,
    in_project_directory,
)
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import braces

KIRO = Host(
    key="kiro",
    title="Kiro",
    dialect=Dialect(variables=braces),
    places=(
        Place(in_home(".kiro/settings/mcp.json")),
        Place(in_home_directory(".kiro/agents", "*.json"), label="agent", pattern="~/.kiro/agents/*.json"),
        Place(in_project(".kiro/settings/mcp.json"), Scope.PROJECT),
        Place(in_project_directory(".kiro/agents", "*.json"), Scope.PROJECT, "agent", pattern=".kiro/agents/*.json"),
    ),
    sources=("https://kiro.dev/docs/mcp/configuration", "https://kiro.dev/docs/cli/chat/configuration"),
)
