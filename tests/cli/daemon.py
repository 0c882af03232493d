"""A daemon that only says what a test tells it to say, in a thread, on a real socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.hello import Hello, parse_hello


class Stream(list[Any]):
    """Answer with these events and then with null; with ``cut`` the connection closes instead of the null."""

    cut = False


class Silence:
    """Answer nothing."""


class HangUp(Exception):  # noqa: N818 - an answer, not an error
    """Close the connection instead of an answer."""


Answer = Callable[[Any], Any]


class FakeDaemon:
    """Listens below a directory given as SMCP_HOME; ``answers`` is by type of operation, ``asked`` what came."""

    def __init__(self, home: Path, greeting: bytes = b"") -> None:
        directory = home / "run"
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = str(directory / "daemon.sock")
        self.greeting = greeting
        self.answers: dict[type[Any], Any] = {
            control.Version: control.VersionResult(version="0.1.0", pid=os.getpid()),
        }
        self.asked: list[control.Operation] = []
        self.hellos: list[Hello] = []
        self.closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    def close(self) -> None:
        """End every connection and thread."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()
        os.unlink(self.path)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                first = lines.readline()
                if not first:
                    return
                self.hellos.append(parse_hello(first))
                connection.sendall(self.greeting)
                if self.greeting.startswith(b"no "):
                    return
                for line in lines:
                    self._answer(connection, control.parse_request(line))
            except (OSError, HangUp):
                pass
        self.closed.set()

    def _answer(self, connection: socket.socket, request: control.Request) -> None:
        operation = control.parse_operation(request)
        self.asked.append(operation)
        answer = self.answers.get(type(operation))
        if callable(answer) and not isinstance(answer, Silence):
            answer = answer(operation)
        match answer:
            case Silence():
                return
            case HangUp():
                raise answer
            case bytes():
                connection.sendall(answer)
            case SmcpError():
                connection.sendall(control.error_line(request.id, answer))
            case Stream():
                for event in answer:
                    connection.sendall(control.event_line(request.id, event))
                if answer.cut:
                    raise HangUp
                connection.sendall(control.result_line(request.id))
            case _:
                connection.sendall(control.result_line(request.id, answer))


def raw(value: object) -> msgspec.Raw:
    """Return any JSON value as a result that is passed untouched."""
    return msgspec.Raw(msgspec.json.encode(value))


def clean_lines(text: str) -> list[str]:
    """Return the lines of a table without the spaces that fill it."""
    return [line.rstrip() for line in text.splitlines()]
