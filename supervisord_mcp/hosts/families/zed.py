"""Zed: ``context_servers`` in its settings, JSON with comments and trailing commas, no variables.

The older form has the command as an object. An entry without a command belongs to an extension.

https://zed.dev/docs/ai/mcp
https://zed.dev/docs/configuring-zed (where the settings are)
https://github.com/zed-industries/zed/blob/main/docs/src/assistant/context-servers.md (the older form)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Platform, Shape, Surroundings, in_home, in_project
from supervisord_mcp.hosts.entry import Scope


def _settings(where: Surroundings) -> Iterable[Path]:
    if where.platform is Platform.WINDOWS:
        return (where.app_data / "Zed" / "settings.json",)
    return (where.config / "zed" / "settings.json",)


ZED = Host(
    key="zed",
    title="Zed",
    dialect=Dialect(
        tables=(("context_servers",),),
        shapes=(
            Shape(("command", "path"), ("command", "args"), ("command", "env"), cwd=None),
            Shape(),
        ),
        urls=(("url",),),
        disabled=(("enabled", False),),
        elsewhere=frozenset({"settings", "source", "enabled"}),
    ),
    places=(
        Place(_settings),
        Place(in_home(".var/app/dev.zed.Zed/config/zed/settings.json"), label="flatpak"),
        Place(in_project(".zed/settings.json"), Scope.PROJECT),
    ),
    sources=("https://zed.dev/docs/ai/mcp", "https://zed.dev/docs/configuring-zed"),
)
