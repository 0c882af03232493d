"""``smcp tools``: what a server offers."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from msgspec import Raw

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy, console, one_line, print_json, print_table
from supervisord_mcp.cli.parameters import AsJson, Project, ServerName, project_root
from supervisord_mcp.protocol import control


class _Schema(msgspec.Struct):
    properties: dict[str, Raw] = {}
    required: list[str] = []


class _Tool(msgspec.Struct):
    """What the table shows of a tool; a server may send anything else besides."""

    name: str
    title: str = ""
    description: str = ""
    schema: Raw = msgspec.field(default=control.EMPTY_OBJECT, name="inputSchema")


def tools(
    name: ServerName,
    project: Project = None,
    as_json: AsJson = False,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the server, not the catalogue.")] = False,
) -> None:
    """Show the tools of a server.

    Starts it only if its catalogue is not known yet, and the daemon if none runs. A server that runs but is too busy to
    answer is not waited for: what it offered last is shown, unless you --refresh.
    """
    operation = control.Tools(name=name, project=project_root(project), refresh=refresh)
    with connected(start=True, as_host=True) as client, busy(f"asking {name}") as tell:
        raw = client.ask(operation, SLOW, tell)
    result = control.parse_result(raw, control.ToolsResult)
    if result.busy:
        console(stderr=True).print(f"{name} is busy and does not answer; this is what it offered last")
    if as_json:
        print_json(raw)
        return
    found = [control.parse_result(tool, _Tool) for tool in result.tools]
    if not found:
        console(stderr=True).print(f"{name} has no tools")
        return
    rows = [(tool.name, _arguments(tool.schema), one_line(tool.description or tool.title)) for tool in found]
    print_table(("TOOL", "ARGUMENTS", "DESCRIPTION"), rows)


def _arguments(raw: Raw) -> str:
    """Given the schema of the arguments, return their names; those that may be left out in brackets."""
    try:
        schema = msgspec.json.decode(raw, type=_Schema)
    except msgspec.DecodeError:
        # A schema may be written in ways that name no arguments; the tool is still worth its line.
        return "?"
    return " ".join(name if name in schema.required else f"[{name}]" for name in schema.properties)
