"""What the configuration says of network, limits and users, seen from inside of a server that a daemon runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.e2e.sdk import sdk_host, text_of_call
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon
from tests.kit.required import as_root
from tests.kit.stranger import stranger

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the page")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def website() -> Iterator[int]:
    """Serve a page on the loopback of the machine for the block; yield the port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def configure(d: Daemon, **entry: Any) -> None:
    """Give the daemon the server, with more settings."""
    d.write_config(tomli_w.dumps({"servers": {"s": stranger(**entry)}}))


def user_of(pid: int) -> int:
    """Return the real user of a process."""
    return int(Path(f"/proc/{pid}/status").read_text().split("Uid:")[1].split()[0])


def get(url: str) -> str:
    """Return an expression that fetches a page."""
    return f"urllib.request.urlopen({url!r}, timeout=10).read().decode()"


@bounded(90)
async def test_a_server_reaches_what_its_rules_name_and_nothing_else() -> None:
    with website() as allowed, website() as other:
        async with daemon(start=False) as d:
            configure(d, network={"allow": [f"host-loopback:{allowed}"]})
            await d.start()
            async with sdk_host(d, "s") as session:
                page = get(f"http://host-loopback:{allowed}/")
                assert await text_of_call(session, "evaluate", text=page) == "the page"
                for url in (
                    f"http://host-loopback:{other}/",
                    f"http://127.0.0.1:{other}/",
                    "http://evil.example/",
                ):
                    assert "Error" in await text_of_call(session, "evaluate", text=get(url))
                direct = "__import__('socket').getaddrinfo('evil.example', 443)"
                assert "gaierror" in await text_of_call(session, "evaluate", text=direct)
            assert (await d.server("s"))["network"] == f"host-loopback:{allowed}"
            log = d.logs()
            assert "egress refused evil.example:80: it is not in the rules of this server" in log
            assert f"egress refused host-loopback:{other}: port {other} is not in its rules" in log
            # The program that makes listeners is kept for a next sandbox; the end of the daemon is its end too.
            assert await d.terminate() == 0


@bounded(90)
async def test_what_an_audited_server_is_refused_is_in_its_log() -> None:
    async with daemon(start=False) as d:
        configure(d, profile="node", seccomp={"audit": True})
        await d.start()
        async with sdk_host(d, "s") as session:
            namespace = "__import__('ctypes').CDLL(None).unshare(0x10000000)"
            assert await text_of_call(session, "evaluate", text=namespace) == "-1"
            while "system call unshare refused: EPERM" not in d.logs():
                await asyncio.sleep(0.02)
            assert "FileNotFoundError" in await text_of_call(session, "evaluate", text="open('/etc/shadow')")
            while "file not shown that it would read: /etc/shadow" not in d.logs():
                await asyncio.sleep(0.02)
        assert (await d.server("s"))["profile"] == "node"


@bounded(90)
async def test_a_server_that_takes_too_much_memory_is_ended_and_the_limit_named() -> None:
    async with daemon(start=False) as d:
        configure(d, limits={"memory": "128M", "pids": 40})
        await d.start()
        async with sdk_host(d, "s") as session:
            assert await text_of_call(session, "evaluate", text="6 * 7") == "42"
            [instance] = await d.instances("s")
            assert [limit.partition(" by ")[0] for limit in instance["limits"]][:2] == ["memory 128M", "pids 40"]
            with pytest.raises(Exception, match="memory limit 128M"):
                await session.call_tool("evaluate", {"text": "len(b'x' * (600 << 20))"})
        assert "memory limit 128M" in (await d.server("s"))["last_error"]


@as_root
@bounded(90)
async def test_a_server_of_root_is_nobody_and_works_on_files_of_root(tmp_path: Path) -> None:
    async with daemon(start=False) as d:
        configure(d, mounts=[{"path": str(tmp_path), "access": "rw"}])
        await d.start()
        async with sdk_host(d, "s") as session:
            write = f"open({str(tmp_path / 'made')!r}, 'w').write('here')"
            assert await text_of_call(session, "evaluate", text=write) == "4"
            [instance] = await d.instances("s")
            real = user_of(instance["pid"])
    assert 60706 <= real <= 61183
    assert instance["user"] == str(real)
    assert ((tmp_path / "made").read_text(), (tmp_path / "made").stat().st_uid) == ("here", 0)
