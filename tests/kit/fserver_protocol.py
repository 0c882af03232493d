"""The protocol side of the fake server: frames, the handshake, the lists, tasks, and the faults that live in messages.

Switches: era (the only revision it speaks), server_info, instructions, capabilities (replaces), strict_init,
strict_order, fragile, init_delay(ms), log_before_init(n), probe_reaction(error code | silent | exit code as
{"exit": n}), ping_reaction(ok | silent | error code), list_error{code, message, data}, list_pages(n), tools_extra(n),
drop_tools, fetch_roots, late(ms), reverse(window ms), serial, id_as_string, answer_unknown_id, answer_null_id,
duplicate_answer, reply_to_notification, server_request{kind, after_ms, related, id}, answer_after_cancel, tasks,
change_tools(ms after the handshake), stop_self(ms after the handshake), journal_notes.
"""

from __future__ import annotations

import json
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.fserver import Message, Process

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
URIS = ("res://r1", "res://r2")
TOOLS = (
    *("echo", "slow", "deaf", "ask", "where", "env", "flood", "touch"),
    *("change_tools", "crash", "big", "progress", "stderr", "log", "raw", "emit"),
)
FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
ASK: dict[str, tuple[str, Message]] = {
    "elicitation": ("elicitation/create", FORM),
    "sampling": ("sampling/createMessage", {"messages": [], "maxTokens": 10}),
    "roots": ("roots/list", {}),
    "ping": ("ping", {}),
}


