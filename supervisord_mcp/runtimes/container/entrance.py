"""The daemon's side of `gate`: a socket for one container, over which a server gets its pipes and comes into being."""

from __future__ import annotations

import array
import asyncio
import contextlib
import marshal
import os
import secrets
import shutil
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import anyio

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.container import gate

#: Where the directory with the socket is in the container.
PLACE = os.path.dirname(gate.SOCKET)
_MOST = 1 << 12
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Pipes:
    """Both ends of the pipes of a server: ours, which do not block, and its own."""

    ours: tuple[int, int, int]
    theirs: tuple[int, int, int]

    def close_theirs(self) -> None:
        """Close what the server has now."""
        for descriptor in self.theirs:
            os.close(descriptor)

    def close(self) -> None:
        """Close everything."""
        self.close_theirs()
        for descriptor in self.ours:
            os.close(descriptor)


def make_pipes() -> Pipes:
    """Return new pipes for stdin, stdout and stderr. Raise `LaunchError` where there can be none."""
    made: list[int] = []
    try:
        for _ in range(3):
            made += os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        for descriptor in made:
            os.close(descriptor)
        raise LaunchError(f"no pipe for a new child: {error.strerror}") from error
    ours, theirs = (made[1], made[2], made[4]), (made[0], made[3], made[5])
    for descriptor in ours:
        os.set_blocking(descriptor, False)
    return Pipes(ours, theirs)


class GateError(Exception):
    """The gate says that something of its order cannot be had: the number of the system, and where."""

    def __init__(self, number: int, path: str) -> None:
        super().__init__(f"{path}: {os.strerror(number)}")
        self.number = number
        self.path = path


class Entrance:
    """A directory with a socket for one container, and the conversation with what connects to it first.

    Nobody else can: the directory is in one of the daemon's own, it is shown to one container, and the socket is gone
    as soon as there is a connection.
    """

    def __init__(self, within: Path) -> None:
        """Make the directory. Raise `LaunchError` where that fails."""
        self.directory = within / secrets.token_hex(8)
        self.pid, self.uid = 0, -1
        self._link: socket.socket | None = None
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            within.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o755)
            # Whoever the server runs as has to pass.
            self.directory.chmod(0o755)
            self._bind()
        except OSError as error:
            self.close()
            raise LaunchError(f"no socket for a new container in {within}: {error.strerror}") from error

    def _bind(self) -> None:
        # Through a descriptor: the path of a socket must be short.
        opened = os.open(self.directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            name = os.path.basename(gate.SOCKET)
            self._listener.bind(f"/proc/self/fd/{opened}/{name}")
            os.chmod(f"/proc/self/fd/{opened}/{name}", 0o666)
        finally:
            os.close(opened)
        self._listener.listen(1)

    def file(self, name: str, text: str) -> tuple[str, str]:
        """Make a file beside the socket; return its path, and where it is in the container."""
        path = self.directory / name
        path.write_text(text)
        path.chmod(0o644)
        return str(path), f"{PLACE}/{name}"

    async def met(self) -> None:
        """Wait for the gate; ``pid`` is its process then, 0 where it is one of another machine, ``uid`` its user."""
        loop = asyncio.get_running_loop()
        link, _ = await loop.sock_accept(self._listener)
        self._link = link
        link.setblocking(False)
        self._listener.close()
        (self.directory / os.path.basename(gate.SOCKET)).unlink(missing_ok=True)
        told = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        self.pid, self.uid, _ = _CREDENTIALS.unpack(told)
        if (await self._receive())[0] != b"hello":
            raise _broken()

    @property
    def uid_inside(self) -> int:
        """The user of the gate as its container numbers it, where the kernel tells; else as this machine does."""
        return inside(self.uid, _uid_map(self.pid)) if self.pid else self.uid

    async def order(self, values: tuple[object, ...], pipes: Pipes) -> None:
        """Say what the container is to become: the values of a `gate.Order`."""
        content = os.memfd_create("smcp", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(content), "wb") as file:
                file.write(marshal.dumps(values))  # type: ignore[arg-type]
            socket.send_fds(self._linked(), [b"order"], [*pipes.theirs, content])
        except OSError as error:
            raise _broken() from error
        finally:
            os.close(content)

    async def ready(self) -> list[socket.socket]:
        """Wait until all is set up but the server; return the listeners that were ordered.

        Raise `GateError` for what cannot be had, `IsolationError` where the gate is gone.
        """
        sockets: list[socket.socket] = []
        try:
            while (received := await self._receive())[0] != b"ready":
                if received[0] != b"listeners":
                    raise _broken()
                sockets += received[1]
        except BaseException:
            for made in sockets:
                made.close()
            raise
        for made in sockets:
            made.setblocking(False)
        return sockets

    async def go(self) -> None:
        """Let the server come into being, and wait until it has. Raise as `ready`."""
        try:
            self._linked().send(b"go")
        except OSError as error:
            raise _broken() from error
        # Nothing follows but the end, or why it did not become one.
        await self._receive(end=True)

    def close(self) -> None:
        """Remove what is there. Idempotent."""
        for made in (self._listener, self._link):
            if made is not None:
                made.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _linked(self) -> socket.socket:
        assert self._link is not None
        return self._link

    async def _receive(self, *, end: bool = False) -> tuple[bytes, list[socket.socket]]:
        """Return a message and the sockets that came with it; ``end`` is whether none is expected."""
        link = self._linked()
        while True:
            try:
                said, rights, _, _ = link.recvmsg(_MOST, socket.CMSG_SPACE(gate.BATCH * 4), socket.MSG_CMSG_CLOEXEC)
                break
            except BlockingIOError:
                await anyio.wait_readable(link)
            except OSError as error:
                raise _broken() from error
        if said.startswith(b"failed "):
            _, number, path = said.split(b" ", 2)
            raise GateError(int(number), os.fsdecode(path))
        if not said and not end:
            raise _broken()
        return said, _sockets(rights)


def inside(uid: int, lines: str) -> int:
    """Given a user of this machine and the text of a uid_map, return the same one as seen in that namespace."""
    for line in lines.splitlines():
        first, outside, count = map(int, line.split())
        if outside <= uid < outside + count:
            return first + uid - outside
    return uid


def _uid_map(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/uid_map").read_text(encoding="ascii")
    except OSError:
        return ""


def _sockets(rights: Iterable[tuple[int, int, bytes]]) -> list[socket.socket]:
    numbers = array.array("i")
    for _, _, data in rights:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    made: list[socket.socket] = []
    for number in numbers:
        with contextlib.suppress(OSError):
            made.append(socket.socket(fileno=number))
    return made


def _broken() -> IsolationError:
    return IsolationError(
        "the container was not set up: the program that starts the server in it ended before that",
        remedy="See the log of the engine, and whether it shows this machine's directories to containers.",
    )
