"""GitHub Copilot outside of VS Code: its command line, and its plugins for JetBrains and Xcode.

The command line reads ``.mcp.json`` of a project too, which is listed with Claude Code. The plugins use the form of
VS Code, without a word for the project that is open; the place of the one for JetBrains is documented for Windows only,
the others are those that it was seen in.

https://github.com/github/github-mcp-server/blob/main/docs/installation-guides/install-copilot-cli.md
https://code.visualstudio.com/docs/agents/reference/mcp-configuration (``COPILOT_HOME``)
https://docs.github.com/en/copilot/how-tos/provide-context/use-mcp/extend-copilot-chat-with-mcp
https://github.com/microsoft/apm/issues/1225 (the plugin for JetBrains)
https://github.com/microsoft/copilot-intellij-feedback/issues/715 (no ``${workspaceFolder}``)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from supervisord_mcp.hosts.base import Dialect, Host, Place, Platform, Surroundings, in_variable
from supervisord_mcp.hosts.families.vscode import DIALECT
from supervisord_mcp.hosts.variables import dollars, plugin


def _plugins(where: Surroundings) -> Iterable[Path]:
    base = where.local_app_data if where.platform is Platform.WINDOWS else where.config
    names = ("intellij", "xcode") if where.platform is Platform.MACOS else ("intellij",)
    return (base / "github-copilot" / name / "mcp.json" for name in names)


COPILOT_CLI = Host(
    key="copilot-cli",
    title="Copilot CLI",
    dialect=Dialect(variables=dollars),
    places=(Place(in_variable("COPILOT_HOME", ".copilot", "mcp-config.json")),),
    sources=("https://code.visualstudio.com/docs/agents/reference/mcp-configuration",),
)
COPILOT_PLUGINS = Host(
    key="copilot-plugins",
    title="Copilot for JetBrains and Xcode",
    dialect=replace(DIALECT, variables=plugin),
    places=(Place(_plugins),),
    sources=("https://docs.github.com/en/copilot/how-tos/provide-context/use-mcp/extend-copilot-chat-with-mcp",),
)
