"""The pipes of a server on another machine: what the engine passes on, taken apart, in threads that may block.

Where the engine is on this machine the server has pipes of its own (see `gate`) and none of this is there: a message
passes through the engine twice on this way.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
from typing import Any

import anyio.to_thread

from supervisord_mcp.runtimes.container.engine import hang_up
from supervisord_mcp.runtimes.container.entrance import Pipes

_HEADER = struct.Struct(">BxxxL")
_PART = 1 << 16
_STDERR = 2
_JOIN_SECONDS = 5.0
_LOOK_MILLISECONDS = 100


class Stream:
    """Carries bytes between the pipes of one server and the connection that the engine made of its attachment."""

    def __init__(self, output: Any, pipes: Pipes) -> None:
        """Begin. From now on the server's ends of the pipes, and the connection, belong to this."""
        self._output = output
        # The library has a file around it, for TLS the thing itself.
        self._channel = getattr(output, "_sock", output)
        self._pipes = pipes
        self._ending = False
        for descriptor in pipes.theirs[1:]:
            os.set_blocking(descriptor, False)
        self._threads = [
            threading.Thread(target=run, name="container", daemon=True) for run in (self._inward, self._outward)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Begin to end. Idempotent."""
        self._ending = True
        with contextlib.suppress(Exception):  # it may have ended meanwhile, and each kind says so in its own words
            socket.socket.shutdown(self._channel, socket.SHUT_RDWR)

    async def aclose(self) -> None:
        """End, and wait until nothing is left. Idempotent."""
        self.close()
        for thread in self._threads:
            await anyio.to_thread.run_sync(thread.join, _JOIN_SECONDS)

    def _inward(self) -> None:
        """Bring to the daemon what the server says, until its end or that of the connection."""
        _, stdout, stderr = self._pipes.theirs
        try:
            while header := self._exactly(_HEADER.size):
                kind, size = _HEADER.unpack(header)
                while size:
                    part = self._exactly(min(size, _PART))
                    if not part:
                        return
                    size -= len(part)
                    self._write(stderr if kind == _STDERR else stdout, part)
        except OSError:
            return
        finally:
            os.close(stdout)
            os.close(stderr)
            # Now, for an engine that waits to deliver more waits with everything else as well.
            with contextlib.suppress(Exception):
                hang_up(self._output)

    def _outward(self) -> None:
        """Bring to the server what the daemon says, and the end of it."""
        stdin = self._pipes.theirs[0]
        try:
            while part := os.read(stdin, _PART):
                self._channel.sendall(part)
            # Not in the way of TLS, which would end the other direction as well.
            socket.socket.shutdown(self._channel, socket.SHUT_WR)
        except (OSError, ValueError):
            return
        finally:
            os.close(stdin)

    def _exactly(self, size: int) -> bytes:
        """Return so many bytes, or nothing where they end before."""
        content = b""
        while len(content) < size:
            part = self._channel.recv(size - len(content))
            if not part:
                return b""
            content += part
        return content

    def _write(self, descriptor: int, content: bytes) -> None:
        """Write all of it, or nothing more once this is to end: a daemon that reads no more is no reason to wait."""
        view = memoryview(content)
        while view and not self._ending:
            try:
                view = view[os.write(descriptor, view) :]
            except BlockingIOError:
                waiting = select.poll()
                waiting.register(descriptor, select.POLLOUT)
                waiting.poll(_LOOK_MILLISECONDS)
