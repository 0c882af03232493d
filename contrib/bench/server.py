"""A tiny MCP server of the standard library alone, about as small as a server in Python can be.

Run as a script, without the project: it is started directly and through smcp, by the same command.
"""

from __future__ import annotations

import json
import sys


def _tool(name: str, description: str, argument: str, kind: str) -> dict[str, object]:
    # Some clients leave out what the schema does not name.
    schema = {"type": "object", "properties": {argument: {"type": kind}}, "required": [argument]}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    _tool("echo", "Return the text.", "text", "string"),
    _tool("blob", "Return so many bytes of text.", "bytes", "integer"),
]


def main() -> None:
    """Answer requests until stdin is closed."""
    write, flush = sys.stdout.buffer.write, sys.stdout.buffer.flush
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": result(message["method"], message.get("params", {}))}
        write(json.dumps(answer, separators=(",", ":")).encode() + b"\n")
        flush()


def result(method: str, params: dict[str, object]) -> dict[str, object]:
    """Return the result of a request."""
    match method:
        case "initialize":
            info = {"name": "tiny", "version": "1"}
            return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            arguments = params["arguments"]
            assert isinstance(arguments, dict)
            text = "x" * int(arguments["bytes"]) if params["name"] == "blob" else arguments["text"]
            return {"content": [{"type": "text", "text": text}], "isError": False}
        case _:
            return {}


if __name__ == "__main__":
    main()
