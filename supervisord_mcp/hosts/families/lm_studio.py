"""LM Studio: one file of the person in the notation of Cursor, without its variables.

https://lmstudio.ai/docs/app/mcp
https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1371 (the directory of older installations)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import Dialect, Host, Place, in_home

LM_STUDIO = Host(
    key="lm-studio",
    title="LM Studio",
    dialect=Dialect(),
    places=(Place(in_home(".lmstudio/mcp.json")), Place(in_home(".cache/lm-studio/mcp.json"), label="older")),
    sources=("https://lmstudio.ai/docs/app/mcp",),
)
