"""Crush: servers under ``mcp``, texts are expanded as a shell would.

https://github.com/charmbracelet/crush#mcps
https://github.com/charmbracelet/crush#configuration
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Platform, Surroundings, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import shell


def _config(where: Surroundings) -> Iterable[Path]:
    if where.platform is Platform.WINDOWS:
        return (where.local_app_data / "crush" / "crush.json",)
    return (where.config / "crush" / "crush.json", where.data / "crush" / "crush.json")


CRUSH = Host(
    key="crush",
    title="Crush",
    dialect=Dialect(tables=(("mcp",),), urls=(("url",),), variables=shell),
    places=(Place(_config), Place(in_project(".crush.json", "crush.json"), Scope.PROJECT)),
    sources=("https://github.com/charmbracelet/crush",),
)
