"""Case 28: stderr nobody reads, logs nobody can write."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import RUN, Daemon, bare, daemon, fake
from tests.kit.fhost import Host
from tests.kit.required import need

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


class OwnDisk:
    """A daemon whose logs are on a disk of their own, which nobody else sees: that needs no privilege."""

    def __init__(self, d: Daemon) -> None:
        self._d = d
        self._logs = d.home / "state" / "logs"

    async def start(self, size: str) -> None:
        """Start the daemon with a disk of that size."""
        self._logs.mkdir(parents=True, exist_ok=True)
        own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
        script = f'mount -t tmpfs -o size={size} none "$0" && exec "$@"'
        need(_works([*own, "/bin/sh", "-c", script, str(self._logs), "true"]), "leave to mount a file system")
        await self._d.start(args=[*own, "/bin/sh", "-c", script, str(self._logs), *RUN])

    def forbid(self) -> None:
        """Let nobody write any more, but into what is open already."""
        self._inside('mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"')

    def allow(self) -> None:
        """Let everybody write again."""
        self._inside('umount "$0"')

    def _inside(self, script: str) -> None:
        assert self._d.process is not None
        inside = ["nsenter", f"--target={self._d.process.pid}", "--mount"]
        inside += [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        subprocess.run([*inside, "/bin/sh", "-c", script, str(self._logs)], check=True)

    @property
    def files(self) -> list[Path]:
        """The files on the disk."""
        assert self._d.process is not None
        return sorted(Path(f"/proc/{self._d.process.pid}/root{self._logs}").iterdir())

    async def grows(self, host: Host, name: str = "s.log") -> None:
        """Write to stderr until the log of the server is there and grows."""
        sizes: list[int] = []
        for _ in range(60):
            await host.call("stderr", bytes=500)
            await asyncio.sleep(0.05)
            sizes += [path.stat().st_size for path in self.files if path.name == name]
            if len(sizes) > 1 and sizes[-1] > sizes[-2]:
                return
        raise AssertionError(f"the log does not grow: {self.files}")


def _works(command: list[str]) -> bool:
    return subprocess.run(command, check=False).returncode == 0


async def degraded(d: Daemon, host: Host) -> str:
    """Write to stderr until the daemon says that its logs suffer, and return what it says."""
    for _ in range(60):
        await host.call("stderr", bytes=100_000)
        if (said := (await d.status())["daemon"]["logging"]) != "ok":
            return str(said)
        await asyncio.sleep(0.05)
    raise AssertionError("the logs are fine")


@bounded(60)
async def test_a_full_disk_degrades_logging_and_nothing_else() -> None:
    async with daemon(bare("s"), start=False) as d:
        disk = OwnDisk(d)
        await disk.start("64k")
        host = await d.connected("s")
        assert "No space left" in await degraded(d, host)
        assert (await host.call("echo", value="fine")).text == "fine"
        assert (await (await d.connected("s")).call("echo", value="new")).text == "new"
        for path in disk.files:
            path.write_bytes(b"")
        await disk.grows(host)
        assert (await d.status())["daemon"]["logging"] == "ok"


@bounded(60)
async def test_a_directory_that_became_read_only_degrades_logging_and_nothing_else() -> None:
    async with daemon(bare("s", entry={"log": {"max_size": "4K", "keep": 2}}), bare("t"), start=False) as d:
        disk = OwnDisk(d)
        await disk.start("1m")
        host = await d.connected("s")
        await disk.grows(host)
        disk.forbid()
        assert "Read-only file system" in await degraded(d, host)
        assert (await host.call("echo", value="fine")).text == "fine"
        other = await d.connected("t")
        assert (await other.call("echo", value="new")).text == "new", "a start needs no log"
        disk.allow()
        await disk.grows(host)
        await disk.grows(other, "t.log")
        assert (await d.status())["daemon"]["logging"] == "ok"


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
    entry = {"scope": "session", "log": {"max_size": "4K", "keep": 2, "rate": "off"}}
    async with daemon(bare("s", entry=entry)) as d:
        hosts = [await d.connected("s") for _ in range(20)]
        for _ in range(3):  # six megabytes in files of four kilobytes: more than a thousand rotations
            calls = [host.post_call("stderr", bytes=100_000) for host in hosts]
            for host, call in zip(hosts, calls, strict=True):
                await host.answer_of(call, timeout=20)
        kept = [path for path in d.log_files() if path.name.startswith("s.log")]
        assert len(kept) <= 3
        assert all(path.stat().st_size <= 4096 + 8300 for path in kept)
        table = probe.fd_table(await d.pid())
        assert sum("s.log" in what for what in table.values()) <= 20
        assert (await d.status())["daemon"]["logging"] == "ok"
