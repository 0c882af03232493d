"""Codex: TOML, no variables, and servers see only a few variables of its environment besides those that it names.

A project's file is read by Codex only after the person trusted the project.

https://developers.openai.com/codex/mcp
https://developers.openai.com/codex/config-reference
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, in_project, in_variable
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.toml import Toml

CODEX = Host(
    key="codex",
    title="Codex",
    dialect=Dialect(
        syntax=Toml(),
        tables=(("mcp_servers",),),
        shapes=(Shape(inherited=("env_vars",)),),
        urls=(("url",),),
        disabled=(("enabled", False),),
    ),
    places=(
        Place(in_variable("CODEX_HOME", ".codex", "config.toml")),
        Place(in_project(".codex/config.toml"), Scope.PROJECT),
    ),
    sources=("https://developers.openai.com/codex/mcp", "https://developers.openai.com/codex/config-reference"),
)
