"""From a connection to a greeting with its descriptors, and every way in which that can fail without a leak."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import socket
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import listener as module
from supervisord_mcp.listener import Greeting, Listener
from supervisord_mcp.protocol.hello import MAX_HELLO
from tests.kit.bounded import bounded
from tests.kit.probe import fd_table

LIMIT = 20


def greeting(role: str = "shim", **more: Any) -> bytes:
    """Return the line that a client sends."""
    return json.dumps({"smcp": 1, "role": role, **more}).encode() + b"\n"


class Desk:
    """A listener on a socket of its own, the greetings it passed on, and clients of it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "socket"
        self.listening = self.listen(self.path)
        self.greetings: asyncio.Queue[Greeting] = asyncio.Queue()
        self.listener = Listener(self.listening, self.greetings.put_nowait)
        self.loop = asyncio.get_running_loop()
        self.pipes: list[int] = []
        self.clients: list[socket.socket] = []
        self.pairs: list[socket.socket] = []

    def listen(self, path: Path) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.listen(100)
        listening.setblocking(False)
        return listening

    async def client(self) -> socket.socket:
        """Connect."""
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        self.clients.append(client)
        await self.loop.sock_connect(client, str(self.path))
        return client

    async def sends(self, data: bytes, fds: list[int] | None = None) -> socket.socket:
        """Connect and send this with these descriptors."""
        client = await self.client()
        socket.send_fds(client, [data], fds or [])
        return client

    async def accepted(self) -> socket.socket:
        """Return a client that has said half of its greeting."""
        client = await self.sends(b'{"smcp"', self.pipe())
        while not any(newcomer._data for newcomer in self.listener._newcomers):
            await asyncio.sleep(0.001)
        return client

    async def said(self, client: socket.socket) -> bytes:
        """Return everything up to the end of a connection."""
        data = b""
        while chunk := await self.loop.sock_recv(client, 65536):
            data += chunk
        return data

    def pipe(self) -> list[int]:
        """Return the ends of a new pipe."""
        ends = list(os.pipe())
        self.pipes += ends
        return ends

    def take(self, found: Greeting) -> None:
        """Close what belongs to a greeting."""
        found.connection.close()
        for fd in found.fds:
            os.close(fd)

    def close(self) -> None:
        self.listener.close()
        self.listening.close()
        for client in self.clients:
            client.close()
        for fd in self.pipes:
            os.close(fd)
        while not self.greetings.empty():
            self.take(self.greetings.get_nowait())

    async def __aenter__(self) -> Desk:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


@bounded(LIMIT)
async def serve(path: Path) -> None:
    async with Desk(path) as desk:
        source, sink = desk.pipe()
        client = await desk.sends(greeting(server="a", environ={"A": "b"}), [source, sink])
        found = await desk.greetings.get()
        assert (found.hello.server, found.hello.environ, found.rest) == ("a", {"A": "b"}, b"")
        assert (found.peer_pid, found.peer_uid) == (os.getpid(), os.getuid())
        assert not found.connection.getblocking()
        assert not any(map(os.get_inheritable, found.fds))
        os.write(found.fds[1], b"through")
        assert os.read(found.fds[0], 100) == b"through"
        found.connection.send(b"ok\n")
        assert await desk.loop.sock_recv(client, 100) == b"ok\n"
        desk.take(found)


def test_a_shim_with_its_descriptors(tmp_path: Path) -> None:
    serve(tmp_path)


@bounded(LIMIT)
async def pieces(path: Path) -> None:
    async with Desk(path) as desk:
        source, sink = desk.pipe()
        line = greeting(server="x" * 50)
        client = await desk.client()
        socket.send_fds(client, [line[:1]], [source, sink])
        for number in range(1, len(line)):
            await desk.loop.sock_sendall(client, line[number : number + 1])
            await asyncio.sleep(0)
        found = await desk.greetings.get()
        assert found.hello.server == "x" * 50
        desk.take(found)
        long = greeting(server="y" * (MAX_HELLO - 100))
        sending = asyncio.ensure_future(desk.loop.sock_sendall(await desk.sends(long[:10], [source, sink]), long[10:]))
        found = await desk.greetings.get()
        await sending
        assert len(found.hello.server) == MAX_HELLO - 100
        desk.take(found)


