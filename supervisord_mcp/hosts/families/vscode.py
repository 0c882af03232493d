"""VS Code and its builds: ``servers`` with ``inputs`` in ``mcp.json`` of a profile or a workspace.

Servers in ``settings.json`` (``mcp.servers``) are of the first releases with MCP; they still work. What the host asks
for (``${input:ID}``) it keeps in its own secret storage.

https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
https://code.visualstudio.com/docs/reference/variables-reference
https://code.visualstudio.com/docs/configure/settings (directories of the user)
https://code.visualstudio.com/docs/configure/profiles
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.base import Dialect, Host, Place, Shape, Surroundings, in_app_data, in_profiles, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.syntax import value_at
from supervisord_mcp.hosts.variables import Input, editor

_SOURCES = (
    "https://code.visualstudio.com/docs/copilot/reference/mcp-configuration",
    "https://code.visualstudio.com/docs/reference/variables-reference",
    "https://code.visualstudio.com/docs/configure/profiles",
)


def inputs_at(*path: str) -> Callable[[Any], Mapping[str, Input]]:
    """Return a function that finds what a file asks for, at a path of it."""
    place: KeyPath = path

    def find(data: Any) -> Mapping[str, Input]:
        try:
            listed = value_at(data, place)
        except KeyError:
            return {}
        asked = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        return {
            str(one.get("id")): Input(str(one.get("description") or ""), one.get("password") is True) for one in asked
        }

    return find


#: ``mcp.json``.
DIALECT = Dialect(
    tables=(("servers",),),
    shapes=(Shape(env_file=("envFile",)),),
    disabled=(),
    variables=editor,
    inputs=inputs_at("inputs"),
)
_SETTINGS = replace(DIALECT, tables=(("mcp", "servers"),), inputs=inputs_at("mcp", "inputs"))
_DEVCONTAINER = replace(
    DIALECT,
    tables=(("customizations", "vscode", "mcp", "servers"),),
    inputs=inputs_at("customizations", "vscode", "mcp", "inputs"),
)


def _build(key: str, title: str, directory: str) -> Host:
    return Host(
        key=key,
        title=title,
        dialect=DIALECT,
        places=(
            Place(in_app_data(f"{directory}/User/mcp.json")),
            Place(
                in_profiles(f"{directory}/User/profiles/*", "mcp.json"),
                label="profile",
                pattern=f"~/.config/{directory}/User/profiles/*/mcp.json",
            ),
            Place(in_app_data(f"{directory}/User/settings.json"), label="settings", dialect=_SETTINGS),
            Place(in_project(".vscode/mcp.json"), Scope.PROJECT),
            Place(in_project(".vscode/settings.json"), Scope.PROJECT, "settings", _SETTINGS),
            Place(in_project(".devcontainer/devcontainer.json"), Scope.PROJECT, "container", _DEVCONTAINER),
        ),
        sources=_SOURCES,
    )


VSCODE = _build("vscode", "VS Code", "Code")
VSCODE_INSIDERS = _build("vscode-insiders", "VS Code Insiders", "Code - Insiders")
VSCODIUM = _build("vscodium", "VSCodium", "VSCodium")

#: Directories of editors in which extensions of VS Code run, below that for applications.
EDITORS = ("Code", "Code - Insiders", "VSCodium", "Cursor", "Windsurf", "Trae", "Kiro", "Antigravity")


def in_extension(identifier: str, name: str) -> Callable[[Surroundings], Iterable[Path]]:
    """Return where a file is that an extension keeps in its global storage, in every editor."""
    return in_app_data(*(f"{editor}/User/globalStorage/{identifier}/settings/{name}" for editor in EDITORS))
