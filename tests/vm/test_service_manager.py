"""A daemon under a real service manager: its own group, the limits in it, what a killed one leaves, the unit."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest
import tomli_w

from supervisord_mcp.runtimes import hierarchy
from tests.e2e.test_limits import HOG, LIMITS, excess, means
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, START, Daemon, daemon
from tests.kit.required import as_root, in_machine
from tests.kit.stranger import stranger

pytestmark = [in_machine, pytest.mark.slow]

#: For anything that is waited for, in seconds: the processor is emulated.
PATIENCE = START
#: What a command for the service manager of a person must know.
REACH = {**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}
GROUPS = {"memory": "64M by cgroup v2", "pids": "40 by cgroup v2", "cpu": "0.5 by cgroup v2"}
SCOPE = re.compile(r"/smcp-\d+-[0-9a-f]{8}\.scope/supervisor$")
UNIT = ROOT / "contrib/systemd/smcp.service"


def smcp(d: Daemon, *words: str, patient: bool = False) -> str:
    """Run a command against the daemon of a test, and return what it printed.

    One that starts the daemon gives up after twenty seconds, which may be too soon here; then it is asked once more.
    """
    for _ in range(3 if patient else 1):
        done = subprocess.run(
            ["smcp", *words], env=d.env, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        if done.returncode == 0:
            break
    assert done.returncode == 0, (words, done.stdout, done.stderr, d.logs())
    return done.stdout


def group(pid: int) -> str:
    """Return the control group of a process."""
    return Path(f"/proc/{pid}/cgroup").read_text().strip().removeprefix("0::")


@asynccontextmanager
async def started(**environ: str) -> AsyncIterator[Daemon]:
    """Start a daemon by a command, as the first host does, for the block."""
    async with daemon(start=False, env=environ) as d:
        d.write_config(tomli_w.dumps({"servers": {"s": stranger(limits=LIMITS), "neighbour": stranger()}}))
        await asyncio.to_thread(smcp, d, "up", patient=True)
        yield d
        await over(d)


async def over(d: Daemon) -> None:
    """End the daemon, and the second one that an impatient shim has begun to start: a start takes long here."""
    deadline = time.monotonic() + PATIENCE
    while any(found.cmdline.endswith("run --on-demand") for found in probe.find(d.marks)):
        assert time.monotonic() < deadline, d.logs()
        with suppress(OSError, EOFError, TimeoutError):
            await d.control("down")
        await asyncio.sleep(0.2)


def test_the_tests_may_make_no_groups_themselves() -> None:
    assert hierarchy.detect() is None


@bounded(4 * PATIENCE)
async def test_a_daemon_gets_a_group_of_its_own_where_limits_are_kept() -> None:
    async with started() as d:
        pid = await d.pid()
        assert SCOPE.search(group(pid))
        host = await d.connected("s")
        assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
        assert await means(d) | GROUPS == await means(d)
        assert "limit memory 64M by cgroup v2" in await asyncio.to_thread(smcp, d, "status", "s")
        [instance] = await d.instances("s")
        # What bubblewrap leaves outside to wait is not the server.
        [inside] = {group(one).rpartition("/")[2] for one in probe.descendants(instance["pid"])}
        assert inside.startswith(f"smcp-{pid}-")
        await excess(d, HOG, "memory limit 64M")
        assert SCOPE.search(group(pid)), "the service manager leaves the daemon alone when a server is killed"
    await eventually(lambda: not scopes())


@bounded(4 * PATIENCE)
async def test_a_killed_daemon_leaves_no_group() -> None:
    async with started() as d:
        host = await d.connected("s")
        assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
        [instance] = await d.instances("s")
        first = await d.pid()
        os.kill(first, signal.SIGKILL)
        await d.answers(PATIENCE)
        pid = await d.pid()
        assert pid != first
        assert SCOPE.search(group(pid))
        await eventually(lambda: not probe.alive(instance["pid"]))
        await eventually(lambda: len(scopes()) == 1)
        assert (await host.call("evaluate", text="6 * 7", timeout=PATIENCE)).text == "42"
        assert await means(d) | GROUPS == await means(d)


@bounded(4 * PATIENCE)
async def test_a_bus_that_does_not_answer_costs_the_group_and_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "busctl"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    async with started(PATH=f"{tmp_path}:{os.environ['PATH']}") as d:
        host = await d.connected("s")
        assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
        assert (await means(d))["memory"] == "64M by watcher"
        assert (await means(d))["cpu"] == "0.5 by watcher"
        assert "no control group from the service manager" in d.logs()


def test_the_doctor_says_where_the_groups_come_from() -> None:
    done = subprocess.run(["smcp", "doctor"], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert re.search(r"control groups.*the daemon asks systemd for one of its own", " ".join(done.stdout.split()))


@contextmanager
def installed(text: str) -> Iterator[list[str]]:
    """Install a unit for this user, with the program of these tests, for the block; yield how its manager is told."""
    control = ["systemctl", "--user"] if os.geteuid() else ["systemctl"]
    place = Path.home() / ".config/systemd/user" if os.geteuid() else Path("/etc/systemd/system")
    place.mkdir(parents=True, exist_ok=True)
    program = shutil.which("smcp")
    assert program is not None
    (place / UNIT.name).write_text(text.replace("%h/.local/bin/smcp", program))
    subprocess.run([*control, "daemon-reload"], env=REACH, check=True)
    try:
        yield control
    finally:
        subprocess.run([*control, "stop", UNIT.name], env=REACH, check=True)
        (place / UNIT.name).unlink()
        subprocess.run([*control, "daemon-reload"], env=REACH, check=True)


async def _in_unit(text: str, expected: dict[str, str]) -> None:
    """Run the daemon as that unit: limits are kept like that, and it outlives a server without memory."""
    with installed(text) as control:
        async with daemon(start=False) as d:
            d.write_config(tomli_w.dumps({"servers": {"s": stranger(limits=LIMITS), "neighbour": stranger()}}))
            told = ("SMCP_HOME", probe.MARKER)
            await run(*control, "set-environment", *(f"{name}={d.env[name]}" for name in told))
            try:
                await run(*control, "start", UNIT.name)
                pid = await d.pid()
                assert f"/{UNIT.name}" in group(pid)
                host = await d.connected("s")
                assert (await host.call("evaluate", text="6 * 7", timeout=START)).text == "42"
                assert await means(d) | expected == await means(d)
                await excess(d, HOG, "memory limit 64M")
                shown = await run(*control, "show", "--property=MainPID,ActiveState", UNIT.name)
                assert set(shown.split()) == {f"MainPID={pid}", "ActiveState=active"}
                await run(*control, "stop", UNIT.name)
            finally:
                await run(*control, "unset-environment", *told)


@bounded(4 * PATIENCE)
async def test_the_shipped_unit_is_a_place_for_groups() -> None:
    await _in_unit(UNIT.read_text(), GROUPS)


@as_root
@bounded(4 * PATIENCE)
async def test_a_unit_that_is_not_delegated_is_none() -> None:
    text = UNIT.read_text().replace("Delegate=yes", "").replace("OOMPolicy=continue", "")
    await _in_unit(text, {"memory": "64M by watcher", "cpu": "0.5 by watcher"})


async def run(*words: str) -> str:
    """Run a program that must succeed, and return what it printed."""
    started = await asyncio.create_subprocess_exec(*words, env=REACH, stdout=-1, stderr=-1)
    out, err = await asyncio.wait_for(started.communicate(), PATIENCE)
    assert started.returncode == 0, (words, out, err)
    return out.decode()


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it does not come to that"
        await asyncio.sleep(0.05)


def scopes() -> list[str]:
    """Return the scopes of daemons that there are."""
    return [str(path) for path in Path("/sys/fs/cgroup").rglob("smcp-*.scope")]
