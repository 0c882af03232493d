"""Servers in containers of a real engine: what they are created with, what they reach, how they end, what is left."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Child, Container, ExitStatus, LaunchSpec, Mount, SecretFiles
from supervisord_mcp.runtimes.container import network
from supervisord_mcp.runtimes.container.engine import EngineError, Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from supervisord_mcp.runtimes.egress.proxy import Surroundings
from supervisord_mcp.runtimes.limits import Limits
from tests.kit.bounded import bounded
from tests.kit.engine import SHELL, Dockerd, make
from tests.runtimes.conformance import PYTHON_ROOTS, ended, read
from tests.runtimes.egress.world import World, page, serving

IMAGE = Container(SHELL)


def shell(script: str, **changes: object) -> LaunchSpec:
    """Return a spec that runs a script of the shell in a container."""
    spec = LaunchSpec("test", ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),), marker="daemon:test:1")
    return replace(spec, container=IMAGE, **changes)  # type: ignore[arg-type]


def python(script: str, **changes: object) -> LaunchSpec:
    """Return a spec that runs a script of Python in a container, which is shown that of these tests."""
    spec = shell("", read_only=PYTHON_ROOTS, **changes)
    return replace(spec, argv=(sys.executable, "-I", "-u", "-c", script))


@asynccontextmanager
async def running(engine: Dockerd, place: Path, around: Surroundings | None = None) -> AsyncIterator[ContainerRuntime]:
    """Have a runtime for the time of a block; nothing is left on the engine afterwards."""
    runtime = ContainerRuntime(place, Engines({"DOCKER_HOST": engine.url}), around)
    try:
        yield runtime
    finally:
        await runtime.aclose()
    assert engine.containers() == []


@asynccontextmanager
async def launched(runtime: ContainerRuntime, spec: LaunchSpec) -> AsyncIterator[Child]:
    """Have a child for the time of a block."""
    child = await runtime.launch(spec)
    try:
        yield child
    finally:
        await child.aclose()


@bounded(60)
async def test_it_is_created_with_nothing_that_it_does_not_need(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        spec = shell("cat", secrets=SecretFiles("", (("TOKEN", "s3cret-file"),)))
        async with launched(runtime, replace(spec, env=(*spec.env, ("KEY", "s3cret-env")))):
            (name,) = engine.containers()
            told = engine.client.inspect_container(name)
            # Whoever has the engine sees all of this, and none of the secrets.
            assert "s3cret" not in json.dumps(told)
            host = told["HostConfig"]
            assert host["AutoRemove"]
            assert host["Init"]
            assert host["ReadonlyRootfs"]
            assert not host["Privileged"]
            assert host["CapDrop"] == ["ALL"]
            assert not host["CapAdd"]
            assert host["NetworkMode"] == "none"
            assert host["LogConfig"]["Type"] == "none"
            assert host["PidMode"] == host["UTSMode"] == ""
            assert host["IpcMode"] == "private"
            assert host["SecurityOpt"][0] == "no-new-privileges"
            assert host["SecurityOpt"][1].startswith("seccomp={")
            assert host["Memory"] == host["MemorySwap"] == 1 << 30
            assert host["PidsLimit"] == 129
            assert {"/tmp", "/home/mcp", "/run"} <= host["Tmpfs"].keys()
            assert not told["Config"]["Tty"]
            assert told["Config"]["User"] == "1000:1000"
            labels = told["Config"]["Labels"]
            assert (labels["smcp.server"], labels["smcp.daemon"], labels["smcp.instance"]) == (
                "test",
                "daemon",
                "daemon:test:1",
            )
            assert name.startswith("/smcp-test-")


@bounded(60)
async def test_it_has_no_rights(engine: Dockerd, tmp_path: Path) -> None:
    script = """
import os, socket
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(os.getuid(), *(status[name].strip() for name in ("CapEff", "CapBnd", "NoNewPrivs", "Seccomp")))
def attempt(what):
    try:
        what()
        print("done")
    except OSError as error:
        print(error.strerror)
attempt(lambda: socket.socket(socket.AF_UNIX))
attempt(lambda: open("/usr/x", "w"))
attempt(lambda: os.mkdir("/home/mcp/x"))
attempt(lambda: socket.create_connection(("169.254.169.254", 80), 3))
print([name for _, name in socket.if_nameindex()], os.listdir("/.smcp/gate"))
print(os.listdir("/sys/class"), os.listdir("/sys/devices"))
"""
    async with running(engine, tmp_path) as runtime, launched(runtime, python(script)) as child:
        said = (await read(child.stdout)).decode().splitlines()
        assert said[0] == "1000 0000000000000000 0000000000000000 1 2", await read(child.stderr)
        assert said[1:4] == ["Address family not supported by protocol", "Read-only file system", "done"]
        assert said[4:] == ["Network is unreachable", "['lo'] []", "[] []"]


def _closed(pid: int) -> int:
    raise IsolationError("closed")


REACHED = """
import socket, urllib.request, urllib.error
def attempt(what):
    try:
        print(what())
    except urllib.error.HTTPError as error:
        print(error.code)
    except OSError as error:
        print(error.strerror)
