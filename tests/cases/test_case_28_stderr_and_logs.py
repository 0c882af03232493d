"""Case 28: stderr nobody reads, logs nobody can write."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import Daemon, daemon, fake
from tests.kit.fhost import Host

pytestmark = pytest.mark.bwrap
MIB = 1 << 20


def log(d: Daemon, name: str = "s") -> Path:
    """Return where the log of a server is."""
    return next(path for path in d.log_files() if path.name == f"{name}.log")


async def written(d: Daemon, host: Host) -> None:
    """Write to stderr until the log is there and grows."""
    sizes: list[int] = []
    for _ in range(60):
        await host.call("stderr", bytes=500)
        await asyncio.sleep(0.05)
        sizes += [path.stat().st_size for path in d.log_files() if path.name == "s.log"]
        if len(sizes) > 1 and sizes[-1] > sizes[-2]:
            return
    raise AssertionError(f"the log does not grow: {d.log_files()}")


MUCH = [{"bytes": MIB}, {"bytes": 8 * MIB, "cr_only": True}, {"bytes": MIB, "newline": False}]


@pytest.mark.parametrize("told", MUCH)
@bounded(60)
async def test_much_stderr_before_the_handshake(told: dict[str, object]) -> None:
    entry = {"start_timeout": "5s", "log": {"max_size": "64K", "keep": 3}}
    async with daemon(fake("s", stderr=told, entry=entry)) as d:
        before = probe.rss(await d.pid())
        host = await d.connected("s")
        assert (await host.call("echo", value="up")).text == "up"
        assert probe.rss(await d.pid()) - before < 16 * MIB
        assert host.garbage == []
        assert b"eee" not in b"".join(frame.raw for frame in host.answers)
        assert sum(path.stat().st_size for path in d.log_files() if path.name.startswith("s.log")) <= 4 * 64 * 1024


@bounded(60)
async def test_progress_that_only_returns_the_carriage() -> None:
    async with daemon(fake("s", entry={"log": {"max_size": "64K", "keep": 2}})) as d:
        host, other = await d.connected("s"), await d.connected("s")
        await host.call("echo")
        before = probe.rss(await d.pid())
        call = host.post_call("stderr", bytes=40 * MIB, cr_only=True)
        assert (await other.request("ping")).result == {}
        await host.answer_of(call, timeout=30)
        assert probe.rss(await d.pid()) - before < 16 * MIB
        kept = [path for path in d.log_files() if path.name.startswith("s.log")]
        assert len(kept) <= 3
        assert sum(path.stat().st_size for path in kept) < 300_000


@bounded(60)
async def test_a_deleted_or_moved_log_is_made_anew() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        await host.call("stderr", bytes=1000)
        await written(d, host)
        first = log(d)
        first.rename(first.with_suffix(".moved"))
        await written(d, host)
        shutil.rmtree(first.parent)
        await written(d, host)
        assert log(d) == first
        assert (await d.status())["daemon"]["logging"] == "ok"


@contextmanager
def small_disk(path: Path) -> Iterator[None]:
    """Put a file system of 64 KB at the path, or skip the test where that is not allowed."""
    path.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "smcp-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small file system here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@bounded(60)
async def test_a_full_disk_degrades_logging_and_nothing_else() -> None:
    async with daemon(fake("s"), start=False) as d:
        with small_disk(d.home / "state" / "logs"):
            await d.start()
            host = await d.connected("s")
            await host.call("stderr", bytes=300_000)
            await host.call("stderr", bytes=300_000)
            assert (await host.call("echo", value="fine")).text == "fine"
            status = await d.status()
            assert status["daemon"]["logging"] != "ok"
            for path in d.log_files():
                if path.name != "s.log":
                    path.unlink()
            log(d).write_bytes(b"")
            await written(d, host)
            assert (await d.status())["daemon"]["logging"] == "ok"
            await d.terminate()


@bounded(60)
async def test_a_log_directory_that_is_a_file_does_not_stop_a_start() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        await host.call("echo")
        logs = d.home / "state" / "logs"
        shutil.rmtree(logs)
        logs.write_text("in the way")
        await d.control("restart", names=["s"])
        for _ in range(50):
            await host.call("stderr", bytes=100_000)
            if (await d.status())["daemon"]["logging"] != "ok":
                break
            await asyncio.sleep(0.05)
        assert (await d.status())["daemon"]["logging"] != "ok"
        assert (await host.call("echo", value="fine")).text == "fine"
        logs.unlink()
        await written(d, host)
        assert (await d.status())["daemon"]["logging"] == "ok"


@bounded(90)
async def test_many_rotations_by_many_writers() -> None:
    entry = {"scope": "session", "log": {"max_size": "4K", "keep": 2}}
    async with daemon(fake("s", entry=entry)) as d:
        hosts = [await d.connected("s") for _ in range(6)]
        for _ in range(4):
            calls = [host.post_call("stderr", bytes=100_000) for host in hosts]
            for host, call in zip(hosts, calls, strict=True):
                await host.answer_of(call, timeout=20)
        kept = [path for path in d.log_files() if path.name.startswith("s.log")]
        assert len(kept) <= 3
        assert all(path.stat().st_size <= 4096 + 8300 for path in kept)
        table = probe.fd_table(await d.pid())
        assert sum("s.log" in what for what in table.values()) <= 6
        assert (await d.status())["daemon"]["logging"] == "ok"
