"""Who fetches metrics is answered from a thread, in either way to listen, and bothers nobody."""

from __future__ import annotations

import asyncio
import errno
import http.client
import socket
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from supervisord_mcp.metrics import scraping
from supervisord_mcp.metrics.exposition import Snapshot
from supervisord_mcp.metrics.scraping import MOST, ScrapeServer
from supervisord_mcp.protocol.usage import UsageResult
from tests.kit.bounded import bounded

LIMIT = 20


async def look() -> Snapshot:
    await asyncio.sleep(0)
    return Snapshot(UsageResult(at=0.0), "1", 7.0)


def listening(family: int, address: object) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.bind(address)  # type: ignore[arg-type]
    made.listen()
    made.setblocking(False)
    return made


@asynccontextmanager
async def served(
    made: socket.socket, *, guarded: bool = False, look: Callable[[], object] = look
) -> AsyncIterator[ScrapeServer]:
    server = ScrapeServer(made, look, guarded=guarded)  # type: ignore[arg-type]
    try:
        yield server
    finally:
        server.close()


async def fetched(port: int, query: str = "", **headers: str) -> tuple[int, str]:
    """Fetch the metrics, and return the status and the text."""

    def fetch() -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", f"/metrics{query}", headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    return await asyncio.to_thread(fetch)


@bounded(LIMIT)
async def test_metrics_are_fetched() -> None:
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    port = made.getsockname()[1]
    async with served(made, guarded=True):
        for host in (f"127.0.0.1:{port}", "localhost", "[::1]:80", "[::1]"):
            status, text = await fetched(port, Host=host)
            assert status == 200
            assert "smcp_daemon_start_time_seconds 7.0" in text
        status, text = await fetched(port, Host=f"evil.example:{port}")
        assert status == 403
        assert "smcp" not in text
    with pytest.raises(OSError, match="refused"):
        await fetched(port)


@bounded(LIMIT)
async def test_with_an_address_for_others_a_name_is_fine() -> None:
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    async with served(made):
        assert (await fetched(made.getsockname()[1], Host="metrics.example"))[0] == 200


@bounded(LIMIT)
async def test_a_unix_socket(tmp_path: Path) -> None:
    path = str(tmp_path / "m")

    def fetch() -> bytes:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.settimeout(10)
            asking.connect(path)
            asking.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: asking.recv(65536), b""))

    async with served(listening(socket.AF_UNIX, path)):
        answer = await asyncio.to_thread(fetch)
    assert answer.startswith(b"HTTP/1.0 200 OK")
    assert b"smcp_daemon_start_time_seconds 7.0" in answer


@bounded(LIMIT)
async def test_only_so_many_are_served_at_once() -> None:
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    address = made.getsockname()
    async with served(made):
        silent = []
        for _ in range(MOST):
            asking = socket.create_connection(address, 10)
            asking.setblocking(False)
            silent.append(asking)
        one_more = socket.create_connection(address, 10)
        one_more.setblocking(False)
        with one_more:
            # It is hung up on, since the others have every thread.
            assert await asyncio.get_running_loop().sock_recv(one_more, 1) == b""
        for asking in silent:
            asking.close()
        while threading.active_count() > 1 and any("process_request" in one.name for one in threading.enumerate()):
            await asyncio.sleep(0.01)
        assert (await fetched(address[1]))[0] == 200


@bounded(LIMIT)
async def test_who_never_ends_to_ask_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "PATIENCE", 0.2)
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    async with served(made):
        reader, writer = await asyncio.open_connection(*made.getsockname())
        writer.write(b"GET /metrics HTTP/1.0\r\nX: ")
        with suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x")
                await writer.drain()
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.02)
        writer.close()
        assert (await fetched(made.getsockname()[1]))[0] == 200, "and it serves on"


@bounded(LIMIT)
async def test_some_metrics_alone(capfd: pytest.CaptureFixture[str]) -> None:
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    port = made.getsockname()[1]
    async with served(made):
        status, text = await fetched(port, "?name[]=smcp_daemon_threads&name[]=none")
        assert (status, [line for line in text.splitlines() if line[0] != "#"]) == (200, ["smcp_daemon_threads 0.0"])
        assert await fetched(port, "?name[]=none") == (200, "")
    assert capfd.readouterr().err == ""


@bounded(LIMIT)
async def test_the_answer_is_made_once_for_all_who_ask_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "FRESH", 0.6)
    looks: list[int] = []

    async def counted() -> Snapshot:
        looks.append(len(looks))
        await asyncio.sleep(0.05)
        return Snapshot(UsageResult(at=0.0), "1", float(len(looks)))

    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    port = made.getsockname()[1]
    async with served(made, look=counted):
        answers = await asyncio.gather(*(fetched(port) for _ in range(MOST)))
        assert {(status, "start_time_seconds 1.0" in text) for status, text in answers} == {(200, True)}
        assert len(looks) == 1
        assert "smcp_daemon_threads 0.0" in (await fetched(port, "?name[]=smcp_daemon_threads"))[1]
        assert len(looks) == 2, "another question has another answer"
        assert "start_time_seconds 3.0" in (await fetched(port))[1]
        await asyncio.sleep(0.7)
        assert "start_time_seconds 4.0" in (await fetched(port))[1]


@bounded(LIMIT)
async def test_a_failure_is_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    async def fail() -> Snapshot:
        raise ValueError("no figures")

    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    async with served(made, look=fail):
        assert (await fetched(made.getsockname()[1]))[0] == 500
        assert (await fetched(made.getsockname()[1]))[0] == 500, "and it serves on"


@bounded(LIMIT)
async def test_without_descriptors_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scraping, "PAUSE", 0.01)
    made = listening(socket.AF_INET, ("127.0.0.1", 0))
    port = made.getsockname()[1]
    async with served(made) as server:
        tries = []

        class Full:
            """A socket for which there is no descriptor at first."""

            def __getattr__(self, name: str) -> object:
                return getattr(made, name)

            def accept(self) -> tuple[socket.socket, object]:
                tries.append(1)
                if len(tries) < 4:
                    raise OSError(errno.EMFILE, "no more")
                return made.accept()

        server.socket = Full()  # type: ignore[assignment]
        assert (await fetched(port))[0] == 200
        assert len(tries) == 4
        server.socket = made
