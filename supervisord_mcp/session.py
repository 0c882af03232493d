"""One host's connection from hello to close: its pipes, its journal, and the verdict for its shim (D1, D11)."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.facts import Facts
from supervisord_mcp.hangup import HangupWatch
from supervisord_mcp.journal import Journal, Recovered
from supervisord_mcp.pipes import ChunkReader, QueueWriter, close_quietly, make_nonblocking
from supervisord_mcp.protocol import hello, jsonrpc
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.framing import LineSplitter, Oversized
from supervisord_mcp.protocol.profiles import Root
from supervisord_mcp.protocol.resumption import Resumption

#: A write of at most this many bytes to a pipe is whole or not at all (PIPE_BUF).
ATOMIC = 4096
#: How long a host may take nothing at all while more than the client buffer waits for it, in seconds.
HOST_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a message may be, and above how much that waits for a host it loses what it can do without, in bytes."""

    max_message: int
    client_buffer: int


@dataclass(frozen=True, slots=True)
class Wires:
    """The descriptors of a session: the shim's connection, and the host's stdin and stdout (ours to close)."""

    connection: socket.socket
    stdin: int
    stdout: int


class SessionLink(Protocol):
    """What an instance needs of a session, whoever its host is."""

    key: SessionKey

    @property
    def principal(self) -> str:
        """Whose session it is, as far as an answer may depend on that (protocol.md 6.5 step 4)."""

    def send(self, data: bytes, weight: Weight, closes: tuple[Call, ...]) -> None:
        """Write a line to the host."""

    def opened(self, identity: bytes) -> None:
        """Note that a request of the host waits for its answer."""

    def dropped(self, identity: bytes) -> None:
        """Note that a request of the host needs no answer any more."""

    def remember(self, state: State) -> None:
        """Keep the slow state over a death of the daemon."""

    def moved(self, roots: tuple[Root, ...]) -> None:
        """The host works on other directories now, and is to be brought to the instance for those."""

    def pause(self) -> None:
        """Do not read from the host for now."""

    def resume(self) -> None:
        """Read from the host again."""

    def finish(self, status: int, text: str = "") -> None:
        """End the session orderly."""


