"""Cline: a file of the person that all its applications share, and the older one of each editor.

Its newest release has what starts a server in an object of its own, ``transport``, and reads the older form too.
Its documentation names no variables; a text that reads ``${env:NAME}`` was surely not meant for the server.

https://docs.cline.bot/getting-started/config
https://docs.cline.bot/mcp/configuring-mcp-servers
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, Surroundings
from supervisord_mcp.hosts.families.vscode import in_extension
from supervisord_mcp.hosts.variables import env

_NAME = "cline_mcp_settings.json"


def _shared(where: Surroundings) -> Iterable[Path]:
    root = where.home / (where.environ.get("CLINE_DIR") or ".cline")
    data = root / (where.environ.get("CLINE_DATA_DIR") or "data")
    return (data / "settings" / _NAME,)


CLINE = Host(
    key="cline",
    title="Cline",
    dialect=Dialect(
        shapes=(
            Shape(
                ("transport", "command"),
                ("transport", "args"),
                ("transport", "env"),
                ("transport", "cwd"),
            ),
            Shape(),
        ),
        urls=(("url",), ("transport", "url")),
        variables=env,
    ),
    places=(Place(_shared), Place(in_extension("saoudrizwan.claude-dev", _NAME), label="extension")),
    sources=("https://docs.cline.bot/getting-started/config", "https://docs.cline.bot/mcp/configuring-mcp-servers"),
)
