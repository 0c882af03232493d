"""The fake server in the revision 2026-07-28: no handshake, an envelope in every request, input asked for by results.

Switches: eras (list of "legacy" and "modern", the first one alone by default), lenient (not bound to the era of the
first words, as some SDKs are), hints{ttlMs, cacheScope}, end_listens(ms: each listen is ended that long after its
acknowledgement), listens (false: not served).
"""

from __future__ import annotations

import json

from tests.kit.fserver_protocol import ASK, LEVELS, Call, RpcError, text
from tests.kit.fserver_tools import ToolServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.kit.fserver import Message, Process

PREFIX = "io.modelcontextprotocol/"
VERSION = "2026-07-28"
CACHEABLE = ("server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
FILTERS = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}


class DualServer(ToolServer):
    """The whole fake server, in one era or in both."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self.eras: list[str] = self.switches.get("eras", ["legacy"])
        self.bound = ""
        self.modern: dict[str, str] = {}
        self.listens: dict[str, Message] = {}

    def on_request(self, message: Message) -> None:
        """Take a request in the era that it is made in."""
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        claims = isinstance(meta, dict) and f"{PREFIX}protocolVersion" in meta
        if message["method"] == "initialize" and not claims:
            if "legacy" not in self.eras or (self.bound == "modern" and not self.switches.get("lenient")):
                self.refuse(message["id"], -32022, "no handshake", {"supported": [VERSION]})
                return
            self.bound = "legacy"
        elif claims and "modern" in self.eras:
            if self.bound == "legacy":
                self.refuse(message["id"], -32600, "a modern request after a handshake")
                return
            self.bound = "modern"
            self.on_modern(message, dict(meta or {}))
            return
        elif "legacy" not in self.eras:
            self.refuse(message["id"], -32602, "params._meta is missing")
            return
        super().on_request(message)

    def refuse(self, id_: object, code: int, why: str, data: object = None) -> None:
        """Answer with an error."""
        self.send({"id": id_, "error": {"code": code, "message": why} | ({} if data is None else {"data": data})})

    def on_modern(self, message: Message, meta: Message) -> None:
        """Take a request of the modern era."""
        id_, version = message["id"], meta[f"{PREFIX}protocolVersion"]
        if not isinstance(meta.get(f"{PREFIX}clientCapabilities"), dict):
            self.refuse(id_, -32602, "clientCapabilities is missing")
        elif version != VERSION:
            self.refuse(id_, -32022, "unsupported", {"supported": [VERSION], "requested": version})
        elif message["method"] in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            self.refuse(id_, -32601, f"Method not found: {message['method']}")
        else:
            self.state = "ready"
            self.modern[json.dumps(id_)] = message["method"]
            level = meta.get(f"{PREFIX}logLevel")
            self.level = len(LEVELS) if level is None else LEVELS.index(level)
            super().on_request(message)

    def answer(self, id_: object, body: Message) -> None:
        """Answer in the era of the request."""
        method = self.modern.pop(json.dumps(id_), None)
        if method is not None and "result" in body:
            hints = {"ttlMs": 0, "cacheScope": "private"} | self.switches.get("hints", {})
            info = self.switches.get("server_info", {"name": "fserver", "version": "1"})
            result = {"resultType": "complete"} | (hints if method in CACHEABLE else {}) | body["result"]
            result["_meta"] = result.get("_meta", {}) | {f"{PREFIX}serverInfo": info}
            body = {"result": result}
        super().answer(id_, body)

    def on_server_discover(self, call: Call) -> Message | None:  # type: ignore[override]
        """Say what this server is, where it is modern."""
        if "modern" not in self.eras:
            super().on_server_discover(call)
            return None
        capabilities = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "logging": {},
            "completions": {},
        }
        result: Message = {
            "supportedVersions": [VERSION],
            "capabilities": self.switches.get("capabilities", capabilities),
        }
        if "instructions" in self.switches:
            result["instructions"] = self.switches["instructions"]
        return result

    # -- listens ---------------------------------------------------------------------------------------------------

    def on_subscriptions_listen(self, call: Call) -> None:
        """Open a listen."""
        if self.switches.get("listens") is False:
            raise RpcError(-32601, "Method not found: subscriptions/listen")
        wanted = call.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(-32602, "notifications is missing")
        self.listens[json.dumps(call.id)] = {"id": call.id, **wanted}
        self.tell(call.id, "notifications/subscriptions/acknowledged", {"notifications": wanted})
        if "end_listens" in self.switches:
            self.process.after(self.switches["end_listens"] / 1000, lambda: self.end_listen(call))

    def end_listen(self, call: Call) -> None:
        """End a listen in order."""
        if self.listens.pop(json.dumps(call.id), None) is not None:
            self.finish(call, {"result": {"_meta": {f"{PREFIX}subscriptionId": call.id}}})

    def tell(self, listen: object, method: str, params: Message) -> None:
        """Send a notification for a listen."""
        super().notify(method, params | {"_meta": {f"{PREFIX}subscriptionId": listen}})

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification, in this era only to those who listen for it."""
        if self.bound != "modern" or method in ("notifications/progress", "notifications/message"):
            super().notify(method, params)
            return
        for listen in list(self.listens.values()):
            uris = listen.get("resourceSubscriptions", ())
            wanted = listen.get(FILTERS.get(method, "")) or any(
                str((params or {}).get("uri", "")).startswith(uri) for uri in uris
            )
            if wanted:
                self.tell(listen["id"], method, params or {})

    def on_notification(self, method: str, params: Message) -> None:
        """Take a notification; the end of a listen is one."""
        if method == "notifications/cancelled":
            self.listens.pop(json.dumps(params.get("requestId")), None)
        super().on_notification(method, params)

    def tool_touch(self, call: Call, uri: str, sub: str = "") -> Message:
        """Change a resource (or a part of it) and tell those who listen."""
        if self.bound != "modern":
            return super().tool_touch(call, uri, sub)
        if uri in self.versions:
            self.versions[uri] += 1
        self.notify("notifications/resources/updated", {"uri": uri + sub})
        return text("touched")

    # -- input -----------------------------------------------------------------------------------------------------

    def tool_ask(
        self, call: Call, kind: str, ask_id: object = None, later_ms: float | None = None, rounds: int = 1
    ) -> Message | None:
        """Ask the client: by a result in this era, as often as told; the reply of the last round is the text."""
        if self.bound != "modern":
            return super().tool_ask(call, kind, ask_id, later_ms)
        state = call.params.get("requestState")
        done = 0 if state is None else int(state.split(":")[1])
        if state is not None and state != f"{self.process.run}:{done}:é/+=":
            raise RpcError(-32602, "Invalid or expired requestState")
        if done >= rounds:
            return text(call.params["inputResponses"]["k"])
        method, params = ASK[kind]
        wanted: Message = {"method": method} | ({"params": params} if params else {})
        told = {"resultType": "input_required", "inputRequests": {"k": wanted}}
        return told | {"requestState": f"{self.process.run}:{done + 1}:é/+="}
