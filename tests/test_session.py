"""One host on real pipes: what it says, what it is told, and every way in which it can leave."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from supervisord_mcp import session as module
from supervisord_mcp.facts import Facts
from supervisord_mcp.journal import Journal, Recovered, leftovers
from supervisord_mcp.pipes import close_quietly
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.resumption import resume
from supervisord_mcp.session import ATOMIC, Limits, Session, Wires
from tests.kit.bounded import bounded

LIMIT = 20
SMALL = Limits(max_message=1000, client_buffer=100_000)


class Host:
    """The other ends of a session's wires, and what the session said to the daemon."""

    def __init__(self, directory: Path, limits: Limits = SMALL, journal: Journal | None = None) -> None:
        stdin, self.write_end = os.pipe2(os.O_CLOEXEC)
        self.read_end, stdout = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.read_end, False)
        self.shim, connection = socket.socketpair()
        connection.setblocking(False)
        self.shim.setblocking(False)
        self.lines: list[bytes | Oversized] = []
        self.ends: list[str] = []
        self.changed = anyio.Event()
        self.journal = Journal.create(directory, "token") if journal is None else journal
        self.session = Session(7, Facts("s", "/p", "/c"), Wires(connection, stdin, stdout), self.journal, limits)
        self.session.on_end = self.end

    def begin(self) -> Host:
        self.session.begin(self.take)
        return self

    def take(self, session: Session, lines: list[bytes | Oversized]) -> None:
        self.lines += lines
        self.tell()

    def end(self, session: Session, reason: str) -> None:
        self.ends.append(reason)
        self.tell()

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def say(self, data: bytes) -> None:
        assert os.write(self.write_end, data) == len(data)

    async def heard(self, count: int = 1) -> list[bytes | Oversized]:
        """Return what the daemon was told, once there is so much of it."""
        while len(self.lines) < count:
            await self.changed.wait()
        return self.lines

    async def ended(self) -> str:
        while not self.ends:
            await self.changed.wait()
        return self.ends[0]

    def got(self) -> bytes:
        """Return what is in the host's stdout now."""
        try:
            return os.read(self.read_end, 1 << 20)
        except BlockingIOError:
            return b""

    async def read(self, size: int) -> bytes:
        """Return so many bytes from the host's stdout."""
        data = b""
        while len(data) < size:
            await anyio.wait_readable(self.read_end)
            data += os.read(self.read_end, size - len(data))
        return data

    def verdict(self) -> bytes:
        """Return what the shim was told, empty if it was hung up on."""
        return self.shim.recv(4096)

    def send(self, data: bytes, weight: Weight = Weight.MUST, *closes: bytes) -> None:
        self.session.send(data, weight, tuple(Call(self.session.key, identity) for identity in closes))

    def fill(self, size: int, weight: Weight = Weight.MUST, *closes: bytes) -> None:
        """Send one line of so many bytes."""
        self.send(b"x" * (size - 1) + b"\n", weight, *closes)

    @property
    def open(self) -> list[str]:
        """The ids that the journal holds as waiting."""
        return sorted(identity.decode() for identity in (*self.journal._slots, *self.journal._log.waiting))

    def close(self) -> None:
        self.session.finish(0)
        self.shim.close()
        close_quietly(self.write_end, self.read_end)


@asynccontextmanager
async def host(directory: Path, limits: Limits = SMALL) -> AsyncIterator[Host]:
    """A host whose session has begun."""
    one = Host(directory, limits).begin()
    try:
        yield one
    finally:
        one.close()
        assert leftovers(directory) == frozenset()


