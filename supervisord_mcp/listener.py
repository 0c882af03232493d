"""The accept loop of the daemon's socket: from a connection to a greeting with its file descriptors.

asyncio's own loop schedules a retry per slot of the backlog when descriptors run out. This one keeps one in reserve,
with which it tells the newcomer, and says so in the log at most once in ten seconds.
"""

from __future__ import annotations

import array
import asyncio
import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol.hello import MAX_HELLO, Hello, parse_hello, refuse_line

_log = logging.getLogger(__name__)

_PATIENCE = 10.0  # for the whole greeting
_CHUNK = 65536
_MOST_FDS = 2
_ACCEPTS_AT_ONCE = 64
_PAUSE = 1.0  # where not even the reserve helps
_LOG_PERIOD = 10.0
_PEER = struct.Struct("iII")
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
#: A client that went away while it waited, or rules of a firewall: its problem, not that of the socket.
_PASSING = (errno.ECONNABORTED, errno.EPERM, errno.EINTR, errno.EPROTO)


@dataclass(frozen=True, slots=True)
class Greeting:
    """A newcomer that said who it is. Who gets it owns ``connection`` (non-blocking) and ``fds``, and closes both.

    ``fds`` are stdin and stdout of a host, or empty for a control connection; ``rest`` is what followed the greeting.
    """

    hello: Hello
    connection: socket.socket
    fds: tuple[int, ...]
    peer_pid: int
    peer_uid: int
    rest: bytes