def get(host="allowed.test"):
    with socket.create_connection((host, 80), 5) as made:
        made.sendall(b"GET / HTTP/1.1\\r\\nHost: allowed.test\\r\\n\\r\\n")
        return made.recv(12)
attempt(get)
attempt(lambda: urllib.request.urlopen("http://allowed.test/", timeout=5).status)
attempt(lambda: urllib.request.urlopen("http://denied.test/", timeout=5).status)
attempt(lambda: socket.create_connection(("denied.test", 80), 5))
attempt(lambda: socket.create_connection(("169.254.169.254", 80), 5))
attempt(lambda: socket.create_connection(("127.0.0.1", %d), 5))
attempt(lambda: get("93.184.216.34"))
"""


@pytest.mark.parametrize("entered", [True, False])
@bounded(60)
async def test_it_reaches_what_its_rules_name_and_nothing_else(
    engine: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entered: bool
) -> None:
    if not entered:
        # As for a daemon that is not root where the engine is.
        monkeypatch.setattr(network, "open_namespace", _closed)
    async with serving(page) as port, running(engine, tmp_path, World(ports={80: port}).around()) as runtime:
        spec = python(REACHED % port, network=Egress(parse_rules(["allowed.test:80", "93.184.216.34:80"])))
        async with launched(runtime, spec) as child:
            said = (await read(child.stdout)).decode().splitlines()
            assert said == [
                "b'HTTP/1.1 200'",
                "200",
                "403",
                "Name or service not known",
                "Network is unreachable",
                "Connection refused",
                # An address that is called by itself needs a route.
                "b'HTTP/1.1 200'" if entered else "Network is unreachable",
            ], await read(child.stderr)
            assert set(child.refused()) == {"denied.test", "denied.test:80"}


@bounded(60)
async def test_want_of_memory_is_named(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        spec = python("x = bytearray(1 << 28); print(len(x))", limits=Limits(memory=1 << 26))
        async with launched(runtime, spec) as child:
            assert await ended(child) == ExitStatus(signal=9, cause="memory limit 64M")


@bounded(60)
async def test_it_reads_what_the_container_uses(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        async with launched(runtime, python("x = bytearray(1 << 26); print(1); input()")) as child:
            await read(child.stdout, b"1\n")
            meter = child.meter()
            assert meter is not None
            reading = await asyncio.to_thread(meter.read, 0.0)
            assert reading is not None
            assert reading.memory > 1 << 26
            assert reading.cpu > 0
            assert reading.oom_kills == 0
            assert any(process.name.startswith("python") for process in reading.processes)
            assert "memory 1G by cgroup v1" in child.limits or "memory 1G by cgroup v2" in child.limits
        assert await asyncio.to_thread(meter.read, 1.0) is None


@bounded(60)
async def test_five_that_hear_nothing_are_stopped_at_once(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        spec = shell("trap '' TERM; echo up; while :; do sleep 1; done")
        children = await asyncio.gather(*(runtime.launch(spec) for _ in range(5)))
        for child in children:
            await read(child.stdout, b"up\n")
            child.close_stdin()
            child.signal(signal.SIGTERM)
        await asyncio.gather(*(child.aclose() for child in children))
        assert {await child.wait() for child in children} == {ExitStatus(signal=9)}


@bounded(60)
async def test_the_signal_of_the_image_takes_the_place_of_term(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        recipe = io.BytesIO(f"FROM {SHELL}\nSTOPSIGNAL SIGINT\n".encode())
        assert list(engine.client.build(fileobj=recipe, tag="smcp-test:int", rm=True))
        script = "trap 'echo int; exit 4' INT; trap 'echo term; exit 5' TERM; echo up; while :; do sleep 0.05; done"
        async with launched(runtime, replace(shell(script), container=Container("smcp-test:int"))) as child:
            await read(child.stdout, b"up\n")
            child.signal(signal.SIGTERM)
            assert await ended(child) == ExitStatus(code=4)


def recipe(engine: Dockerd, name: str, *lines: str) -> Container:
    """Return an image that is made of the smallest one with more lines of a recipe."""
    text = io.BytesIO("\n".join((f"FROM {SHELL}", *lines, "")).encode())
    told = list(engine.client.build(fileobj=text, tag=name, rm=True, forcerm=True, decode=True))
    assert not [each for each in told if "error" in each], told
    return Container(name)


def volumes(engine: Dockerd) -> list[str]:
    """Return the names of all volumes of an engine."""
    return [str(each["Name"]) for each in engine.client.volumes()["Volumes"] or ()]


@bounded(60)
async def test_volumes_of_an_image_are_in_memory_except_where_its_program_is(engine: Dockerd, tmp_path: Path) -> None:
    declared = ("WORKDIR /srv", "RUN echo text > file", "VOLUME /data /srv /tmp /home/mcp/deep")
    image = recipe(engine, "smcp-test:volumes", *declared)
    script = (
        "cat file; for place in /data /tmp /home/mcp/deep /srv; do echo x > $place/new && echo $place; done; exec cat"
    )
    async with running(engine, tmp_path) as runtime:
        killed = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}))
        async with launched(killed, replace(shell(script), container=image)) as child:
            assert await read(child.stdout, b"deep\n") == b"text\n/data\n/tmp\n/home/mcp/deep\n"
            assert len(volumes(engine)) == 1
            await runtime.clean("daemon:")
            # What the image has there belongs to whom it says.
            assert b"Permission denied" in await read(child.stderr)
            await ended(child)
        await killed.aclose()
    assert volumes(engine) == []


@pytest.mark.parametrize("place", ["/.smcp/tools/lib", "/.smcp/gate/x", "/run/smcp/secrets", "/.smcp"])
@bounded(60)
async def test_no_image_gets_in_front_of_the_gate(engine: Dockerd, tmp_path: Path, place: str) -> None:
    image = recipe(engine, "smcp-test:front", f"VOLUME {place}")
    async with running(engine, tmp_path) as runtime:
        with pytest.raises(LaunchError, match=f"declares a volume at {place}") as caught:
            await runtime.launch(replace(shell("cat"), container=image))
        assert not caught.value.retryable
    assert volumes(engine) == []


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("USER ghost",), "unable to find user ghost"),
        (("USER 4294967296",), "range"),
        (("RUN echo 'toor:x:0:0::/:/bin/sh' > /etc/passwd", "USER toor"), "toor, which is root"),
    ],
)
@bounded(60)
async def test_a_user_that_cannot_be_is_named(
    engine: Dockerd, tmp_path: Path, lines: tuple[str, ...], said: str
) -> None:
    image = recipe(engine, "smcp-test:whose", *lines)
    async with running(engine, tmp_path) as runtime:
        with pytest.raises(LaunchError, match=said) as caught:
            await runtime.launch(replace(shell("cat"), container=image))
        assert not caught.value.retryable
        assert "user =" in caught.value.remedy
        meant = replace(image, user="0:0")
        async with launched(runtime, replace(shell("id -u"), container=meant)) as child:
            assert await read(child.stdout) == b"0\n"


@bounded(60)
async def test_a_container_of_a_person_stays_whatever_its_image_says(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime, launched(runtime, shell("cat")) as child:
        (name,) = engine.containers()
        # The image has the labels of the container that it is made of.
        made = engine.client.commit(name, "smcp-test", "committed", pause=False)
        assert made
        child.close_stdin()
        await ended(child)
        engine.client.create_container("smcp-test:committed", ["/bin/cat"], name="mine")
        try:
            other = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}))
            await other.clean("daemon:")
            assert "/mine" in engine.containers()
            await other.aclose()
        finally:
            engine.client.remove_container("mine")


@bounded(60)
async def test_what_a_killed_daemon_left_is_removed(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        killed = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": engine.url}))
        left = [await killed.launch(shell("trap '' TERM HUP; while :; do sleep 1; done")) for _ in range(2)]
        stranger = await killed.launch(shell("cat", marker="other:test:1"))
        assert len(engine.containers()) == 3
        (tmp_path / "gates" / "left").mkdir()
        await runtime.clean("daemon:")
        assert not (tmp_path / "gates").exists()
        assert len(engine.containers()) == 1
        for child in left:
            assert await ended(child) == ExitStatus(signal=9)
            await child.aclose()
        await stranger.aclose()
        await killed.aclose()


@bounded(60)
async def test_the_same_engine_by_another_word_keeps_what_runs_there(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime, launched(runtime, shell("exec cat")) as child:
        again = replace(shell("echo here; exec cat"), container=replace(IMAGE, engine=engine.url))
        async with launched(runtime, again) as other:
            assert await read(other.stdout, b"\n") == b"here\n"
            assert len(engine.containers()) == 2
            child.close_stdin()
            assert await ended(child) == ExitStatus(code=0)


@bounded(60)
async def test_an_engine_that_hangs_is_not_waited_for_at_an_end(
    engine: Dockerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_TOLD_SECONDS", "_REMOVE_SECONDS", "_DISCARD_SECONDS"):
        monkeypatch.setattr(f"supervisord_mcp.runtimes.container.child.{name}", 0.5)
    async with running(engine, tmp_path) as runtime:
        child = await runtime.launch(shell("exec cat"))
        with engine.hanging():
            child.close_stdin()
            # Its own patience with an engine is a minute.
            closing = asyncio.ensure_future(child.aclose())
            await asyncio.wait({closing}, timeout=30)
            assert closing.done()
        while engine.containers():
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("path", "target", "said"),
    [
        ("/nowhere/at/all", None, "no such file or directory"),
        ("/", "/machine", "open the container"),
        ("/etc", "/proc/x", "open the container"),
        ("/etc", "/home", "private place"),
        ("/run", "/data", "root on this machine"),
    ],
)
@bounded(60)
async def test_mounts_that_would_open_it_are_refused(
    engine: Dockerd, tmp_path: Path, path: str, target: str | None, said: str
) -> None:
    async with running(engine, tmp_path) as runtime:
        with pytest.raises(LaunchError, match=said) as caught:
            await runtime.launch(shell("cat", mounts=(Mount(path, "ro", target),)))
        assert not caught.value.retryable


@bounded(60)
async def test_mounts_are_as_they_are_granted(engine: Dockerd, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("text")
    (tmp_path / "out").mkdir()
    os.chown(tmp_path / "out", 1000, 1000)
    script = "cat /in/file; echo x > /out/x; echo x > /in/x"
    mounts = (Mount(f"{tmp_path}/in", "ro", "/in"), Mount(f"{tmp_path}/out", "rw", "/out"))
    async with (
        running(engine, tmp_path / "place") as runtime,
        launched(runtime, shell(script, mounts=mounts)) as child,
    ):
        assert await read(child.stdout) == b"text"
        assert b"Read-only file system" in await read(child.stderr)
    assert (tmp_path / "out" / "x").read_text() == "x\n"


@bounded(60)
async def test_what_makes_other_programs_run_something_stays_read_only(engine: Dockerd, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git" / "hooks").mkdir(parents=True)
    (project / ".git" / "hooks" / "one").touch()
    for path in (project, *project.rglob("*")):
        os.chown(path, 1000, 1000)
    mount = Mount(str(project), "rw", protected=(".git/hooks", ".vscode"))
    script = f"cd {project}; echo x > file; echo x > .git/hooks/one; echo x > .vscode/tasks; ls -a; exec cat"
    async with (
        running(engine, tmp_path / "place") as runtime,
        launched(runtime, shell(script, mounts=(mount,))) as child,
    ):
        child.close_stdin()
        assert b".vscode" in await read(child.stdout)
        assert (await read(child.stderr)).count(b"Read-only file system") == 2
    assert (project / "file").read_text() == "x\n"
    assert not (project / ".vscode").exists()


@bounded(60)
async def test_the_network_of_the_machine_must_be_named(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        with pytest.raises(IsolationError, match="network of the machine"):
            await runtime.launch(shell("cat", network="host"))
        named = Container(SHELL, allow=frozenset({"host-network"}))
        async with launched(runtime, replace(shell("cat", network="host"), container=named)) as child:
            os.write(child.stdin, b"x\n")
            assert await read(child.stdout, b"x\n") == b"x\n"


@bounded(60)
async def test_a_missing_image_is_named(engine: Dockerd, tmp_path: Path) -> None:
    async with running(engine, tmp_path) as runtime:
        with pytest.raises(LaunchError, match="no image nowhere:1") as caught:
            await runtime.launch(replace(shell("cat"), container=Container("nowhere:1")))
        assert not caught.value.retryable


@bounded(120)
async def test_an_engine_that_comes_back_is_used_again(tmp_path: Path) -> None:
    other = await asyncio.to_thread(make)
    try:
        runtime = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": other.url}))
        child = await runtime.launch(shell("trap '' TERM; while :; do sleep 1; done"))
        # Killed, so that it takes nothing along: its containers run on, and nobody tells of their end.
        await asyncio.to_thread(other.stop, signal.SIGKILL)
        child.kill()
        assert (await ended(child)).signal == 9
        with pytest.raises(EngineError, match="not running") as caught:
            await runtime.launch(shell("cat"))
        assert caught.value.retryable
        assert "systemctl" in caught.value.remedy
        await asyncio.to_thread(other.start)
        await child.aclose()
        async with launched(runtime, shell("cat")) as again:
            os.write(again.stdin, b"x\n")
            assert await read(again.stdout, b"x\n") == b"x\n"
        assert await asyncio.to_thread(other.containers) == []
        await runtime.aclose()
    finally:
        await asyncio.to_thread(other.close)
