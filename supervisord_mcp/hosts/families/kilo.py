"""Kilo Code: today in the manner of opencode in ``kilo.json``, before that in the manner of Roo Code.

https://kilo.ai/docs/automate/mcp/using-in-kilo-code
https://kilo.ai/docs/automate/mcp/using-in-cli
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_config, in_home, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.families.opencode import DIALECT
from supervisord_mcp.hosts.families.vscode import in_extension
from supervisord_mcp.hosts.variables import editor

_OLD = Dialect(variables=editor)
_NAMES = ("kilo.json", "kilo.jsonc")

KILO = Host(
    key="kilo",
    title="Kilo Code",
    dialect=DIALECT,
    places=(
        Place(in_config(*(f"kilo/{name}" for name in _NAMES))),
        Place(in_extension("kilocode.kilo-code", "mcp_settings.json"), label="extension", dialect=_OLD),
        Place(in_home(".kilocode/cli/global/settings/mcp_settings.json"), label="older CLI", dialect=_OLD),
        Place(in_project(*_NAMES, *(f".kilo/{name}" for name in _NAMES)), Scope.PROJECT),
        Place(in_project(".kilocode/mcp.json"), Scope.PROJECT, "older", _OLD),
    ),
    sources=(
        "https://kilo.ai/docs/automate/mcp/using-in-kilo-code",
        "https://kilo.ai/docs/automate/mcp/using-in-cli",
    ),
)
