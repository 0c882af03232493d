"""Amp: ``amp.mcpServers`` in its settings, JSON with comments; those of a workspace need approval.

Its manual lets a text refer to ``${NAME}``. What its extension for VS Code keeps in the settings of the editor is not
looked at.

https://ampcode.com/manual
https://www.developersdigest.tech/reference/amp/config-files
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import braces

_NAMES = ("settings.json", "settings.jsonc")

AMP = Host(
    key="amp",
    title="Amp",
    dialect=Dialect(tables=(("amp.mcpServers",),), variables=braces),
    places=(
        Place(in_home(*(f".config/amp/{name}" for name in _NAMES))),
        Place(in_project(*(f".amp/{name}" for name in _NAMES)), Scope.PROJECT),
    ),
    sources=("https://ampcode.com/manual",),
)
