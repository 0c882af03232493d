"""opencode: the command is a list of words under ``mcp``, variables are written ``{env:NAME}`` and ``{file:PATH}``.

Windows keeps the file in ``~/.config`` too.

https://opencode.ai/docs/mcp-servers
https://opencode.ai/docs/config
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, Surroundings, in_config, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import curly

#: Kilo Code is built on it.
DIALECT = Dialect(
    tables=(("mcp",),),
    shapes=(Shape(args=None, env=("environment",)),),
    urls=(("url",),),
    disabled=(("enabled", False),),
    variables=curly,
    # An entry that only says ``enabled`` switches one of a remote default configuration.
    elsewhere=frozenset({"enabled"}),
)
_NAMES = ("opencode.json", "opencode.jsonc")


def _named(where: Surroundings) -> Iterable[Path]:
    if value := where.environ.get("OPENCODE_CONFIG"):
        yield where.home / value
    if value := where.environ.get("OPENCODE_CONFIG_DIR"):
        yield from (where.home / value / name for name in _NAMES)


OPENCODE = Host(
    key="opencode",
    title="opencode",
    dialect=DIALECT,
    places=(
        Place(in_config(*(f"opencode/{name}" for name in (*_NAMES, "config.json")))),
        Place(_named, label="variable"),
        Place(in_project(*_NAMES, *(f".opencode/{name}" for name in _NAMES)), Scope.PROJECT),
    ),
    sources=("https://opencode.ai/docs/mcp-servers", "https://opencode.ai/docs/config"),
)
