"""Goose: ``extensions`` in YAML; the values of ``env_keys`` are in its keyring, and handed to the server by it.

https://block.github.io/goose/docs/guides/config-files
https://block.github.io/goose/docs/getting-started/using-extensions
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Platform, Shape, Surroundings
from supervisord_mcp.hosts.yaml import Yaml


def _config(where: Surroundings) -> Iterable[Path]:
    if where.platform is Platform.WINDOWS:
        return (where.app_data / "Block" / "goose" / "config" / "config.yaml",)
    return (where.config / "goose" / "config.yaml",)


GOOSE = Host(
    key="goose",
    title="Goose",
    dialect=Dialect(
        syntax=Yaml(),
        tables=(("extensions",),),
        shapes=(Shape(command=("cmd",), env=("envs",), cwd=None, kept=("env_keys",)),),
        urls=(("uri",),),
        disabled=(("enabled", False),),
        ignored=frozenset({"builtin", "platform", "frontend", "inline_python"}),
    ),
    places=(Place(_config),),
    sources=(
        "https://block.github.io/goose/docs/guides/config-files",
        "https://block.github.io/goose/docs/getting-started/using-extensions",
    ),
)
