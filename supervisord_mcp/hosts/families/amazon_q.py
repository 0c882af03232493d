"""Amazon Q Developer: servers of agents in the editor and on the command line, and the older ``mcp.json`` of both.

https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/mcp-ide.html
https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/qdev-mcp.html
https://aws.github.io/amazon-q-developer-cli/agent-format.html
"""

from __future__ import annotations

from supervisord_mcp.hosts.base import (
    Dialect,
    Host,
    Place,
    in_home,
    in_home_directory,
    in_project,
    in_project_directory,
)
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.variables import env

_AGENTS, _AGENTS_OF_PERSON = ".amazonq/cli-agents", ".aws/amazonq/cli-agents"
_NAMES = ("mcp.json", "default.json", "agents/default.json")

AMAZON_Q = Host(
    key="amazon-q",
    title="Amazon Q",
    dialect=Dialect(variables=env),
    places=(
        Place(in_home(*(f".aws/amazonq/{name}" for name in _NAMES))),
        Place(in_home_directory(_AGENTS_OF_PERSON, "*.json"), label="agent", pattern=f"~/{_AGENTS_OF_PERSON}/*.json"),
        Place(in_project(*(f".amazonq/{name}" for name in _NAMES)), Scope.PROJECT),
        Place(in_project_directory(_AGENTS, "*.json"), Scope.PROJECT, "agent", pattern=f"{_AGENTS}/*.json"),
    ),
    sources=(
        "https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/mcp-ide.html",
        "https://aws.github.io/amazon-q-developer-cli/agent-format.html",
    ),
)