class Session:
    """A host that is connected.

    ``on_end`` is called once when it is over, with the reason; ``on_greeted`` once its host said who it is;
    ``on_roots`` when that works on other directories.
    What a host waits for is in the journal before anything is done about it, and leaves it after the answer was
    written.
    """

    def __init__(
        self,
        key: SessionKey,
        facts: Facts,
        wires: Wires,
        journal: Journal,
        limits: Limits,
    ) -> None:
        self.key = key
        self.facts = facts
        self._wires = wires
        self._journal = journal
        self._limits = limits
        self._splitter = LineSplitter(limits.max_message)
        self._on_lines: Callable[[Session, list[bytes | Oversized]], None] = lambda _session, _lines: None
        self.on_end: Callable[[Session, str], None] = lambda _session, _reason: None
        self.on_greeted: Callable[[Session, State], None] = lambda _session, _state: None
        self._greeted = False
        self.on_roots: Callable[[Session, tuple[Root, ...]], None] = lambda _session, _roots: None
        self._reader: ChunkReader | None = None
        self._paused = False
        self._hangup: HangupWatch | None = None
        self._leaving = False
        #: The id of a handshake that is about to be heard again.
        self._greeting: bytes | None = None
        self._ended: str | None = None
        #: How much was queued since the queue was empty, and the ids that are answered once so much of it is written.
        self._pushed = 0
        self._unwritten: deque[tuple[int, bytes]] = deque()
        self._loop = asyncio.get_running_loop()
        make_nonblocking(wires.stdin)
        make_nonblocking(wires.stdout)
        self._writer = QueueWriter(wires.stdout, self._unwritable, self._drained)
        self._loop.add_reader(wires.connection.fileno(), self._shim_spoke)
        self.started = self._loop.time()
        self.dropped_messages = 0

    @property
    def principal(self) -> str:
        """The user of the host, whom the kernel named when the shim connected."""
        return self.facts.principal

    @property
    def closed(self) -> bool:
        """Whether the session is over."""
        return self._ended is not None

    def begin(self, on_lines: Callable[[Session, list[bytes | Oversized]], None]) -> None:
        """Read from the host from now on, and give what it says to ``on_lines``."""
        self.redirect(on_lines)
        if self._ended is None:
            self._reader = ChunkReader(self._wires.stdin, self._chunk, self._host_closed, self._journal.read)
            if self._paused:
                self.pause()

    def redirect(self, on_lines: Callable[[Session, list[bytes | Oversized]], None]) -> None:
        """Give what the host says to somebody else from now on."""
        self._on_lines = on_lines

    def recover(self, recovered: Recovered, resumption: Resumption) -> list[bytes | Oversized]:
        """After a death of the daemon: tell the host what is lost, and return what it said that is to be heard again.

        Once that was heard, `recovered` is to be called.
        """
        if recovered.mid_output:
            # The old daemon died in the middle of a line; what it began must not run into what comes now.
            self._writer.write(b"\n")
            self._journal.mid_output = bool(self._writer.queued)
        text = "the smcp daemon was restarted while this request was open; it is not sent again"
        for identity in resumption.lost:
            line = jsonrpc.error_line(identity, jsonrpc.INTERNAL_ERROR, text, {"reason": "daemon_restarted"})
            self.send(line, Weight.MUST, (Call(self.key, identity),))
        if self._ended is not None:
            return []
        if recovered.skipping:
            self._splitter.skip()
        else:
            self._splitter.feed(recovered.partial)
        self._greeting = resumption.greeting
        if self._greeting is not None and self._greeting not in recovered.pending:
            self._journal.add(self._greeting)
        self._settle()
        return list(resumption.lines)

    def recovered(self) -> None:
        """What was to be heard again was heard: if the handshake among it does not wait any more, it was answered."""
        if self._greeting is not None:
            self._journal.done(self._greeting)
            self._greeting = None

    # What an instance may ask for (SessionLink)

    def send(self, data: bytes, weight: Weight, closes: tuple[Call, ...]) -> None:
        """Write a line to the host; a host that does not read loses what it can do without, then its session."""
        if self._ended is not None:
            return
        waiting = self._writer.queued
        if waiting > self._limits.client_buffer:
            if weight is not Weight.MUST and (weight is Weight.DROPPABLE or self._writer.holds(data)):
                self.dropped_messages += 1
                return
            if self._overdue(waiting):
                self.finish(1, f"the host does not read: it left {waiting} bytes unread")
                return
        atomic = len(data) <= ATOMIC
        if not atomic:
            self._journal.mid_output = True
        if not self._written(data):
            return
        if self._writer.queued:
            self._wait_for_host(waiting, closes)
            return
        if not atomic:
            self._journal.mid_output = False
        for call in closes:
            self._journal.done(call.identity)

    def _overdue(self, waiting: int) -> bool:
        """Whether a host with a full buffer does not read, or so slowly that it comes to the same.

        One long message fills the buffer of a host that reads as fast as it can, and must not cost it the session.
        """
        idle = self._loop.time() - self._writer.progressed
        return idle > HOST_PATIENCE or waiting > self._limits.client_buffer + self._limits.max_message

    def _wait_for_host(self, waiting: int, closes: tuple[Call, ...]) -> None:
        """Note what is answered once the host has read on; ``waiting`` is what was queued before."""
        # Not answered before it is written: a daemon that dies now must know that the host still waits.
        self._journal.mid_output = True
        queued = self._writer.queued
        self._pushed = (self._pushed if waiting else 0) + queued - waiting
        self._unwritten += [(self._pushed, call.identity) for call in closes]
        while self._unwritten and self._unwritten[0][0] <= self._pushed - queued:
            self._journal.done(self._unwritten.popleft()[1])

    def _written(self, data: bytes) -> bool:
        """Write, and return whether the session is still open: writing finds out that the host is gone."""
        self._writer.write(data)
        return self._ended is None

    def opened(self, identity: bytes) -> None:
        """Note that a request of the host waits for its answer."""
        if identity == self._greeting:  # heard again, and noted all the time
            self._greeting = None
        else:
            self._journal.add(identity)

    def dropped(self, identity: bytes) -> None:
        """Note that a request of the host needs no answer any more."""
        self._journal.done(identity)

    def remember(self, state: State) -> None:
        """Keep the slow state over a death of the daemon."""
        if state.version and not self._greeted:
            self._greeted = True
            self.on_greeted(self, state)
        facts = {"server": self.facts.server, "project": self.facts.project, "cwd": self.facts.cwd}
        self._journal.record({**facts, "state": msgspec.to_builtins(state)})

    def moved(self, roots: tuple[Root, ...]) -> None:
        """Say later that the host works on other directories: the instance that found out is busy with its words."""
        self._loop.call_soon(lambda: self.on_roots(self, roots))

    def pause(self) -> None:
        """Do not read from the host for now, but notice its end."""
        self._paused = True
        if self._reader is None or self._leaving:
            return
        self._reader.pause()
        if self._hangup is None:
            with suppress(OSError):  # no descriptor left: its end is noticed once it is read from again
                self._hangup = HangupWatch(self._wires.stdin, self._hung_up)

    def resume(self) -> None:
        """Read from the host again."""
        self._paused = False
        self._watch_no_more()
        if self._reader is not None:
            self._reader.resume()

    def finish(self, status: int, text: str = "") -> None:
        """End the session orderly: the shim exits with the status and shows the text."""
        if self._ended is None:
            self._writer.flush()
        if self._ended is not None:  # also where the last word found out that the host is gone
            return
        with suppress(OSError):
            self._wires.connection.send(hello.verdict_line(status, masker.mask(text)))
        self._close(text or "ended")

    # From the host

    def _settle(self) -> None:
        splitter = self._splitter
        self._journal.settle(0 if splitter.skipping else splitter.held, skipping=splitter.skipping)

    def _chunk(self, chunk: bytes) -> None:
        lines = self._splitter.feed(chunk)
        if lines:
            self._on_lines(self, lines)
        if self._ended is None:
            self._settle()

    def _hung_up(self) -> None:
        """The paused host closed our stdin: read what the pipe still holds, which cannot become more, and its end."""
        self._leaving = True
        self.resume()

    def _watch_no_more(self) -> None:
        if self._hangup is not None:
            self._hangup.close()
            self._hangup = None

    def _host_closed(self, error: OSError | None) -> None:
        """The host closed our stdin: that is its orderly end, and an orderly end has exit status 0."""
        if self._splitter.held and isinstance(rest := self._splitter.finish(), bytes):
            self._on_lines(self, [rest])
        self.finish(0 if error is None else 1, "" if error is None else str(error.strerror))

    def _unwritable(self, error: OSError) -> None:
        self.finish(0)

    def _drained(self) -> None:
        self._journal.mid_output = False
        for _, identity in self._unwritten:
            self._journal.done(identity)
        self._unwritten.clear()

    def _shim_spoke(self) -> None:
        """The waiting shim never speaks; that its connection is readable means it is gone."""
        try:
            spoken = self._wires.connection.recv(4096)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            spoken = b""
        if not spoken:
            self._close("the shim is gone")

    def _close(self, reason: str) -> None:
        self._ended = reason
        self._loop.remove_reader(self._wires.connection.fileno())
        self._watch_no_more()
        if self._reader is not None:
            self._reader.close()
        self._writer.close()
        self._wires.connection.close()
        close_quietly(self._wires.stdin, self._wires.stdout)
        self._journal.remove()
        self.on_end(self, reason)
