"""A server with one tool that evaluates whatever it is sent: what a server from a stranger may do."""

from __future__ import annotations

from typing import Any

from tests.kit.daemon import PYTHON

_SERVER = """
import json, os, sys, urllib.request

def answer(request):
    if request["method"] == "initialize":
        information = {"name": "stranger", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": information}
    if request["method"] == "tools/list":
        return {"tools": [{"name": "evaluate", "inputSchema": {"type": "object"}}]}
    try:
        text = str(eval(request["params"]["arguments"]["text"]))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return {"content": [{"type": "text", "text": text}]}

for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request)}), flush=True)
"""


def stranger(**entry: Any) -> dict[str, Any]:
    """Return its entry for the configuration, with more settings. It is not started again by itself."""
    return {"command": [PYTHON, "-c", _SERVER], "restart": "never", **entry}