class RpcError(Exception):
    """An error answer to the request at hand."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error: Message = {"code": code, "message": message} | ({} if data is None else {"data": data})


class Call:
    """One request that is being served."""

    def __init__(self, id_: object, params: Message) -> None:
        self.id = id_
        self.params = params
        self.arguments: Message = params.get("arguments") or {}
        self.meta: Message = params.get("_meta") or {}
        self.task: Message | None = None


def text(value: object) -> Message:
    """Return a tool result whose only text is the value, as JSON unless it is a string."""
    shown = value if isinstance(value, str) else json.dumps(value)
    return {"content": [{"type": "text", "text": shown}]}


def now_iso() -> str:
    """Return the time as tasks want it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Server:
    """The protocol side: takes lines from the process, and gives it frames."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.switches = process.switches
        self.state = "new"
        self.client_capabilities: Message = {}
        self.roots: object = None
        self.counter = 0
        self.level = 0
        self.extra_tools = int(self.switches.get("tools_extra", 0))
        self.versions = dict.fromkeys(URIS, 0)
        self.subscribed: set[str] = set()
        self.calls: dict[str, Call] = {}
        self.asked: dict[str, Callable[[Message], None]] = {}
        self.ask_count = 0
        self.tasks: dict[str, Message] = {}
        self.results: dict[str, Message] = {}
        self.waiting: dict[str, list[object]] = {}
        self.collected: list[Message] = []
        self.queue: list[Message] = []
        process.on_line = self.on_line
        process.may_leave = lambda: not (self.asked and self.switches.get("wait_at_eof"))

    # -- frames ----------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Write one frame; requests and answers are journalled."""
        line = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=not self.switches.get("raw_unicode")).encode()
        if "id" in message or self.switches.get("journal_notes"):
            self.process.journal_frame("out", line, message)
        self.process.send_line(line)

    def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification."""
        self.send({"method": method} | ({} if params is None else {"params": params}))

    def answer(self, id_: object, body: Message) -> None:
        """Answer a request, late, twice, in reverse or under a wrong id as the switches say."""
        switches = self.switches
        if switches.get("answer_unknown_id"):
            self.send({"id": 987654321, "result": text("for nobody")})
        if switches.get("answer_null_id"):
            self.send({"id": None, "error": {"code": -32603, "message": "for nobody"}})
        message: Message = {"id": str(id_) if switches.get("id_as_string") else id_, **body}
        if switches.get("reverse"):
            self.collected.append(message)
            if len(self.collected) == 1:
                self.process.after(switches["reverse"] / 1000, self.answer_collected)
            return
        delay = switches.get("late", 0) / 1000
        for _ in range(2 if switches.get("duplicate_answer") else 1):
            if delay:
                self.process.after(delay, lambda: self.send(message))
            else:
                self.send(message)

    def answer_collected(self) -> None:
        """Send the answers of the window, the last first."""
        collected, self.collected = self.collected, []
        for message in reversed(collected):
            self.send(message)

    def ask(self, kind: str, then: Callable[[Message], None], id_: object = None, meta: Message | None = None) -> None:
        """Send a request to the client and call ``then`` with its answer."""
        self.ask_count += 1
        number: object = f"s{self.ask_count}" if id_ is None else id_
        method, params = ASK[kind]
        message: Message = {"id": number, "method": method}
        if params or meta:
            message["params"] = params | ({"_meta": meta} if meta else {})
        self.asked[json.dumps(number)] = then
        self.send(message)

    # -- lines in --------------------------------------------------------------------------------------------------

    def on_line(self, line: bytes) -> None:
        """Take one line from the client."""
        try:
            message = json.loads(line)
            if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
                raise TypeError("no JSON-RPC object")
            json.dumps(message, ensure_ascii=False).encode()
        except (ValueError, TypeError, RecursionError) as error:
            self.process.journal("garbage", size=len(line), raw=line[:200].decode("latin-1"), why=str(error)[:200])
            if self.switches.get("fragile"):
                self.process.leave(0, "fragile")
            return
        self.process.journal_frame("in", line, message)
        if "method" not in message:
            then = self.asked.pop(json.dumps(message.get("id")), None)
            if then is None:
                self.process.journal("stray", id=message.get("id"))
            else:
                then(message)
        elif "id" in message:
            self.on_request(message)
        else:
            self.on_notification(message["method"], message.get("params") or {})

    def on_notification(self, method: str, params: Message) -> None:
        """Take a notification."""
        if self.switches.get("reply_to_notification"):
            self.send({"id": None, "result": {}})
        match method:
            case "notifications/initialized":
                self.state = "ready"
                self.when_ready()
            case "notifications/cancelled":
                call = self.calls.get(json.dumps(params.get("requestId")))
                if call and call.params.get("name") != "deaf":
                    del self.calls[json.dumps(call.id)]
                    if self.switches.get("answer_after_cancel"):
                        self.send({"id": call.id, "error": {"code": 0, "message": "Request cancelled"}})
            case "notifications/roots/list_changed":
                self.fetch_roots()

    def when_ready(self) -> None:
        """Do what the switches want done right after the handshake."""
        if self.switches.get("fetch_roots") and "roots" in self.client_capabilities:
            self.fetch_roots()
        told = self.switches.get("server_request")
        if told and not told.get("related"):
            ask = lambda: self.ask(told["kind"], lambda reply: None, id_=told.get("id"))  # noqa: E731
            self.process.after(told.get("after_ms", 0) / 1000, ask)
        if "stop_self" in self.switches:
            self.process.after(self.switches["stop_self"] / 1000, lambda: os.kill(os.getpid(), signal.SIGSTOP))
        if "change_tools" in self.switches:
            self.process.after(self.switches["change_tools"] / 1000, self.change_tools)

    def change_tools(self) -> None:
        """Add a tool and say so."""
        self.extra_tools += 1
        self.notify("notifications/tools/list_changed")

    def fetch_roots(self) -> None:
        """Ask for the roots and remember them."""

        def keep(reply: Message) -> None:
            self.roots = reply.get("result", {}).get("roots", reply.get("error"))

        self.ask("roots", keep)

    def on_request(self, message: Message) -> None:
        """Take a request: refuse it, queue it or serve it."""
        method, id_, switches = message["method"], message["id"], self.switches
        call = Call(id_, message.get("params") or {})
        if method == "initialize" and self.state != "new" and switches.get("strict_init"):
            self.send({"id": id_, "error": {"code": -32600, "message": "already initialized"}})
            self.process.leave(1, "second initialize")
        early = self.state != "ready" and method not in ("initialize", "ping", "server/discover")
        if early and switches.get("strict_order"):
            self.send({"id": id_, "error": {"code": -32600, "message": "not initialized", "data": {"method": method}}})
            return
        if switches.get("serial") and self.calls and method != "ping":
            self.queue.append(message)
            return
        self.calls[json.dumps(id_)] = call
        try:
            handler = getattr(self, "on_" + method.replace("/", "_").replace(".", "_"), None)
            if handler is None:
                raise RpcError(-32601, f"Method not found: {method}")
            result = handler(call)
        except RpcError as error:
            self.finish(call, {"error": error.error})
        except Exception as error:  # noqa: BLE001 - like an SDK: whatever a handler raises becomes an error answer
            self.finish(call, {"error": {"code": -32602, "message": f"{type(error).__name__}: {error}"}})
        else:
            if result is not None:
                self.finish(call, {"result": result})

    def finish(self, call: Call, body: Message) -> None:
        """Answer a request that is still wanted, and go on with the queue."""
        if self.calls.pop(json.dumps(call.id), None) is call:
            if call.task is not None:
                self.finish_task(call, body)
            else:
                self.answer(call.id, body)
        if self.queue:
            self.on_request(self.queue.pop(0))

    # -- protocol methods ------------------------------------------------------------------------------------------

    def on_initialize(self, call: Call) -> Message | None:
        """Answer the handshake."""
        switches = self.switches
        self.state = "initialized"
        self.client_capabilities = call.params.get("capabilities") or {}
        wanted = call.params.get("protocolVersion")
        version = switches.get("era") or (wanted if wanted in VERSIONS else VERSIONS[-1])
        capabilities: Message = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "logging": {},
        }
        if version != VERSIONS[0]:
            capabilities["completions"] = {}
        if switches.get("tasks"):
            capabilities["tasks"] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        result: Message = {
            "protocolVersion": version,
            "capabilities": switches.get("capabilities", capabilities),
            "serverInfo": switches.get("server_info", {"name": "fserver", "version": "1"}),
        }
        if "instructions" in switches:
            result["instructions"] = switches["instructions"]
        for number in range(switches.get("log_before_init", 0)):
            self.notify("notifications/message", {"level": "info", "data": number})
        if "init_delay" not in switches:
            return result
        self.process.after(switches["init_delay"] / 1000, lambda: self.finish(call, {"result": result}))
        return None

    def on_server_discover(self, call: Call) -> None:
        """React to a probe of the modern revision."""
        reaction = self.switches.get("probe_reaction", -32601)
        if isinstance(reaction, dict):
            self.process.leave(reaction["exit"], "probe")
        if reaction != "silent":
            raise RpcError(reaction, "Method not found: server/discover")

    def on_ping(self, call: Call) -> Message | None:
        """Answer a ping, or not."""
        reaction = self.switches.get("ping_reaction", "ok")
        if isinstance(reaction, int):
            raise RpcError(reaction, "no ping today")
        return {} if reaction == "ok" else None

    def page(self, call: Call, key: str, items: list[Message]) -> Message:
        """Return the page of a list that the cursor names."""
        if "list_error" in self.switches:
            error = self.switches["list_error"]
            raise RpcError(error["code"], error["message"], error.get("data"))
        pages = int(self.switches.get("list_pages", 1))
        cursor = call.params.get("cursor")
        if cursor is not None and not str(cursor).startswith(f"{self.process.run}:"):
            raise RpcError(-32602, f"unknown cursor {cursor}")
        at = int(cursor.split(":")[1]) if cursor is not None else 0
        size = -(-len(items) // pages)
        result: Message = {key: items[at * size : (at + 1) * size]}
        if at + 1 < pages:
            result["nextCursor"] = f"{self.process.run}:{at + 1}"
        return result

    def on_tools_list(self, call: Call) -> Message:
        """List the tools."""
        names = [] if self.switches.get("drop_tools") else [*TOOLS, *(f"extra{n}" for n in range(self.extra_tools))]
        return self.page(call, "tools", [{"name": name, "inputSchema": {"type": "object"}} for name in names])

    def on_prompts_list(self, call: Call) -> Message:
        """List the prompts."""
        arguments = [{"name": "who", "required": False}]
        return self.page(call, "prompts", [{"name": name, "arguments": arguments} for name in ("p1", "p2")])

    def on_prompts_get(self, call: Call) -> Message:
        """Return a prompt."""
        said = f"{call.params['name']} for {call.arguments.get('who', 'you')}"
        return {"messages": [{"role": "user", "content": {"type": "text", "text": said}}]}

    def on_resources_list(self, call: Call) -> Message:
        """List the resources."""
        return self.page(call, "resources", [{"uri": uri, "name": uri[-2:]} for uri in URIS])

    def on_resources_templates_list(self, call: Call) -> Message:
        """List the resource templates."""
        return self.page(call, "resourceTemplates", [{"uriTemplate": "res://{name}", "name": "any"}])

    def on_resources_read(self, call: Call) -> Message:
        """Read a resource; its text counts how often it was touched."""
        uri = call.params["uri"]
        if uri not in self.versions:
            raise RpcError(-32002, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": f"{uri} version {self.versions[uri]}"}]}

    def on_resources_subscribe(self, call: Call) -> Message:
        """Remember a subscription."""
        self.subscribed.add(call.params["uri"])
        return {}

    def on_resources_unsubscribe(self, call: Call) -> Message:
        """Forget a subscription."""
        self.subscribed.discard(call.params["uri"])
        return {}

    def on_logging_setLevel(self, call: Call) -> Message:  # noqa: N802 - named after the method
        """Set the level below which nothing is logged."""
        if call.params.get("level") not in LEVELS:
            raise RpcError(-32602, f"unknown level {call.params.get('level')}")
        self.level = LEVELS.index(call.params["level"])
        return {}

    def on_completion_complete(self, call: Call) -> Message:
        """Complete an argument with itself and a number."""
        value = call.params["argument"]["value"]
        return {"completion": {"values": [f"{value}1", f"{value}2"], "hasMore": False}}

    # -- tasks -----------------------------------------------------------------------------------------------------

    def start_task(self, call: Call) -> None:
        """Answer at once with a task that goes on."""
        task_id = f"task-{self.process.run}-{len(self.tasks) + 1}"
        ttl = call.params["task"].get("ttl", 60000)
        task = {"taskId": task_id, "status": "working", "createdAt": now_iso(), "ttl": ttl, "pollInterval": 100}
        call.task = self.tasks[task_id] = task | {"lastUpdatedAt": now_iso()}
        self.answer(call.id, {"result": {"task": dict(call.task)}})

    def finish_task(self, call: Call, body: Message) -> None:
        """Keep the result, tell the status, and answer those that wait for it."""
        assert call.task is not None
        task_id = call.task["taskId"]
        if call.task["status"] == "working":
            call.task["status"] = "failed" if "error" in body else "completed"
        if "result" in body:
            body["result"].setdefault("_meta", {})["io.modelcontextprotocol/related-task"] = {"taskId": task_id}
        self.results[task_id] = body
        self.notify("notifications/tasks/status", dict(call.task))
        for id_ in self.waiting.pop(task_id, []):
            self.answer(id_, body)

    def find_task(self, call: Call) -> Message:
        """Return the task a request names."""
        task = self.tasks.get(call.params.get("taskId", ""))
        if task is None:
            raise RpcError(-32602, "Task not found")
        return task

    def on_tasks_get(self, call: Call) -> Message:
        """Return the state of a task."""
        return dict(self.find_task(call))

    def on_tasks_list(self, call: Call) -> Message:
        """List every task."""
        return {"tasks": list(self.tasks.values())}

    def on_tasks_result(self, call: Call) -> None:
        """Return the result of a task once there is one."""
        task_id = self.find_task(call)["taskId"]
        if task_id in self.results:
            self.finish(call, self.results[task_id])
        else:
            del self.calls[json.dumps(call.id)]
            self.waiting.setdefault(task_id, []).append(call.id)

    def on_tasks_cancel(self, call: Call) -> Message:
        """Cancel a task."""
        task = self.find_task(call)
        if task["status"] != "working":
            raise RpcError(-32602, f"Cannot cancel task: it is {task['status']}")
        task["status"] = "cancelled"
        for other in [other for other in self.calls.values() if other.task is task]:
            self.finish(other, {"error": {"code": -32603, "message": "cancelled"}})
        return dict(task)
