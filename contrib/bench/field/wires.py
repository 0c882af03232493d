"""How a raw client reaches a server: over pipes, a terminal, or HTTP in one of three ways.

Part of the script `caller`, so of the standard library alone. Each wire does as little as its protocol allows, blocks
while it waits, and keeps its connections: what it costs itself is the same for everybody who is reached over it.
"""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import time
import tty
from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import urlsplit

#: Seconds that a command has to end once its pipes are closed.
_GRACE = 1.0
_PROTOCOL = "2025-06-18"
_HELLO = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
_READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class CallError(Exception):
    """A call was answered with an error, or not as the protocol has it."""


class LostError(Exception):
    """The connection or the session is gone; a client would have to open a new one."""


class Wire:
    """One connection of a client; what speaks MCP over it is the same for all."""

    def __init__(self) -> None:
        self._id = 0

    def open(self) -> None:
        """Connect and shake hands. Raise `OSError`, `CallError` or `LostError`."""
        self.request("initialize", _HELLO)
        self.notify(_READY)

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        """Call a tool and return its text. Raise `CallError` or `LostError`."""
        result = self.request("tools/call", {"name": tool, "arguments": arguments})
        content = result.get("content") or [{}]
        text = str(content[0].get("text", ""))
        if result.get("isError"):
            raise CallError(text[:200])
        return text

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result."""
        self._id += 1
        answer = self.exchange({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}, self._id)
        if "result" not in answer:
            raise CallError(str(answer.get("error", {}).get("message", answer))[:200])
        result: dict[str, Any] = answer["result"]
        return result

    def exchange(self, message: dict[str, Any], number: int) -> dict[str, Any]:
        """Send a message; return the answer to it."""
        raise NotImplementedError

    def notify(self, message: dict[str, Any]) -> None:
        """Send a message that has no answer."""
        raise NotImplementedError

    def close(self) -> None:
        """Hang up."""
        raise NotImplementedError

    def forget(self) -> None:
        """Expect no answer to what was asked before."""


class _Pipes(Wire):
    """The command is started, and spoken with over its stdin and stdout."""

    def __init__(self, *command: str) -> None:
        super().__init__()
        self._command = command
        self._in: BinaryIO | None = None
        self._out = self.pid = -1

    def open(self) -> None:
        self._spawn()
        super().open()

    def exchange(self, message: dict[str, Any], number: int) -> dict[str, Any]:
        self.notify(message)
        assert self._in is not None
        while True:
            line = self._in.readline()
            if not line:
                raise LostError("the command ended")
            if not line.startswith(b"{"):
                continue  # some say a word to the person first
            answer: dict[str, Any] = json.loads(line)
            if answer.get("id") == number and "method" not in answer:
                return answer

    def notify(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._out, data) :]
        except BrokenPipeError:
            raise LostError("the command ended") from None

    def close(self) -> None:
        if self._in is not None:
            os.close(self._out)
            self._in.close()
            self._in = None
            end = time.monotonic() + _GRACE
            while os.waitpid(self.pid, os.WNOHANG) == (0, 0):
                if time.monotonic() > end:
                    os.kill(self.pid, signal.SIGKILL)
                time.sleep(0.002)

    def _spawn(self) -> None:
        theirs_in, self._out = os.pipe()
        ours, theirs_out = os.pipe()
        self._start(theirs_in, theirs_out)
        self._in = os.fdopen(ours, "rb", buffering=1 << 16)

    def _start(self, source: int, sink: int) -> None:
        files = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, sink, 1)]
        self.pid = os.posix_spawn(self._command[0], self._command, os.environ, file_actions=files)
        os.close(source)
        os.close(sink)


class _Terminal(_Pipes):
    """The same over terminals that change nothing: for those who treat them unlike pipes."""

    def _spawn(self) -> None:
        (self._out, theirs_in), (ours, theirs_out) = os.openpty(), os.openpty()
        for terminal in (theirs_in, theirs_out):
            tty.setraw(terminal)
        self._start(theirs_in, theirs_out)
        self._in = os.fdopen(ours, "rb", buffering=1 << 16)


class _Line:
    """One connection of HTTP/1.1 that is kept, with one request on it at a time."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._socket: socket.socket | None = None
        self._in: io.BufferedReader | None = None
        self.headers: dict[str, str] = {}

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> int:
        """Send a request; return the status of the answer, whose headers are then in ``headers``.

        A connection that was kept may have been closed meanwhile; then the request is sent over a new one, once.
        """
        host = f"{self._address[0]}:{self._address[1]}"
        fields = {"Host": host, "Content-Length": str(len(body)), **headers}
        if method == "POST":
            fields["Content-Type"] = "application/json"
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        data = f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body
        kept = self._socket is not None
        status = self._send(data)
        if not status and kept:
            status = self._send(data)
        if not status:
            raise LostError("the connection was closed")
        assert self._in is not None
        self.headers = {}
        while (line := self._in.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            self.headers[name.decode().lower()] = value.strip().decode()
        return int(status.split()[1])

    def _send(self, data: bytes) -> bytes:
        """Send a request; return the first line of the answer, nothing if the connection is closed."""
        if self._socket is None:
            self._socket = socket.create_connection(self._address)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._in = io.BufferedReader(self._socket.makefile("rb", buffering=0), 1 << 16)
        assert self._in is not None
        status = b""
        try:
            self._socket.sendall(data)
            status = self._in.readline()
        except (BrokenPipeError, ConnectionResetError):
            pass
        if not status:
            self.close()
        return status

    def pieces(self) -> Iterator[bytes]:
        """Yield the body of the last answer as it comes."""
        assert self._in is not None
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self._in.readline().split(b";")[0] or b"0", 16):
                yield self._in.read(size)
                self._in.readline()
            self._in.readline()
        elif "content-length" in self.headers:
            yield self._in.read(int(self.headers["content-length"]))
        elif self.headers.get("connection", "").lower() == "close":
            while piece := self._in.read1(1 << 16):
                yield piece
        if self.headers.get("connection", "").lower() == "close":
            self.close()

    def body(self) -> bytes:
        """Return the whole body of the last answer."""
        return b"".join(self.pieces())

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None and self._in is not None:
            self._in.close()
            self._socket.close()
            self._socket = self._in = None


