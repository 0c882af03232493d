"""Gemini CLI and what was made of it, Qwen Code: ``settings.json`` of the person and the project, variables everywhere.

Both replace ``$NAME`` and ``${NAME}`` in every text of the file, and read files with comments.

https://geminicli.com/docs/tools/mcp-server
https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
https://github.com/google-gemini/gemini-cli/blob/main/docs/get-started/configuration.md (``mcp.excluded``)
https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home, in_project
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.syntax import value_at
from supervisord_mcp.hosts.variables import dollars


def _excluded(data: Any) -> Iterable[str]:
    try:
        names = value_at(data, ("mcp", "excluded"))
    except KeyError:
        return ()
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else ()


_DIALECT = Dialect(urls=("httpUrl", "url", "tcp"), disabled=(), variables=dollars, switched_off=_excluded)


def _build(key: str, title: str, directory: str, *sources: str) -> Host:
    return Host(
        key=key,
        title=title,
        dialect=_DIALECT,
        places=(
            Place(in_home(f"{directory}/settings.json")),
            Place(in_project(f"{directory}/settings.json"), Scope.PROJECT),
        ),
        sources=sources,
    )


GEMINI = _build("gemini", "Gemini CLI", ".gemini", "https://geminicli.com/docs/tools/mcp-server")
QWEN = _build("qwen", "Qwen Code", ".qwen", "https://qwenlm.github.io/qwen-code-docs/en/users/features/mcp")