def test_a_greeting_in_pieces(tmp_path: Path) -> None:
    pieces(tmp_path)


@bounded(LIMIT)
async def control(path: Path) -> None:
    async with Desk(path) as desk:
        await desk.sends(greeting("control") + b'{"id":1}\n{"id"')
        found = await desk.greetings.get()
        assert (found.hello.role, found.fds, found.rest) == ("control", (), b'{"id":1}\n{"id"')
        desk.take(found)


def test_what_follows_the_greeting_is_kept(tmp_path: Path) -> None:
    control(tmp_path)


@bounded(LIMIT)
async def refusals(path: Path, data: bytes, number: int, text: str) -> None:
    async with Desk(path) as desk:
        ends = [fd for _ in range(10) for fd in desk.pipe()][:number]
        before = fd_table()
        client = await desk.sends(data, ends)
        said = (await desk.said(client)).decode()
        assert said.startswith("no ")
        assert text in said
        assert desk.listener.refused == 1
        client.close()
        assert fd_table() == before, "every descriptor was closed"
        source, sink = desk.pipe()
        await desk.sends(greeting(), [source, sink])
        desk.take(await desk.greetings.get())


@pytest.mark.parametrize(
    ("data", "number", "text"),
    [
        (greeting(), 0, "comes with 2 descriptors, not 0"),
        (greeting(), 1, "comes with 2 descriptors, not 1"),
        (greeting(), 3, "comes with 2 descriptors, not 3"),
        (greeting(), 20, "descriptors were lost on the way"),
        (greeting("control"), 2, "comes with 0 descriptors, not 2"),
        (greeting("somebody"), 2, "not a greeting of smcp"),
        (b"GET / HTTP/1.1\r\n", 0, "not a greeting of smcp"),
        (b"\n", 2, "not a greeting of smcp"),
        (b'{"smcp":2,"role":"shim"}\n', 2, "greeting version 2 is not known"),
    ],
)
def test_who_is_refused(tmp_path: Path, data: bytes, number: int, text: str) -> None:
    refusals(tmp_path, data, number, text)


def test_a_question_whether_anybody_is_there_is_not_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, said, logged in (("a", b"\n", 0), ("b", b"x\n", 1)):
        (tmp_path / name).mkdir()
        refusals(tmp_path / name, said, 0, "not a greeting of smcp")
        assert len(caplog.messages) == logged


@bounded(LIMIT)
async def files(path: Path) -> None:
    async with Desk(path) as desk:
        fd = os.open("/dev/null", os.O_RDWR)
        desk.pipes.append(fd)
        client = await desk.sends(greeting(), [fd, fd])
        assert b"must be pipes or sockets" in await desk.said(client)


def test_a_file_cannot_be_awaited(tmp_path: Path) -> None:
    files(tmp_path)


@bounded(LIMIT)
async def endless(path: Path) -> None:
    async with Desk(path) as desk:
        client = await desk.client()
        with pytest.raises(ConnectionError):
            await desk.loop.sock_sendall(client, b"x" * (10 * MAX_HELLO))
        assert f"longer than {MAX_HELLO} bytes".encode() in await desk.loop.sock_recv(client, 1000)
        assert desk.greetings.empty()


def test_a_line_without_an_end(tmp_path: Path) -> None:
    endless(tmp_path)


@bounded(LIMIT)
async def silent(path: Path) -> None:
    async with Desk(path) as desk:
        before = fd_table()
        client = await desk.sends(b'{"smcp"', desk.pipe())
        assert b"no greeting within" in await desk.said(client)
        gone = await desk.sends(b'{"smcp"', desk.pipes)
        gone.close()
        client.close()
        while fd_table().keys() != before.keys() | set(desk.pipes):
            await asyncio.sleep(0.001)


def test_who_says_nothing_and_who_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    silent(tmp_path)