def events(pieces: Iterator[bytes]) -> Iterator[tuple[str, str]]:
    """Yield the server-sent events in a body: what kind each is, and its data."""
    kind, data = "message", []
    rest: list[bytes] = []
    for piece in pieces:
        rest.append(piece)
        if b"\n" not in piece:
            continue
        *lines, last = b"".join(rest).split(b"\n")
        rest = [last]
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            text = value.removeprefix(b" ").decode()
            if name == b"event":
                kind = text
            elif name == b"data":
                data.append(text)
            elif not name and not value:
                if data:
                    yield kind, "\n".join(data)
                kind, data = "message", []


class _StreamableHttp(Wire):
    """Every message is a request of HTTP; as the official clients do, it keeps a stream for what the server says."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._path = urlsplit(url).path
        self._line, self._stream = _Line(url), _Line(url)
        self._session = ""

    def open(self) -> None:
        self._session = ""
        self._stream.close()
        super().open()
        if self._session and self._stream.ask("GET", self._path, b"", self._fields("text/event-stream")) >= 400:
            self._stream.close()  # it has no such stream, which the protocol allows

    def exchange(self, message: dict[str, Any], number: int) -> dict[str, Any]:
        self._post(message)
        if "event-stream" not in self._line.headers.get("content-type", ""):
            found: dict[str, Any] | None = json.loads(self._line.body())
        else:
            found = None
            for _, data in events(self._line.pieces()):
                answer = json.loads(data) if data else {}
                if answer.get("id") == number and "method" not in answer:
                    found = answer
        if found is None:
            raise CallError("the answer has no message")
        return found

    def notify(self, message: dict[str, Any]) -> None:
        self._post(message)
        self._line.body()

    def close(self) -> None:
        self._line.close()
        self._stream.close()

    def forget(self) -> None:
        self._line.close()

    def _post(self, message: dict[str, Any]) -> None:
        fields = self._fields("application/json, text/event-stream")
        status = self._line.ask("POST", self._path, json.dumps(message).encode(), fields)
        self._session = self._session or self._line.headers.get("mcp-session-id", "")
        if status >= 400:
            said = f"{status}: {self._line.body()[:200].decode(errors='replace')}"
            raise LostError(said) if status == 404 else CallError(said)

    def _fields(self, accept: str) -> dict[str, str]:
        version = _PROTOCOL if self._session else ""
        return {"Accept": accept, "Mcp-Session-Id": self._session, "MCP-Protocol-Version": version}


class _ServerSentEvents(Wire):
    """The transport of 2024-11-05: answers come over one stream, requests go to an address that it names."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._path = urlsplit(url).path
        self._line, self._stream = _Line(url), _Line(url)
        self._events: Iterator[tuple[str, str]] = iter(())
        self._target = ""

    def open(self) -> None:
        self._stream.close()
        status = self._stream.ask("GET", self._path, b"", {"Accept": "text/event-stream"})
        if status != 200:
            raise CallError(f"{status}: {self._stream.body()[:200].decode(errors='replace')}")
        self._events = events(self._stream.pieces())
        for kind, data in self._events:
            if kind == "endpoint":
                parts = urlsplit(data)
                self._target = parts.path + (f"?{parts.query}" if parts.query else "")
                break
        super().open()

    def exchange(self, message: dict[str, Any], number: int) -> dict[str, Any]:
        self.notify(message)
        for _, data in self._events:
            answer: dict[str, Any] = json.loads(data)
            if answer.get("id") == number and "method" not in answer:
                return answer
        raise LostError("the stream ended")

    def notify(self, message: dict[str, Any]) -> None:
        status = self._line.ask("POST", self._target, json.dumps(message).encode(), {})
        said = f"{status}: {self._line.body()[:200].decode(errors='replace')}"
        if status >= 400:
            raise LostError(said) if status == 404 else CallError(said)

    def close(self) -> None:
        self._line.close()
        self._stream.close()

    def forget(self) -> None:
        self._line.close()


class _Plain(Wire):
    """Not MCP: each tool has an address that takes its arguments and answers with its result."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._path = urlsplit(url).path
        self._line = _Line(url)

    def open(self) -> None:
        status = self._line.ask("GET", f"{self._path}/openapi.json", b"", {})
        self._line.body()
        if status != 200:
            raise CallError(str(status))

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        status = self._line.ask("POST", f"{self._path}/{tool}", json.dumps(arguments).encode(), {})
        body = self._line.body()
        if status != 200:
            raise CallError(f"{status}: {body[:200].decode(errors='replace')}")
        result = json.loads(body)
        return result if isinstance(result, str) else json.dumps(result)

    def close(self) -> None:
        self._line.close()

    def forget(self) -> None:
        self._line.close()


WIRES = {"pipes": _Pipes, "terminal": _Terminal, "http": _StreamableHttp, "sse": _ServerSentEvents, "plain": _Plain}
