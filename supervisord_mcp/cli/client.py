"""The synchronous client of the control socket: greeting, requests, streams, time limits, errors as exceptions."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, NoReturn, Self, TypeVar

from msgspec import Raw

from supervisord_mcp import shim
from supervisord_mcp.config.paths import Paths, find_paths
from supervisord_mcp.errors import FramingError, NoDaemonError, SmcpError
from supervisord_mcp.protocol import control

T = TypeVar("T")

#: Seconds for what the daemon answers from memory.
QUICK: Final = 30.0
#: Seconds for what may install a package, start a server or stop many; longer than the default limits of all three.
SLOW: Final = 900.0
_CHUNK: Final = 1 << 16


class Client:
    """One connection to the daemon. Asks one thing at a time; use it as a context manager.

    ``as_host`` is for what may start a server: the environment goes with the greeting, as with that of a host, and the
    daemon takes from it what the entry of the server names.
    """

    def __init__(self, connection: socket.socket, *, as_host: bool = False) -> None:
        self._socket = connection
        self._buffer = bytearray()
        self._last_id = 0
        said: dict[str, str | int | None] = {"smcp": 1, "role": "control", "pid": os.getpid(), "cwd": _directory()}
        self._send(shim.encode_hello(said, os.environb if as_host else {}), QUICK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Leave the daemon; it forgets every open request of this connection."""
        self._socket.close()

    @property
    def daemon_pid(self) -> int:
        """The process that listens, as the kernel knows it."""
        return _peer_pid(self._socket)

    def ask(
        self, operation: control.Operation, timeout: float | None = QUICK, tell: Callable[[str], None] | None = None
    ) -> Raw:
        """Given an operation, return its result as JSON. Raise `SmcpError` as the daemon says, or if it is silent.

        ``tell`` is told what it waits for.
        """
        request_id = self._request(operation, progress=tell is not None)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            reply = self._reply(request_id, deadline, timeout)
            if isinstance(reply.result, Raw):
                return reply.result
            if tell is None or not isinstance(reply.event, Raw):
                text = "the daemon answered a plain request with a stream; upgrade the older of the two"
                raise FramingError(text, -32600)
            tell(control.parse_result(reply.event, control.Progress).text)

    def ask_for(self, operation: control.Operation, wanted: type[T], timeout: float | None = QUICK) -> T:
        """Given an operation, return its result as ``wanted``. Raise as `ask` does."""
        return control.parse_result(self.ask(operation, timeout), wanted)

    def stream(self, operation: control.Operation) -> Iterator[Raw]:
        """Given an operation that follows something, return its events until the daemon ends it.

        Raise `NoDaemonError` if the daemon ends first.
        """
        request_id, begun = self._request(operation), bool(getattr(operation, "follow", False))
        while True:
            # A person follows for as long as they like, and a daemon that dies closes the connection.
            try:
                reply = self._reply(request_id)
            except NoDaemonError as error:
                if begun:
                    raise NoDaemonError(
                        "the daemon ended, so nothing more comes", remedy="smcp status tells whether a new one runs"
                    ) from error
                raise
            begun = True
            if not isinstance(reply.event, Raw):
                return
            yield reply.event

    def wait_closed(self, timeout: float) -> bool:
        """Given a limit, return whether the daemon closed the connection within it."""
        deadline = time.monotonic() + timeout
        try:
            while self._receive(deadline):
                self._buffer.clear()
        except TimeoutError:
            return False
        return True

    def _request(self, operation: control.Operation, *, progress: bool = False) -> int:
        self._last_id += 1
        self._send(control.request_line(self._last_id, operation, progress=progress), QUICK)
        return self._last_id

    def _reply(self, request_id: int, deadline: float | None = None, timeout: float | None = None) -> control.Reply:
        while True:
            line = self._line(deadline, timeout)
            if line.startswith(b"ok "):
                continue
            if line.startswith(b"no "):
                raise _refused(line)
            reply = control.parse_reply(line)
            if isinstance(reply.error, control.Failure) and reply.id in (request_id, 0):
                raise reply.error.error()
            if reply.id == request_id:
                return reply

    def _line(self, deadline: float | None, timeout: float | None) -> bytes:
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > control.MAX_LINE:
                raise FramingError("the daemon sent a line without an end", -32600)
            try:
                alive = self._receive(deadline)
            except TimeoutError:
                self._no_answer(timeout)
            if not alive:
                raise NoDaemonError(
                    "the daemon ended before it answered", remedy="smcp status tells whether a new one runs"
                )
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def _receive(self, deadline: float | None) -> bool:
        self._limit(deadline)
        try:
            data = self._socket.recv(_CHUNK)
        except ConnectionError:
            return False
        self._buffer += data
        return bool(data)

    def _send(self, data: bytes, timeout: float) -> None:
        self._limit(time.monotonic() + timeout)
        try:
            self._socket.sendall(data)
        except TimeoutError:
            self._no_answer(timeout)
        except ConnectionError:
            # What the daemon said before it closed is still in the socket, and tells more than the broken pipe.
            return

    def _limit(self, deadline: float | None) -> None:
        if deadline is None:
            self._socket.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _no_answer(self, timeout: float | None) -> NoReturn:
        where = self._socket.getpeername()
        error = SmcpError(
            f"daemon pid {self.daemon_pid} is alive but has not answered for {timeout:g} s ({where})",
            remedy="it may still be busy: see smcp status, and smcp logs of the server",
        )
        error.code, error.exit_status = "no-answer", NoDaemonError.exit_status
        raise error


@contextmanager
def connected(*, start: bool = False, as_host: bool = False) -> Iterator[Client]:
    """Given whether a daemon may be started for it, return a client. Raise `NoDaemonError` if there is no daemon.

    Raise `ConfigError` if none can start because of the configuration. ``as_host`` is what it is for `Client`.
    """
    try:
        connection = shim.reach_daemon(os.environ, os.getuid()) if start else shim.find_daemon(os.environ, os.getuid())
    except shim.ShimError as error:
        if start and not error.final:
            # The end of the log of a daemon that did not start is for hosts; here there is room for every fault.
            from supervisord_mcp.config.load import load

            load(paths())
        raise NoDaemonError(error.text) from error
    if connection is None:
        raise NoDaemonError(f"no daemon runs (looked at {paths().socket})", remedy="start it with: smcp up")
    with Client(connection, as_host=as_host) as client:
        yield client


def reload_daemon() -> None:
    """Let the daemon read the configuration if one runs; else whatever starts one reads it then."""
    try:
        with connected() as client:
            client.ask(control.Reload(), SLOW)
    except NoDaemonError:
        return


def paths() -> Paths:
    """Return where the files of this person's daemon are."""
    return find_paths(os.environ, os.getuid())


def _directory() -> str:
    try:
        return os.fsencode(os.getcwd()).decode()
    except (FileNotFoundError, UnicodeDecodeError):  # it was deleted, or its name is nothing that JSON can say
        return "/"


def _peer_pid(connection: socket.socket) -> int:
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)


def _refused(line: bytes) -> SmcpError:
    """Given the line ``no STATUS TEXT``, return the error it stands for."""
    status, _, text = line[3:].decode(errors="replace").partition(" ")
    error = SmcpError(text.replace("\u2028", "\n") or "the daemon refused the connection")
    error.code = "refused"
    error.exit_status = int(status) if status.isdigit() else 1
    return error
