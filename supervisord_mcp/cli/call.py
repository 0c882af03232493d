"""``smcp call``: call one tool and print what it returns."""

from __future__ import annotations

import sys
from typing import Annotated

import msgspec
import typer
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.cli.client import SLOW, connected
from supervisord_mcp.cli.output import busy, print_json, print_line
from supervisord_mcp.cli.parameters import AsJson, Project, ServerName, project_root
from supervisord_mcp.errors import SmcpError, UsageError
from supervisord_mcp.protocol import control


class _Result(msgspec.Struct):
    """What a tool returns; the blocks of content differ by type, and a newer server may have new ones."""

    content: list[Raw] = []
    structured: Raw | UnsetType = msgspec.field(default=UNSET, name="structuredContent")
    failed: bool = msgspec.field(default=False, name="isError")


def call(
    name: ServerName,
    tool: Annotated[str, typer.Argument(help="Name of the tool.", metavar="TOOL")],
    arguments: Annotated[
        str, typer.Argument(help="The arguments: one JSON object, or - to read it from stdin.", metavar="JSON")
    ] = "{}",
    *,
    project: Project = None,
    as_json: AsJson = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=0.001, metavar="SECONDS", help="How long the tool may take.")
    ] = 300.0,
) -> None:
    """Call a tool and print what it returns.

    Starts the server if it does not run, and the daemon too. What the server's entry takes from the environment is
    taken from yours, as for a host. The exit status is 1 if the tool failed.
    """
    operation = control.Call(
        name=name, tool=tool, arguments=_object(arguments), project=project_root(project), timeout=timeout
    )
    with connected(start=True, as_host=True) as client, busy(f"calling {tool} of {name}") as tell:
        raw = client.ask(operation, timeout + SLOW, tell)
    result = control.parse_result(raw, _Result)
    if as_json:
        print_json(raw)
        if result.failed:
            raise typer.Exit(1)
        return
    if result.failed:
        error = SmcpError(f"{tool} of {name}: " + ("\n".join(map(_shown, result.content)) or "the tool gave no reason"))
        error.code = "tool"
        raise error
    for block in result.content:
        print_line(_shown(block))
    if not result.content and isinstance(result.structured, Raw):
        print_json(result.structured)


def _object(text: str) -> Raw:
    """Given what was typed for the arguments, return it as JSON, untouched. Raise `UsageError` if it is no object."""
    data = sys.stdin.buffer.read() if text == "-" else text.encode(errors="surrogateescape")
    try:
        msgspec.json.decode(data, type=dict[str, Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"the arguments are not one JSON object: {error}", remedy=_EXAMPLE) from error
    return Raw(data)


_EXAMPLE = """write them like this: '{"path": "/tmp", "deep": true}'"""


def _shown(raw: Raw) -> str:
    """Given one block of content, return the text of it, or a word for what a terminal cannot show."""
    try:
        block = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        # A number too large for us, somewhere in what we would not show anyway.
        block = {}
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "resource", "resource": {"text": str(text)}}:
            return text
        case {"type": "resource", "resource": {"uri": str(uri)}} | {"type": "resource_link", "uri": str(uri)}:
            return f"[resource {uri}]"
        case {"type": str(kind), "data": str(data)}:
            return f"[{kind} {block.get('mimeType', '')}, {len(data) * 3 // 4} bytes; --json has it]"
        case {"type": str(kind)}:
            return f"[{kind}; --json has it]"
        case _:
            return "[content; --json has it]"
