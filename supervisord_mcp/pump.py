"""What the shim does in Python: move bytes for descriptors that cannot be handed over, and answer a host in need.

Loaded by `shim` only where it is needed, so it imports nothing that the shim does not have anyway.
"""

from __future__ import annotations

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket

_CHUNK = 65536
_LONGEST_REQUEST = 1 << 20
_FIRST_REQUEST, _NEXT_REQUEST = 5.0, 0.5  # how long a host may take to say what it wants
_LAST_BYTES = 5.0


class Pump:
    """Moves bytes between our stdin and stdout and pipes of our own, whose other ends (``fds``) the daemon gets.

    ``feed`` and ``drain`` say for which of the two; for the other one the descriptor itself is handed over. The pipes
    outlive a daemon: bytes in them wait for the next one.
    """

    def __init__(self, *, feed: bool, drain: bool) -> None:
        source, self._writer = os.pipe() if feed else (0, -1)
        self._reader, sink = os.pipe() if drain else (-1, 1)
        self.fds = [source, sink]
        self._unsent = b""
        if feed:
            os.set_blocking(self._writer, False)

    def move(self, connection: socket.socket) -> None:
        """Move bytes until there is something to read on the connection. Raise `OSError` if stdout fails."""
        while True:
            poll = select.poll()
            poll.register(connection, select.POLLIN)
            if self._reader >= 0:
                poll.register(self._reader, select.POLLIN)
            if self._unsent:
                poll.register(self._writer, select.POLLOUT)
            elif self._writer >= 0:
                poll.register(0, select.POLLIN)
            ready = {fd for fd, _ in poll.poll()}
            if self._writer in ready:
                self._unsent = self._unsent[os.write(self._writer, self._unsent) :]
            elif 0 in ready:
                self._take_in()
            if self._reader in ready:
                _write_all(1, os.read(self._reader, _CHUNK))
            if connection.fileno() in ready:
                return

    def finish(self) -> None:
        """Write what the daemon left in the pipe; it has closed its end by now."""
        if self._reader >= 0:
            os.close(self.fds[1])
            while select.select([self._reader], [], [], _LAST_BYTES)[0] and (data := os.read(self._reader, _CHUNK)):
                _write_all(1, data)

    def _take_in(self) -> None:
        try:
            self._unsent = os.read(0, _CHUNK)
        except OSError:
            self._unsent = b""  # a terminal that is gone
        if not self._unsent:
            os.close(self._writer)
            self._writer = -1


def _write_all(fd: int, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            if not select.select([], [fd], [], _LAST_BYTES)[1]:
                raise


def answer_host(text: str) -> None:
    """Answer the requests on stdin with that error, since the host would wait for a result for ever.

    It gets 5 s for its first request, and a moment more after each answer for another kind of handshake.
    """
    rest, patience = b"", _FIRST_REQUEST
    try:
        while len(rest) < _LONGEST_REQUEST and not os.isatty(0) and select.select([0], [], [], patience)[0]:
            try:
                data = os.read(0, _CHUNK)
            except BlockingIOError:
                continue
            *lines, rest = (rest + (data or b"\n")).split(b"\n")
            for answer in filter(None, (_error_answer(line, text) for line in lines)):
                _write_all(1, answer)
                patience = _NEXT_REQUEST
            if not data:
                break
    except OSError:
        pass  # the host is gone


def _error_answer(line: bytes, text: str) -> bytes | None:
    import json

    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(request, dict) or "method" not in request or request.get("id") is None:
        return None
    answer = {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32603, "message": text}}
    return json.dumps(answer).encode() + b"\n"
