"""Claude Desktop: one file of the person, in plain JSON without variables.

Linux has only builds by others, which keep to the directory of Electron. The package of the Windows store sees its own
copy of ``%APPDATA%``.

https://modelcontextprotocol.io/docs/develop/connect-local-servers
https://github.com/anthropics/claude-code/issues/26073 (the package of the store)
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Platform, Surroundings, in_app_data


def _in_store_package(where: Surroundings) -> Iterable[Path]:
    if where.platform is Platform.WINDOWS:
        for package in sorted((where.local_app_data / "Packages").glob("Claude_*")):
            yield package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"


CLAUDE_DESKTOP = Host(
    key="claude-desktop",
    title="Claude Desktop",
    dialect=Dialect(),
    places=(Place(in_app_data("Claude/claude_desktop_config.json")), Place(_in_store_package, label="Windows store")),
    sources=("https://modelcontextprotocol.io/docs/develop/connect-local-servers",),
)
