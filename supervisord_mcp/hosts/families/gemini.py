"""Gemini CLI and what was made of it, Qwen Code: ``settings.json`` of the person and the project, variables everywhere.

Both replace ``$NAME`` and ``${NAME}`` in every text of the file, and read files with comments. A default
(``${NAME:-default}``) is known to the first only, whose source says so.

https://geminicli.com/docs/tools/mcp-server
https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
https://github.com/google-gemini/gemini-cli/blob/main/docs/get-started/configuration.md (``mcp.excluded``)
https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp
"""

from __future__ import annotations

from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.base import Dialect, Host, Place, in_project, in_variable
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.syntax import value_at
from supervisord_mcp.hosts.variables import dollars


def _is_excluded(data: Any, path: KeyPath) -> bool:
    try:
        names = value_at(data, ("mcp", "excluded"))
    except KeyError:
        return False
    return isinstance(names, list) and path[-1] in names


_DIALECT = Dialect(urls=(("httpUrl",), ("url",), ("tcp",)), disabled=(), variables=dollars, switched_off=_is_excluded)


def _build(key: str, title: str, person: Place, directory: str, source: str) -> Host:
    return Host(
        key=key,
        title=title,
        dialect=_DIALECT,
        places=(person, Place(in_project(f"{directory}/settings.json"), Scope.PROJECT)),
        sources=(source,),
    )


#: This variable stands for the home directory.
_GEMINI = Place(in_variable("GEMINI_CLI_HOME", "", ".gemini/settings.json"))
_QWEN = Place(in_variable("QWEN_HOME", ".qwen", "settings.json"))

GEMINI = _build("gemini", "Gemini CLI", _GEMINI, ".gemini", "https://geminicli.com/docs/tools/mcp-server")
QWEN = _build("qwen", "Qwen Code", _QWEN, ".qwen", "https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp")
