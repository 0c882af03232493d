"""The tools of the fake server, and the faults that live in calls.

Tools: echo, slow, deaf, ask, where, env, flood, touch, change_tools, crash, big, progress, stderr, log, raw, emit.

Switches: delay([low, high] ms for echo), instant, block(ms), deaf, invent_token, progress(n per call),
server_request{kind, related, id}, copy_trace, write_state{path, how: rename | inplace}.
"""

from __future__ import annotations

import json
import os
import time

from tests.kit.fserver_protocol import LEVELS, TOOLS, Call, RpcError, Server, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests.kit.fserver import Message

#: How much of a line without end is written at once, in bytes.
PIECE = 1 << 20


class ToolServer(Server):
    """The whole fake server: the protocol with its tools."""

    def on_tools_call(self, call: Call) -> Message | None:
        """Call a tool."""
        switches = self.switches
        self.counter += 1
        time.sleep(switches.get("block", 0) / 1000)
        if "write_state" in switches:
            self.write_state(switches["write_state"])
        if call.params.get("task") is not None and switches.get("tasks"):
            self.start_task(call)
        if switches.get("invent_token"):
            self.notify("notifications/progress", {"progressToken": "invented", "progress": 1})
        for number in range(switches.get("progress", 0)):
            self.progress(call, number)
        told = switches.get("server_request")
        if told and told.get("related"):
            self.ask(told["kind"], lambda reply: None, id_=told.get("id"))
        if switches.get("deaf"):
            return None
        name = call.params.get("name")
        if name not in TOOLS:
            raise RpcError(-32602, f"Unknown tool: {name}")
        result: Message | None = getattr(self, f"tool_{name}")(call, **call.arguments)
        return result

    def later(self, call: Call, seconds: float, result: Message) -> None:
        """Finish a call after a while."""
        self.process.after(seconds, lambda: self.finish(call, {"result": result}))

    def progress(self, call: Call, number: int, **more: object) -> None:
        """Send one progress note, if the call has a token."""
        if "progressToken" in call.meta:
            self.notify(
                "notifications/progress", {"progressToken": call.meta["progressToken"], "progress": number, **more}
            )

    def write_state(self, how: Message) -> None:
        """Write a state file, by rename or in place."""
        path = how["path"] + (".new" if how.get("how") == "rename" else "")
        with open(path, "w", encoding="utf-8") as file:
            file.write(str(self.counter))
        if path != how["path"]:
            os.rename(path, how["path"])

    def tool_echo(self, call: Call, value: object = None, delay: float | None = None, meta: bool = False) -> None:
        """Return the value after a random time."""
        low, high = self.switches.get("delay", [0, 0])
        wait = delay if delay is not None else (low + (high - low) * os.urandom(1)[0] / 255) / 1000
        result = text(value if not meta else {"value": value, "meta": call.meta})
        if meta:
            result["_meta"] = {key: value for key, value in call.meta.items() if key != "progressToken"}
        if wait and not self.switches.get("instant"):
            self.later(call, wait, result)
        else:
            self.finish(call, {"result": result})

    def tool_slow(self, call: Call, seconds: float = 1.0) -> None:
        """Return after a while, unless cancelled."""
        self.later(call, seconds, text("slow"))

    def tool_deaf(self, call: Call, seconds: float = 1.0) -> None:
        """Return after a while, cancelled or not."""
        self.later(call, seconds, text("deaf"))

    def tool_ask(self, call: Call, kind: str, ask_id: object = None, later_ms: float | None = None) -> Message | None:
        """Ask the client and return its reply; with later_ms return at once and ask then, about nothing."""
        trace = {"traceparent": call.meta["traceparent"]} if "traceparent" in call.meta else None
        meta = trace if self.switches.get("copy_trace") else None
        if later_ms is not None:
            self.process.after(later_ms / 1000, lambda: self.ask(kind, lambda reply: None, id_=ask_id))
            return text("later")
        self.ask(kind, lambda reply: self.finish(call, {"result": text(reply)}), id_=ask_id, meta=meta)
        return None

    def tool_where(self, call: Call, look: list[str] | None = None) -> Message:
        """Return who and where this process is, and which of the paths it can see."""
        return text(
            {
                "cwd": os.getcwd(),
                "project": os.environ.get("PROJECT"),
                "pid": os.getpid(),
                "run": self.process.run,
                "counter": self.counter,
                "roots": self.roots,
                "client": self.client_capabilities,
                "seen": {path: os.path.exists(path) for path in look or ()},
            }
        )

    def tool_env(self, call: Call) -> Message:
        """Return the environment and the program."""
        return text({"env": dict(os.environ), "exe": os.readlink("/proc/self/exe")})

    def tool_flood(self, call: Call, bytes: int, kind: str = "progress", line: int = 8192) -> Message:
        """Write so many bytes of notifications, then return."""
        pad = "f" * line
        for number in range(max(1, bytes // line)):
            if kind == "progress" and "progressToken" in call.meta:
                self.progress(call, number, message=pad)
            else:
                self.notify("notifications/message", {"level": "info", "data": pad})
        return text("flooded")

    def tool_touch(self, call: Call, uri: str, sub: str = "") -> Message:
        """Change a resource (or a part of it) and tell the subscriber."""
        if uri in self.versions:
            self.versions[uri] += 1
        if uri in self.subscribed:
            self.notify("notifications/resources/updated", {"uri": uri + sub})
        return text("touched")

    def tool_change_tools(self, call: Call) -> Message:
        """Add a tool and say so."""
        self.change_tools()
        return text("changed")

    def tool_crash(self, call: Call, code: int | None = None, signal: int | None = None, stderr: str = "") -> None:
        """Leave by an exit code or a signal, without an answer."""
        how: Message = {"code": code if code is not None else 1, "stderr": stderr}
        self.process.leave_as_told(how | ({} if signal is None else {"signal": signal}), "crash")

    def tool_big(self, call: Call, bytes: int, newline: str = "same", then: bool = False) -> None:
        """Answer in a line of exactly so many bytes, its newline in the same write, a later one, or never.

        With ``then`` a small log line follows in the same write as the newline. A line that never ends is written
        piece by piece, so that it may be longer than the memory of this process, and told of when it is out.
        """
        del self.calls[json.dumps(call.id)]
        head, tail = json.dumps({"jsonrpc": "2.0", "id": call.id, "result": text("@")}).split("@")
        room = bytes - len(head) - len(tail)
        if newline == "never":
            self.process.write(head.encode())
            for at in range(0, room, PIECE):
                self.process.write(b"0123456789abcdef" * (min(PIECE, room - at) // 16))
            self.process.journal("out", id=call.id, size=bytes)
            return
        pad = ("0123456789abcdef" * (room // 16 + 1))[:room]
        line = (head + pad + tail).encode()
        after = b""
        if then:
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "alert", "data": "small"}}
            after = json.dumps(note).encode() + b"\n"
        self.process.journal("out", id=call.id, size=len(line))
        if newline == "same":
            self.process.write(line + b"\n" + after)
        else:
            self.process.write(line)
            self.process.after(0.02, lambda: self.process.write(b"\n" + after))

    def tool_progress(self, call: Call, n: int) -> Message:
        """Send numbered progress notes, all at once with the result."""
        for number in range(n):
            self.progress(call, number)
        return text({"meta": call.meta})

    def tool_stderr(self, call: Call, bytes: int, cr_only: bool = False, newline: bool = True) -> Message:
        """Write so many bytes to stderr."""
        self.process.write_stderr({"bytes": bytes, "cr_only": cr_only, "newline": newline})
        return text("written")

    def tool_log(self, call: Call, level: str, data: str = "hello", force: bool = False, **more: str) -> Message:
        """Send a log line, if the level says so or force is given."""
        if force or LEVELS.index(level) >= self.level:
            self.notify("notifications/message", {"level": level, "data": data, **more})
        return text("logged")

    def tool_raw(self, call: Call, result: str) -> None:
        """Answer with this very text as the result."""
        del self.calls[json.dumps(call.id)]
        line = b'{"jsonrpc":"2.0","id":' + json.dumps(call.id).encode() + b',"result":' + result.encode() + b"}"
        self.process.journal_frame("out", line, {"id": call.id})
        self.process.send_line(line)

    def tool_emit(self, call: Call, data: str, answer: bool = True) -> Message | None:
        """Write these very bytes (latin-1) to stdout before answering, or without."""
        self.process.write(data.replace("@ID@", json.dumps(call.id)).encode("latin-1"))
        return text("emitted") if answer else None
