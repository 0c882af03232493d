"""Says recordings again: each of their sessions becomes one of this daemon, on pipes of its own, like that of any host.

So everything is as it was for the hosts of the recording, in either era: how a session finds its instance, what is
answered from a catalogue, what the server is asked. Nothing is heard that a host would not hear.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count

import anyio
import anyio.lowlevel
import anyio.to_thread
import msgspec

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.listener import Greeting
from supervisord_mcp.pipes import ChunkReader, QueueWriter, close_quietly
from supervisord_mcp.protocol.framing import LineSplitter
from supervisord_mcp.protocol.hello import Hello
from supervisord_mcp.protocol.replay import Replay, Replayed, Script

#: After so many lines it is the turn of others.
AT_ONCE = 100


class ReplayDesk:
    """All replays. ``receive`` takes a host in; ``max_message`` says how long a message may be."""

    def __init__(self, receive: Callable[[Greeting], None], max_message: Callable[[], int]) -> None:
        self._receive = receive
        self._max_message = max_message

    async def serve(self, operation: Replay, said: Hello, send: Callable[[Replayed], None]) -> None:
        """Make the requests of a recording again, and send how each ended as soon as that is known.

        ``said`` is the greeting of who asked for it: the sessions come from there. Raise `SmcpError` if one of them is
        refused or ended.
        """
        greeting = msgspec.structs.replace(said, role="shim", server=operation.name, project=operation.project)
        script = await anyio.to_thread.run_sync(Script, operation.lines)  # there may be very many
        loop = asyncio.get_running_loop()
        stirred = anyio.Event()

        def stir() -> None:
            stirred.set()

        def heard(session: int, line: bytes) -> None:
            # A recording has no values of secrets either, so this way both compare.
            script.heard(session, masker.mask_bytes(line), loop.time())
            stir()

        def left(session: int) -> None:
            script.left(session)
            stir()

        async def settled(patience: float) -> bool:
            nonlocal stirred
            with anyio.move_on_after(patience):
                await stirred.wait()
            came, stirred = stirred.is_set(), anyio.Event()
            return came

        def tell(*, final: bool = False) -> None:
            for result in script.results(final=final):
                send(result)

        with ExitStack() as stack:
            hosts: dict[int, _Host] = {}
            for session in script.sessions:
                hosts[session] = _Host(session, heard, left, self._max_message())
                stack.callback(hosts[session].close)
                self._receive(hosts[session].greeting(greeting))
            while not script.is_over():
                for said_at_once in count(1):
                    if (turn := script.next(loop.time())) is None:
                        break
                    hosts[turn[0]].say(turn[1])
                    if said_at_once % AT_ONCE == 0:
                        await anyio.lowlevel.checkpoint()
                if not script.is_over() and not await settled(operation.patience):
                    script.skip()
                tell()
            while (wait := min(script.lasting(loop.time()), operation.patience)) > 0 and await settled(wait):
                tell()
            tell(final=True)
        ended = "; ".join(dict.fromkeys(host.verdict for host in hosts.values() if host.verdict))
        if ended:
            raise SmcpError(f"a session was ended: {ended}")


class _Host:
    """What plays a host: the other ends of the pipes and of the connection of its shim."""

    def __init__(
        self, session: int, heard: Callable[[int, bytes], None], left: Callable[[int], None], max_message: int
    ) -> None:
        self._session = session
        self._heard = heard
        self._left = left
        self._stdin, self._write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._read_end, self._stdout = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._shim, self._connection = socket.socketpair()
        for end in (self._shim, self._connection):
            end.setblocking(False)
        self._splitter = LineSplitter(max_message)
        self._words = b""
        self._writer = QueueWriter(self._write_end, lambda _error: None)
        self._readers = (
            ChunkReader(self._read_end, self._chunk, lambda _error: None),
            ChunkReader(self._shim.fileno(), self._word, lambda _error: self._left(self._session)),
        )

    def greeting(self, said: Hello) -> Greeting:
        """Return what the daemon is given of a host that comes; it owns its ends from then on."""
        return Greeting(said, self._connection, (self._stdin, self._stdout), os.getpid(), os.getuid(), b"")

    @property
    def verdict(self) -> str:
        """Why the session was refused or ended, empty if it was not."""
        lines = [line.decode(errors="replace") for line in self._words.splitlines() if not line.startswith(b"ok ")]
        return " ".join(line.removeprefix("no ").partition(" ")[2].replace("\u2028", " ") for line in lines)

    def say(self, line: bytes) -> None:
        """Say a line."""
        self._writer.write(line + b"\n")

    def close(self) -> None:
        """Leave as a host does, by closing its pipes."""
        for reader in self._readers:
            reader.close()
        self._writer.close()
        close_quietly(self._write_end, self._read_end)
        self._shim.close()

    def _chunk(self, chunk: bytes) -> None:
        for line in self._splitter.feed(chunk):
            if isinstance(line, bytes):
                self._heard(self._session, line)

    def _word(self, chunk: bytes) -> None:
        self._words += chunk
