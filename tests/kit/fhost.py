"""A fake host: starts a command with pipes, speaks raw JSON-RPC with it, and remembers the whole conversation.

Ids are kept as raw JSON text, so that ``1``, ``"1"`` and ``1.0`` stay what they are. Every wait is bounded, and a wait
that fails raises with the transcript so far, the tail of stderr and the exit status.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.kit.rawjson import members
from tests.kit.traffic import Connection

#: How long a wait may take unless told otherwise.
TIMEOUT = 10.0
NO_HANDLER = '"error":{"code":-32601,"message":"Method not found"}'


class ConversationError(AssertionError):
    """The other side did not do what the test waits for; the text has the transcript."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message from the other side: its raw bytes and the raw JSON text of its members."""

    raw: bytes
    parts: Mapping[str, str] = field(repr=False)
    at: float = 0.0

    @property
    def id(self) -> str | None:
        """The id as raw JSON text, None where there is none."""
        return self.parts.get("id")

    @property
    def method(self) -> str | None:
        """The method, None for an answer."""
        return json.loads(self.parts["method"]) if "method" in self.parts else None

    @property
    def params(self) -> Any:
        """The parameters, parsed."""
        return json.loads(self.parts.get("params", "{}"))

    @property
    def error(self) -> dict[str, Any] | None:
        """The error, None where there is none."""
        return json.loads(self.parts["error"]) if "error" in self.parts else None

    @property
    def result(self) -> Any:
        """The result, parsed. Raise when the answer is an error."""
        if "result" not in self.parts:
            raise ConversationError(f"an error where a result was expected: {self.raw[:2000]!r}")
        return json.loads(self.parts["result"])

    @property
    def text(self) -> str:
        """The text of a tool result."""
        return str(self.result["content"][0]["text"])

    @property
    def value(self) -> Any:
        """The text of a tool result, parsed as JSON."""
        return json.loads(self.text)


Answer = asyncio.Future[Frame]
Reply = Callable[[Frame], Mapping[str, Any] | None]


