"""Continue: a list of servers in YAML, of the person or in files of their own, which may be JSON of other hosts too.

An entry with ``uses`` comes from its hub.

https://docs.continue.dev/customize/deep-dives/mcp
https://docs.continue.dev/reference (``mcpServers``, secrets)
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import (
    Dialect,
    Host,
    Place,
    in_home_directory,
    in_project_directory,
    in_variable,
)
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import double_braces
from supervisord_mcp.hosts.yaml import Yaml

_DIALECT = Dialect(syntax=Yaml(), name="name", variables=double_braces, elsewhere=frozenset({"uses"}))
_JSON = Dialect(variables=double_braces)
_BLOCKS = ".continue/mcpServers"
_YAMLS = ("*.yaml", "*.yml")

CONTINUE = Host(
    key="continue",
    title="Continue",
    dialect=_DIALECT,
    places=(
        Place(in_variable("CONTINUE_GLOBAL_DIR", ".continue", "config.yaml")),
        Place(in_home_directory(_BLOCKS, *_YAMLS), label="block", pattern=f"~/{_BLOCKS}/*.yaml"),
        Place(in_home_directory(_BLOCKS, "*.json"), label="block", dialect=_JSON, pattern=f"~/{_BLOCKS}/*.json"),
        Place(in_project_directory(_BLOCKS, *_YAMLS), Scope.PROJECT, "block", pattern=f"{_BLOCKS}/*.yaml"),
        Place(in_project_directory(_BLOCKS, "*.json"), Scope.PROJECT, "block", _JSON, f"{_BLOCKS}/*.json"),
    ),
    sources=("https://docs.continue.dev/customize/deep-dives/mcp", "https://docs.continue.dev/reference"),
)