async def turns(count: int = 3) -> None:
    """Give the event loop the turns in which something might happen that must not."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


def request(identity: object, method: str = "tools/call") -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "method": method}).encode()


# From the host


@bounded(LIMIT)
async def test_lines_arrive_whole_and_in_order(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.say(b"one\ntw")
        await one.heard(1)
        one.say(b"o\nthree\n")
        assert await one.heard(3) == [b"one", b"two", b"three"]


@bounded(LIMIT)
async def test_a_line_that_is_too_long_costs_only_itself(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.say(b"y" * 1001 + b"\nnext\n")
        long, following = await one.heard(2)
        assert isinstance(long, Oversized)
        assert long.length == 1001
        assert following == b"next"


@bounded(LIMIT)
async def test_a_host_that_closes_its_end_leaves_orderly(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.say(b"last without newline")
        os.close(one.write_end)
        await one.ended()
        assert one.lines == [b"last without newline"]
        assert one.verdict() == b"0\n"
        assert one.verdict() == b""
        assert one.session.closed
        await turns()
        assert len(one.ends) == 1


@bounded(LIMIT)
async def test_a_shim_that_dies_takes_the_session_with_it(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.shim.close()
        assert await one.ended() == "the shim is gone"
        one.say(b"")
        with pytest.raises(BrokenPipeError):
            one.say(b"nobody reads this\n")


@bounded(LIMIT)
async def test_the_host_may_be_taken_over_by_somebody_else(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        others: list[bytes | Oversized] = []
        one.say(b"one\n")
        await one.heard()

        def take(session: Session, lines: list[bytes | Oversized]) -> None:
            others.extend(lines)
            one.tell()

        one.session.redirect(take)
        one.say(b"two\n")
        while not others:
            await one.changed.wait()
        assert (one.lines, others) == ([b"one"], [b"two"])


@bounded(LIMIT)
async def test_a_paused_host_is_not_read(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.session.pause()
        one.say(b"waits\n")
        await turns()
        assert one.lines == []
        one.session.resume()
        assert await one.heard() == [b"waits"]


@bounded(LIMIT)
async def test_a_host_can_be_paused_before_it_begins(tmp_path: Path) -> None:
    one = Host(tmp_path)
    try:
        one.session.pause()
        one.say(b"waits\n")
        one.begin()
        await turns()
        assert one.lines == []
        one.session.resume()
        assert await one.heard() == [b"waits"]
    finally:
        one.close()


@pytest.mark.parametrize("begun", [False, True])
@bounded(LIMIT)
async def test_the_end_of_a_paused_host_is_noticed_after_what_it_said(begun: bool, tmp_path: Path) -> None:
    one = Host(tmp_path)
    try:
        if begun:
            one.begin()
        one.session.pause()
        one.session.pause()
        one.begin()
        one.say(b"waits\n" + b"x" * 500 + b"\nlast")
        await turns()
        assert one.lines == []
        os.close(one.write_end)
        one.write_end = os.open(os.devnull, os.O_WRONLY)
        assert await one.ended() == "ended"
        assert one.lines == [b"waits", b"x" * 500, b"last"]
        assert one.verdict().startswith(b"0")
    finally:
        one.close()


@bounded(LIMIT)
async def test_a_host_that_ended_is_read_to_its_end_though_it_is_paused_again(tmp_path: Path) -> None:
    async with host(tmp_path) as one:

        def slow_down(session: Session, lines: list[bytes | Oversized]) -> None:
            session.pause()
            one.take(session, lines)

        one.session.redirect(slow_down)
        one.say(b"first\n")
        await one.heard()
        data = b"y" * 99 + b"\n"
        one.say(data * 600)
        await turns()
        assert len(one.lines) == 1
        os.close(one.write_end)
        one.write_end = os.open(os.devnull, os.O_WRONLY)
        await one.ended()
        assert len(one.lines) == 601


@bounded(LIMIT)
async def test_a_paused_host_is_paused_also_where_its_end_cannot_be_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptors(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(module, "HangupWatch", no_descriptors)
    async with host(tmp_path) as one:
        one.session.pause()
        one.say(b"waits\n")
        await turns()
        assert one.lines == []
        one.session.resume()
        assert await one.heard() == [b"waits"]


@bounded(LIMIT)
async def test_a_host_may_leave_before_it_began(tmp_path: Path) -> None:
    one = Host(tmp_path)
    try:
        os.close(one.read_end)
        one.send(b"nobody reads this\n")
        one.begin()
        await turns()
        assert len(one.ends) == 1
    finally:
        one.close()


# To the host


@bounded(LIMIT)
async def test_lines_reach_the_host_in_order(tmp_path: Path) -> None:
    async with host(tmp_path, Limits(max_message=1000, client_buffer=1 << 20)) as one:
        expected = b""
        for number in range(200):
            line = b"%d " % number + b"z" * (number * 37 % 2000) + b"\n"
            one.send(line, Weight.DROPPABLE if number % 3 else Weight.MUST)
            expected += line
        assert await one.read(len(expected)) == expected


@bounded(LIMIT)
async def test_a_host_that_does_not_read_loses_first_what_it_can_do_without(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.fill(300_000)
        one.send(b"progress\n", Weight.DROPPABLE)
        assert one.session.dropped_messages == 1
        assert not one.session.closed
        data = await one.read(300_000)
        assert b"progress" not in data
        one.send(b"progress\n", Weight.DROPPABLE)
        assert await one.read(9) == b"progress\n"


@bounded(LIMIT)
async def test_a_change_is_not_told_again_before_the_host_has_read_of_it(tmp_path: Path) -> None:
    async with host(tmp_path, Limits(max_message=1 << 20, client_buffer=1000)) as one:
        one.send(b"changed\n", Weight.REPEATED)
        one.send(b"changed\n", Weight.REPEATED)  # nothing waits
        assert await one.read(16) == b"changed\n" * 2
        one.fill(300_000)
        for line in (b"changed\n", b"other\n", b"changed\n", b"other\n"):
            one.send(line, Weight.REPEATED)
        assert one.session.dropped_messages == 2
        data = await one.read(300_000 + 14)
        assert data.endswith(b"changed\nother\n")
        one.send(b"changed\n", Weight.REPEATED)
        assert await one.read(8) == b"changed\n"


@bounded(LIMIT)
async def test_a_host_that_reads_may_be_sent_one_long_message_after_the_other(tmp_path: Path) -> None:
    limits = Limits(max_message=1 << 20, client_buffer=1000)
    async with host(tmp_path, limits) as one:
        one.fill(1 << 20)
        one.send(b"short\n", Weight.MUST)
        assert not one.session.closed
        assert (await one.read((1 << 20) + 6)).endswith(b"short\n")


@bounded(LIMIT)
async def test_a_host_that_does_not_read_loses_its_session_when_too_much_waits(tmp_path: Path) -> None:
    async with host(tmp_path, Limits(max_message=100_000, client_buffer=1000)) as one:
        for _ in range(10):
            one.fill(50_000)
        assert one.session.closed
        assert one.verdict().startswith(b"1 the host does not read: it left ")
        assert len(one.ends) == 1


@bounded(LIMIT)
async def test_a_host_that_takes_nothing_for_long_loses_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with host(tmp_path, Limits(max_message=1 << 30, client_buffer=1000)) as one:
        one.fill(100_000)
        one.send(b"one\n")
        assert one.ends == []
        monkeypatch.setattr(module, "HOST_PATIENCE", -1.0)
        one.send(b"two\n")
        assert one.session.closed
        assert one.verdict().startswith(b"1 the host does not read")


@bounded(LIMIT)
async def test_a_host_that_closed_its_stdout_is_gone(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        os.close(one.read_end)
        one.send(b"nobody reads this\n")
        assert len(one.ends) == 1
        assert one.verdict() == b"0\n"
        one.send(b"nor this\n")
        await turns()
        assert len(one.ends) == 1


@bounded(LIMIT)
async def test_a_host_that_closes_its_stdout_while_much_waits_is_gone(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.fill(90_000)
        os.close(one.read_end)
        await one.ended()
        await turns()
        assert len(one.ends) == 1


@bounded(LIMIT)
async def test_the_last_word_may_find_out_that_the_host_is_gone(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.fill(90_000)
        os.close(one.read_end)
        one.session.finish(1, "too late")
        assert one.ends == ["ended"]
        assert one.verdict() == b"0\n"
        one.session.finish(1, "again")
        await turns()
        assert len(one.ends) == 1


@bounded(LIMIT)
async def test_the_verdict_carries_status_and_text(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.send(b"last answer\n")
        one.session.finish(4, "server 's' was removed\nfrom the configuration")
        assert one.got() == b"last answer\n"
        assert one.verdict().decode() == "4 server 's' was removed\u2028from the configuration\n"
        assert one.ends == ["server 's' was removed\nfrom the configuration"]


@bounded(LIMIT)
async def test_a_closed_session_takes_nothing_more(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.session.finish(0)
        one.session.finish(1, "again")
        one.send(b"x\n", Weight.MUST, b"1")
        one.session.opened(b"1")
        one.session.dropped(b"1")
        one.session.remember(State(version="2025-11-25"))
        one.session.pause()
        one.session.resume()
        await turns()
        assert one.ends == ["ended"]


# What survives the daemon


@bounded(LIMIT)
async def test_a_request_is_open_until_its_answer_is_in_the_pipe(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        for identity in (b"1", b"2", b"3"):
            one.session.opened(identity)
        one.session.dropped(b"2")
        one.send(b"answer\n", Weight.MUST, b"1")
        assert one.open == ["3"]


@pytest.mark.parametrize("size", [ATOMIC, ATOMIC + 1, 50_000])
@bounded(LIMIT)
async def test_what_fitted_is_not_half_a_line(size: int, tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        one.session.opened(b"1")
        one.fill(size, Weight.MUST, b"1")
        assert not one.journal.mid_output
        assert one.open == []


@bounded(LIMIT)
async def test_an_answer_that_waits_is_none_yet(tmp_path: Path) -> None:
    async with host(tmp_path) as one:
        for identity in (b"1", b"2", b"3"):
            one.session.opened(identity)
        one.fill(100_000, Weight.MUST, b"1")
        one.fill(90_000, Weight.MUST, b"2")
        assert one.journal.mid_output
        assert one.open == ["1", "2", "3"]
        await one.read(110_000)
        await turns()
        # The host has the first answer and a part of the second: the next line notes that.
        one.send(b"third\n", Weight.MUST, b"3")
        assert one.open == ["2", "3"]
        assert one.journal.mid_output
        assert (await one.read(80_006)).endswith(b"third\n")
        await turns()
        assert one.open == []
        assert not one.journal.mid_output


async def died(one: Host, directory: Path) -> None:
    """Let the daemon of a session die: nothing of it is closed but its descriptors."""
    kept = Journal.recover(directory, "token")[0]
    kept.close()
    loop_of = one.session._loop
    loop_of.remove_reader(one.session._wires.stdin)
    loop_of.remove_reader(one.session._wires.connection.fileno())
    one.session._writer.close()
    one.session._wires.connection.close()
    close_quietly(one.session._wires.stdin, one.session._wires.stdout)
    one.journal.close()
    one.shim.close()
    close_quietly(one.write_end, one.read_end)


def kept_state(recovered: Recovered) -> State:
    """Return the slow state that was kept of a session."""
    return msgspec.convert(recovered.state.get("state", {}), State)


@asynccontextmanager
async def resumed(directory: Path) -> AsyncIterator[tuple[Host, list[bytes | Oversized]]]:
    """The session after the death of its daemon, and the notifications it hands on."""
    journal, recovered = Journal.recover(directory, "token")
    one = Host(directory, SMALL, journal)
    try:
        resumption = resume(recovered.pending, recovered.unprocessed, kept_state(recovered))
        notifications = one.session.recover(recovered, resumption)
        one.begin()
        yield one, notifications
    finally:
        one.close()
        assert leftovers(directory) == frozenset()


def errors(data: bytes) -> dict[Any, Any]:
    """Return what the host was told about each id."""
    answers = [json.loads(line) for line in data.splitlines() if line]
    return {answer["id"]: answer["error"] for answer in answers}


@bounded(LIMIT)
async def test_what_the_host_waited_for_is_answered_with_an_error_once(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.session.opened(b"1")
    one.session.opened(b'"two"')
    one.session.opened(b"3")
    one.send(b"answer\n", Weight.MUST, b"3")
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, notifications):
        told = errors(again.got())
        assert sorted(told, key=str) == [1, "two"]
        assert all(error["data"] == {"reason": "daemon_restarted"} for error in told.values())
        assert all("not sent again" in error["message"] for error in told.values())
        assert notifications == []
        assert again.open == []


@bounded(LIMIT)
async def test_lines_that_were_read_and_not_acted_upon(tmp_path: Path) -> None:
    one = Host(tmp_path)
    cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'
    answer = b'{"jsonrpc":"2.0","id":9,"result":{}}'

    def die(session: Session, lines: list[bytes | Oversized]) -> None:
        session.opened(b"1")
        session._wires.connection.setblocking(False)
        one.take(session, lines)
        raise _KilledError

    one.session.begin(die)
    one.session._loop.set_exception_handler(lambda _, context: None)
    one.say(b"\n".join((request(1), request(2), cancelled, b"no JSON", answer, b'{"part')))
    await one.heard()
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, notifications):
        assert sorted(errors(again.got())) == [1, 2]
        assert notifications == [cancelled, answer]
        again.say(b'":1}\n')
        assert await again.heard() == [b'{"part":1}']


@pytest.mark.parametrize("answered", [False, True])
@bounded(LIMIT)
async def test_a_handshake_without_an_answer_is_heard_again(answered: bool, tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.session.remember(State(version="2025-06-18", asking="1"))
    one.session.opened(b"1")
    one.session.opened(b"2")
    await died(one, tmp_path)
    for _ in range(2):
        journal, recovered = Journal.recover(tmp_path, "token")
        again = Host(tmp_path, SMALL, journal)
        (line,) = again.session.recover(recovered, resume(recovered.pending, (), kept_state(recovered)))
        assert isinstance(line, bytes)
        assert json.loads(line)["method"] == "initialize"
        again.begin()
        await died(again, tmp_path)  # before anything was done about it, which is no loss
    async with resumed(tmp_path) as (last, lines):
        assert len(lines) == 1
        if answered:
            last.send(b"answer\n", Weight.MUST, b"1")
        else:
            last.session.opened(b"1")
        last.session.recovered()
        assert last.open == ([] if answered else ["1"])
        last.send(b"answer\n", Weight.MUST, b"1")
        assert last.open == []


@bounded(LIMIT)
async def test_a_handshake_that_was_read_and_not_acted_upon_is_heard(tmp_path: Path) -> None:
    one = Host(tmp_path)
    line = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'

    def die(session: Session, lines: list[bytes | Oversized]) -> None:
        one.take(session, lines)
        raise _KilledError

    one.session.begin(die)
    one.session._loop.set_exception_handler(lambda _, context: None)
    one.say(line + b'\n{"part')
    await one.heard()
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, lines):
        assert lines == [line]
        assert again.open == ["1"]
        again.session.recovered()
        assert again.open == []


class _KilledError(Exception):
    """Stands for a SIGKILL between reading and acting."""


@bounded(LIMIT)
async def test_a_line_that_was_begun_goes_on(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.say(b'first\n{"half":')
    await one.heard()
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, _):
        again.say(b'"line"}\nnext\n')
        assert await again.heard(2) == [b'{"half":"line"}', b"next"]


@bounded(LIMIT)
async def test_the_rest_of_a_line_that_is_too_long_is_thrown_away(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.say(b"first\n" + b"y" * 2000)
    await one.heard()
    await turns()
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, _):
        again.say(b"yyyy\nnext\n")
        long, following = await again.heard(2)
        assert isinstance(long, Oversized)
        assert following == b"next"


@bounded(LIMIT)
async def test_half_a_line_to_the_host_is_ended_before_anything_else(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.session.opened(b"1")
    one.fill(90_000, Weight.MUST, b"1")
    got = one.got()
    assert 0 < len(got) < 90_000
    await died(one, tmp_path)
    async with resumed(tmp_path) as (again, _):
        data = again.got()
        assert data.startswith(b"\n{")
        assert list(errors(data)) == [1]
        assert not again.journal.mid_output


@bounded(LIMIT)
async def test_slow_state_is_kept(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.session.remember(State(version="2025-06-18", initialized=True, level="debug", uris=["res://r1"]))
    await died(one, tmp_path)
    journal, recovered = Journal.recover(tmp_path, "token")
    state = {"version": "2025-06-18", "initialized": True, "level": "debug", "uris": ["res://r1"]}
    assert recovered.state == {"server": "s", "project": "/p", "cwd": "/c", "state": state}
    journal.remove()


@bounded(LIMIT)
async def test_a_host_that_left_while_the_daemon_was_dead(tmp_path: Path) -> None:
    one = Host(tmp_path).begin()
    one.session.opened(b"1")
    await died(one, tmp_path)
    journal, recovered = Journal.recover(tmp_path, "token")
    again = Host(tmp_path, SMALL, journal)
    os.close(again.read_end)
    assert again.session.recover(recovered, resume(recovered.pending, (), State())) == []
    again.begin()
    assert len(again.ends) == 1
    again.close()
    assert leftovers(tmp_path) == frozenset()