class Host:
    """One fake host and the command it started. Use it as an async context manager, or call `aclose`."""

    def __init__(self, argv: Sequence[str], *, name: str = "host", timeout: float = TIMEOUT) -> None:
        self.argv = list(argv)
        self.name = name
        self.timeout = timeout
        self.notes: list[Frame] = []
        self.answers: list[Frame] = []
        self.asked: list[Frame] = []
        self.garbage: list[bytes] = []
        self.stderr = bytearray()
        self.received = 0
        self.eof = False
        #: Automatic answers to requests from the other side: a result, a function, or None to leave it to the test.
        self.replies: dict[str, Mapping[str, Any] | Reply | None] = {"ping": {}}
        self.transcript: deque[str] = deque(maxlen=400)
        #: What was said first, whole, for those who judge it: the side and the line.
        self.traffic = Connection(name, "server")
        self._number = 0
        self._waiting: dict[str, deque[Answer]] = {}
        self._changed = asyncio.Event()
        self._in = bytearray()
        self._out = bytearray()
        self._fds: dict[str, int] = {}
        self._rate: float | None = None
        self._said = b""

    # -- start and end ---------------------------------------------------------------------------------------------

    def start(
        self, *, env: Mapping[str, str] | None = None, cwd: str | Path | None = None, own_group: bool = False
    ) -> Self:
        """Start the command with three pipes; the event loop must run."""
        process = self.process = subprocess.Popen(
            self.argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=cwd,
            process_group=0 if own_group else None,
        )
        loop = asyncio.get_running_loop()
        for key, stream in zip(("in", "out", "err"), (process.stdin, process.stdout, process.stderr), strict=True):
            assert stream is not None
            with stream:
                self._fds[key] = os.dup(stream.fileno())
        self._fds["pid"] = os.pidfd_open(self.process.pid)
        for key in ("in", "out", "err"):
            os.set_blocking(self._fds[key], False)
        loop.add_reader(self._fds["out"], self._read)
        loop.add_reader(self._fds["err"], self._read_stderr)
        loop.add_reader(self._fds["pid"], self._on_exit)
        self._note("--", f"started {self.argv} as pid {self.process.pid}")
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @property
    def pid(self) -> int:
        """The process id of the command."""
        return self.process.pid

    def close_stdin(self) -> None:
        """Close our end of its stdin."""
        self._note("--", "stdin closed")
        self._drop("in")

    def close_stdout(self) -> None:
        """Close our end of its stdout."""
        self._note("--", "stdout closed")
        self._drop("out")

    def signal(self, number: int) -> None:
        """Send a signal to the command itself."""
        self._note("--", f"signal {number}")
        if self.process.poll() is None:
            signal.pidfd_send_signal(self._fds["pid"], number)

    def kill(self) -> None:
        """Kill the command and close its pipes, as the death of a real host does."""
        self.signal(signal.SIGKILL)
        self._drop("in")
        self._drop("out")

    async def exit_status(self, timeout: float | None = None) -> int:
        """Return how the command ended (minus the signal number if by one)."""
        await self.wait(lambda: self.process.poll() is not None, "the exit of the command", timeout)
        return self.process.returncode

    async def aclose(self) -> None:
        """Close stdin, wait a little, kill, and close everything. Idempotent."""
        if not self._fds:
            return
        self._drop("in")
        try:
            await self.exit_status(3.0)
        except ConversationError:
            self.process.kill()
            await self.exit_status(3.0)
        finally:
            for key in ("out", "err", "pid"):
                self._drop(key)

    # -- sending ---------------------------------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        """Send these very bytes (as one write while the pipe has room)."""
        self._note("=>", data)
        if "in" not in self._fds:
            raise ConversationError(f"{self.name}: stdin is closed\n{self.show()}")
        self._said += data
        *lines, self._said = self._said.split(b"\n")
        for one in lines:
            self.traffic.add("client", one)
        self._out += data
        self._write()

    def send(self, message: Mapping[str, Any] | str) -> None:
        """Send one message as a line."""
        text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
        self.raw(text.encode() + b"\n")

    def notify(self, method: str, params: Any = None) -> None:
        """Send a notification."""
        self.send(line(method, params))

    def post(self, method: str, params: Any = None, id: str | int | None = None) -> Answer:
        """Send a request and return the future of its answer. A string id is raw JSON text."""
        raw = self.next_id() if id is None else str(id)
        future = self.expect(raw)
        self.send(line(method, params, raw))
        return future

    def cancel(self, id: str | int, reason: str | None = None) -> None:
        """Give a request up: nobody waits for its answer any more, and the other side is told."""
        params = f'{{"requestId":{id}' + (f',"reason":{json.dumps(reason)}}}' if reason is not None else "}")
        for future in self._waiting.pop(str(id), ()):
            future.cancel()
        self.send(f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}')

    def expect(self, raw_id: str) -> Answer:
        """Return the future of the next answer with this raw id."""
        future: Answer = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(raw_id, deque()).append(future)
        return future

    def next_id(self) -> str:
        """Return a fresh id."""
        self._number += 1
        return str(self._number)

    async def request(
        self, method: str, params: Any = None, id: str | int | None = None, timeout: float | None = None
    ) -> Frame:
        """Send a request and return its answer, be it a result or an error."""
        return await self.answer_of(self.post(method, params, id), f"the answer to {method}", timeout)

    async def call(
        self, tool: str, id: str | int | None = None, timeout: float | None = None, **arguments: Any
    ) -> Frame:
        """Call a tool and return the answer."""
        params = {"name": tool, "arguments": arguments}
        return await self.request("tools/call", params, id=id, timeout=timeout)

    def post_call(self, tool: str, id: str | int | None = None, meta: Any = None, **arguments: Any) -> Answer:
        """Call a tool and return the future of the answer."""
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        return self.post("tools/call", params if meta is None else params | {"_meta": meta}, id=id)

    async def answer_of(
        self, future: asyncio.Future[Frame], what: str = "an answer", timeout: float | None = None
    ) -> Frame:
        """Return what the future brings, bounded."""
        await self.wait(future.done, what, timeout)
        return future.result()

    async def handshake(
        self,
        version: str = "2025-11-25",
        capabilities: Mapping[str, Any] | None = None,
        id: str | int | None = None,
        timeout: float | None = None,
    ) -> Frame:
        """Do the handshake and return the answer to initialize."""
        answer = await self.request("initialize", hello(version, capabilities, self.name), id=id, timeout=timeout)
        assert answer.result
        self.notify("notifications/initialized")
        return answer

    def respond(self, request: Frame, *, result: Any = None, error: Any = None) -> None:
        """Answer a request of the other side, under its own raw id."""
        body = f'"error":{json.dumps(error)}' if error is not None else f'"result":{json.dumps(result)}'
        self.send(f'{{"jsonrpc":"2.0","id":{request.id},{body}}}')

    async def drained(self, timeout: float | None = None) -> None:
        """Wait until everything that was sent is in the pipe."""
        await self.wait(lambda: not self._out, "room in the pipe", timeout)

    @property
    def unsent(self) -> int:
        """How many bytes still wait for room in the pipe."""
        return len(self._out)

    # -- receiving -------------------------------------------------------------------------------------------------

    def stop_read(self) -> None:
        """Stop reading stdout."""
        self._note("--", "stops reading")
        asyncio.get_running_loop().remove_reader(self._fds["out"])

    def slow_read(self, bytes_per_second: float) -> None:
        """Read stdout no faster than this."""
        self._rate = bytes_per_second

    def go_on_reading(self) -> None:
        """Read at full speed again."""
        self._note("--", "reads again")
        self._rate = None
        asyncio.get_running_loop().add_reader(self._fds["out"], self._read)

    async def wait(
        self, wanted: Callable[[], object], what: str = "the condition", timeout: float | None = None
    ) -> None:
        """Return once the condition holds; it is looked at after everything that arrives. Raise after the time-out."""
        limit = self.timeout if timeout is None else timeout
        end = time.monotonic() + limit
        while not wanted():
            self._changed.clear()
            left = end - time.monotonic()
            if left <= 0:
                raise ConversationError(f"{self.name}: waited {limit} s for {what}\n{self.show()}")
            try:
                await asyncio.wait_for(self._changed.wait(), min(left, 0.25))
            except TimeoutError:
                continue

    async def note(self, method: str, count: int = 1, timeout: float | None = None) -> list[Frame]:
        """Return the notifications of a method, once there are at least so many."""
        await self.wait(lambda: len(self.notes_of(method)) >= count, f"{count} times {method}", timeout)
        return self.notes_of(method)

    def notes_of(self, method: str) -> list[Frame]:
        """Return the notifications of a method so far."""
        return [frame for frame in self.notes if frame.method == method]

    async def server_request(self, method: str, count: int = 1, timeout: float | None = None) -> Frame:
        """Return the count-th request of the other side, once there are at least so many of the method."""
        await self.wait(lambda: len(self.asked_of(method)) >= count, f"request {method}", timeout)
        return self.asked_of(method)[count - 1]

    def asked_of(self, method: str) -> list[Frame]:
        """Return the requests of the other side for a method so far."""
        return [frame for frame in self.asked if frame.method == method]

    def answers_to(self, raw_id: str) -> list[Frame]:
        """Return every answer with this raw id."""
        return [frame for frame in self.answers if frame.id == raw_id]

    def show(self) -> str:
        """Return the conversation so far, the tail of stderr and the exit status as text."""
        status = self.process.poll() if hasattr(self, "process") else "not started"
        tail = bytes(self.stderr[-2000:]).decode(errors="replace")
        head = f"--- {self.name}: exit status {status}, {self.received} bytes received"
        return "\n".join([head, *self.transcript, f"--- {self.name}: stderr", tail, "---"])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _note(self, way: str, what: bytes | str) -> None:
        shown = what if isinstance(what, str) else repr(what[:300])[2:-1] + (f" … {len(what)}" * (len(what) > 300))
        self.transcript.append(f"{time.monotonic():.3f} {way} {shown}")

    def _drop(self, key: str) -> None:
        fd = self._fds.pop(key, None)
        if fd is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(fd)
        loop.remove_writer(fd)
        os.close(fd)
        self._changed.set()

    def _write(self) -> None:
        fd = self._fds["in"]
        loop = asyncio.get_running_loop()
        try:
            while self._out:
                del self._out[: os.write(fd, self._out[: 1 << 20])]
        except BlockingIOError:
            loop.add_writer(fd, self._write)
            return
        except BrokenPipeError:
            self._note("--", "its stdin is broken")
            self._out.clear()
            self._drop("in")
            return
        loop.remove_writer(fd)
        self._changed.set()

    def _read(self) -> None:
        fd = self._fds["out"]
        size = 1 << 18 if self._rate is None else max(1, int(self._rate / 20))
        try:
            data = os.read(fd, size)
        except BlockingIOError:
            return
        if self._rate is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(fd)
            loop.call_later(0.05, lambda: "out" in self._fds and loop.add_reader(fd, self._read))
        self.received += len(data)
        self._changed.set()
        if not data:
            self.eof = True
            self._note("--", "its stdout ended")
            self._drop("out")
            return
        self._in += data
        if b"\n" in data:
            *lines, rest = bytes(self._in).split(b"\n")
            self._in = bytearray(rest)
            for one in lines:
                self._take(one)

    def _take(self, raw: bytes) -> None:
        self._note("<=", raw)
        self.traffic.add("server", raw)
        try:
            parts = members(raw.decode())
        except ValueError:
            self.garbage.append(raw)
            return
        frame = Frame(raw, parts, time.monotonic())
        if "method" not in parts:
            self.answers.append(frame)
            waiting = self._waiting.get(parts.get("id", ""))
            if waiting:
                future = waiting.popleft()
                if not future.done():
                    future.set_result(frame)
        elif "id" in parts:
            self.asked.append(frame)
            self._reply(frame)
        else:
            self.notes.append(frame)

    def _reply(self, frame: Frame) -> None:
        method = frame.method or ""
        if method not in self.replies:
            self.send(f'{{"jsonrpc":"2.0","id":{frame.id},{NO_HANDLER}}}')
            return
        reply = self.replies[method]
        result = reply(frame) if callable(reply) else reply
        if result is not None:
            self.respond(frame, result=result)

    def _read_stderr(self) -> None:
        try:
            data = os.read(self._fds["err"], 1 << 16)
        except BlockingIOError:
            return
        self._changed.set()
        self.stderr += data
        if not data:
            self._drop("err")

    def _on_exit(self) -> None:
        self._note("--", f"exit status {self.process.wait()}")
        asyncio.get_running_loop().remove_reader(self._fds["pid"])
        self._changed.set()


def hello(version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None, name: str = "fhost") -> Any:
    """Return the parameters of initialize."""
    client = {"name": name, "version": "1"}
    return {"protocolVersion": version, "capabilities": dict(capabilities or {}), "clientInfo": client}


def line(method: str, params: Any = None, raw_id: str | None = None) -> str:
    """Return a request (with the raw id) or a notification as one line of JSON."""
    head = '{"jsonrpc":"2.0"' + (f',"id":{raw_id}' if raw_id is not None else "")
    tail = f',"params":{json.dumps(params, ensure_ascii=False)}' if params is not None else ""
    return f'{head},"method":{json.dumps(method)}{tail}}}'