class Listener:
    """Accepts on the running event loop and calls ``on_greeting`` for each greeting.

    A call that raises has not taken over anything: the newcomer is dropped. ``refused`` counts who got no session.
    """

    def __init__(self, listening: socket.socket, on_greeting: Callable[[Greeting], None]) -> None:
        self.refused = 0
        self._loop = asyncio.get_running_loop()
        self._on_greeting = on_greeting
        self._newcomers: set[_Newcomer] = set()
        self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._resume: asyncio.TimerHandle | None = None
        self._last_log = -_LOG_PERIOD
        self._silent = 0
        self._socket: socket.socket | None = None
        self.listen_on(listening)

    def listen_on(self, listening: socket.socket) -> None:
        """Accept on that socket from now on; the one before is no longer watched, and not closed."""
        self._stop_accepting()
        self._socket = listening
        self._loop.add_reader(listening, self._accept_waiting)

    def close(self) -> None:
        """Accept nothing more, and drop those who have not finished their greeting. The socket is not closed."""
        self._stop_accepting()
        for newcomer in tuple(self._newcomers):
            newcomer.drop()
        if self._reserve >= 0:
            os.close(self._reserve)
            self._reserve = -1

    def _stop_accepting(self) -> None:
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        if self._socket is not None:
            self._loop.remove_reader(self._socket)
            self._socket = None

    def _accept_waiting(self) -> None:
        listening = self._socket
        for _ in range(_ACCEPTS_AT_ONCE):
            if listening is None or self._socket is not listening:
                return
            try:
                connection, _ = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _PASSING:
                    continue
                if error.errno not in _NO_DESCRIPTORS or not self._turn_away(listening):
                    self._pause(listening, error)
                    return
                continue
            self._welcome(connection)

    def _turn_away(self, listening: socket.socket) -> bool:
        """Tell the first in the queue that descriptors ran out. Return whether there is one in reserve again."""
        if self._reserve < 0:
            return self._take_reserve()
        os.close(self._reserve)
        self._reserve = -1
        try:
            connection, _ = listening.accept()
            self.refuse(connection, 1, "the daemon has no file descriptors left; raise its limit (ulimit -n)")
        except OSError:
            pass
        return self._take_reserve()

    def _take_reserve(self) -> bool:
        try:
            self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        self.report(f"cannot accept connections, trying again in {_PAUSE:.0f} s: {error.strerror}")
        self._loop.remove_reader(listening)
        self._resume = self._loop.call_later(_PAUSE, self.listen_on, listening)

    def _welcome(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        pid, uid, _ = _PEER.unpack(peer)
        if uid != os.getuid():
            self.refuse(connection, 1, f"this is the daemon of uid {os.getuid()}, not of uid {uid}")
        else:
            self._newcomers.add(_Newcomer(self, self._loop, connection, (pid, uid)))

    def refuse(self, connection: socket.socket, status: int, text: str, *, quiet: bool = False) -> None:
        """Tell a newcomer why it gets no session, and close its connection; where ``quiet``, nothing is logged."""
        self.refused += 1
        if not quiet:
            self.report(f"refused a connection: {text}")
        try:
            connection.setblocking(False)
            connection.send(refuse_line(status, text))
        except OSError:
            pass  # it went away, which is just as well
        connection.close()

    def report(self, text: str) -> None:
        """Log a warning, unless there was one a moment ago: whoever connects must not be able to fill the disk."""
        now = self._loop.time()
        if now - self._last_log < _LOG_PERIOD:
            self._silent += 1
            return
        more = f" ({self._silent} more of this kind before)" if self._silent else ""
        self._last_log, self._silent = now, 0
        _log.warning("%s%s", text, more)

    def forget(self, newcomer: _Newcomer) -> None:
        """Let go of a newcomer that has become something else."""
        self._newcomers.discard(newcomer)

    def hand_over(self, greeting: Greeting) -> None:
        """Pass a greeting on; close what belongs to it if nobody takes it over."""
        try:
            self._on_greeting(greeting)
        except BaseException:
            greeting.connection.close()
            _close_all(greeting.fds)
            raise


class _Newcomer:
    """Reads one greeting, at most so long and for so long."""

    def __init__(
        self, listener: Listener, loop: asyncio.AbstractEventLoop, connection: socket.socket, peer: tuple[int, int]
    ) -> None:
        self._listener, self._loop, self._connection, self._peer = listener, loop, connection, peer
        self._data = bytearray()
        self._fds: list[int] = []
        self._timer = loop.call_later(_PATIENCE, self._refuse, 1, f"no greeting within {_PATIENCE:.0f} s")
        loop.add_reader(connection, self._read)

    def drop(self) -> None:
        """Close everything without a word: a shim takes that for a daemon that leaves, and tries again."""
        self._leave()
        self._connection.close()

    def _leave(self) -> None:
        self._listener.forget(self)
        self._timer.cancel()
        self._loop.remove_reader(self._connection)
        _close_all(self._fds)
        self._fds.clear()

    def _refuse(self, status: int, text: str, *, quiet: bool = False) -> None:
        self._leave()
        self._listener.refuse(self._connection, status, text, quiet=quiet)

    def _read(self) -> None:
        searched = len(self._data)
        try:
            data, ancillary, flags, _ = self._connection.recvmsg(
                _CHUNK, socket.CMSG_SPACE(16 * array.array("i").itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self.drop()
            return
        self._fds += _received_fds(ancillary)
        self._data += data
        end = self._data.find(b"\n", searched) + 1
        if flags & socket.MSG_CTRUNC:
            self._refuse(1, "file descriptors were lost on the way: too many were sent, or the daemon has none left")
        elif end:
            self._finish(end)
        elif not data:
            self.drop()
        elif len(self._data) > MAX_HELLO:
            self._refuse(2, f"the greeting is longer than {MAX_HELLO} bytes")

    def _finish(self, end: int) -> None:
        try:
            if end > MAX_HELLO:
                raise FramingError(f"the greeting is longer than {MAX_HELLO} bytes", -32600)
            hello = parse_hello(bytes(self._data[:end]))
        except FramingError as error:
            # An empty line is how another daemon that was started asks whether anybody is here (`endpoint`).
            self._refuse(2, error.message, quiet=end == 1)
            return
        expected = _MOST_FDS if hello.role == "shim" else 0
        if len(self._fds) != expected:
            self._refuse(2, f"a greeting as {hello.role} comes with {expected} descriptors, not {len(self._fds)}")
        elif not all(map(_can_be_awaited, self._fds)):
            self._refuse(2, "the descriptors of a greeting must be pipes or sockets")
        else:
            fds, rest = tuple(self._fds), bytes(self._data[end:])
            self._fds.clear()
            self._leave()
            self._listener.hand_over(Greeting(hello, self._connection, fds, *self._peer, rest))


def _received_fds(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()


def _can_be_awaited(fd: int) -> bool:
    """Return whether the event loop can wait for it, and whether making it non-blocking harms nobody else."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _close_all(fds: list[int] | tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