@bounded(LIMIT)
async def foreign(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Desk(path) as desk:
        monkeypatch.setattr(os, "getuid", lambda: 4321)
        client = await desk.client()
        assert (await desk.said(client)).startswith(b"no 1 this is the daemon of uid 4321, not of uid ")


def test_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign(tmp_path, monkeypatch)


@bounded(LIMIT)
async def failing(path: Path) -> None:
    async with Desk(path) as desk:
        problems: list[dict[str, Any]] = []
        desk.loop.set_exception_handler(lambda _, context: problems.append(context))

        def fail(_: Greeting) -> None:
            raise LookupError("why")

        desk.listener._on_greeting = fail
        before = fd_table()
        client = await desk.sends(greeting(), desk.pipe())
        assert await desk.said(client) == b""
        client.close()
        assert fd_table().keys() == before.keys() | set(desk.pipes)
        assert [str(problem["exception"]) for problem in problems] == ["why"]


def test_a_greeting_that_nobody_takes_over(tmp_path: Path) -> None:
    failing(tmp_path)


@bounded(LIMIT)
async def moving(path: Path) -> None:
    async with Desk(path) as desk:
        waiting = await desk.accepted()
        lost = desk.listening
        desk.path = path / "other"
        desk.listening = desk.listen(desk.path)
        desk.listener.listen_on(desk.listening)
        lost.close()
        await desk.sends(greeting("control"))
        desk.take(await desk.greetings.get())
        await desk.loop.sock_sendall(waiting, b':1,"role":"shim"}\n')
        desk.take(await desk.greetings.get())
        late = await desk.accepted()
        desk.listener.close()
        assert await desk.said(late) == b"", "not a word: its shim tries again"


def test_another_socket_and_the_end(tmp_path: Path) -> None:
    moving(tmp_path)


# No descriptors left (case 14 c)


@bounded(LIMIT)
async def exhausted(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Desk(path) as desk:
        clients = [socket.socket(socket.AF_UNIX) for _ in range(40)]
        desk.clients += clients
        highest = max(fd_table())
        while (fd := os.dup(clients[0].fileno())) <= highest:
            desk.pipes.append(fd)  # the limit is on the number, so there must be no gaps below it
        os.close(fd)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (fd + 4, hard))
            for client in clients:
                client.setblocking(False)
                await desk.loop.sock_connect(client, str(desk.path))
            said = [(await desk.said(client)).decode() for client in clients if await hung_up(desk, client)]
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert len(said) >= 30, "the others are connected"
        assert all("no file descriptors left" in text for text in said)
        assert desk.listener.refused == len(said)
        assert len(caplog.records) == 1
        await desk.sends(greeting("control"))
        desk.take(await desk.greetings.get())


async def hung_up(desk: Desk, client: socket.socket) -> bool:
    """Return whether a client was told something, once all had their turn."""
    while desk.listener.refused < 30:
        await asyncio.sleep(0.001)
    try:
        return bool(client.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False


def test_without_descriptors_everybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOG_PERIOD", 1000.0)
    with caplog.at_level(logging.WARNING):
        exhausted(tmp_path, caplog)
    assert "no file descriptors left" in caplog.records[0].getMessage()


@bounded(LIMIT)
async def no_reserve(path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with Desk(path) as desk:
        first = await desk.client()
        fd = os.dup(0)  # somebody was quicker and took the one in reserve
        os.close(desk.listener._reserve)
        desk.listener._reserve = -1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (fd, hard))
            while desk.listener._resume is None:
                await asyncio.sleep(0.001)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(fd)
        socket.send_fds(first, [greeting("control")], [])
        desk.take(await desk.greetings.get())


def test_where_not_even_the_reserve_helps_it_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PAUSE", 0.05)
    no_reserve(tmp_path)


@bounded(LIMIT)
async def chatter(path: Path) -> None:
    async with Desk(path) as desk:
        for _ in range(20):
            await desk.said(await desk.sends(b"x\n"))


def test_the_log_is_bounded_and_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_LOG_PERIOD", 1000.0)
    with caplog.at_level(logging.WARNING):
        chatter(tmp_path)
    assert len(caplog.records) == 1
