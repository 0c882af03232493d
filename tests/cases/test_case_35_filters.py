"""Case 35: filters and limits that break the runtime, which it takes every runtime to find out.

What each refused call is answered is in `tests/runtimes/test_filtered.py`; here every interpreter that this machine has
does its work under the filter and the usual limits.
"""

from __future__ import annotations

import asyncio
import contextlib
import glob
import json
import os
import platform
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.runtimes import cgroup
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.limits import DEFAULTS, Limits
from tests.kit.bounded import bounded
from tests.kit.nodes import NEWER, SYSTEM, node
from tests.kit.required import need
from tests.runtimes.conformance import ended, python, read, running
from tests.runtimes.test_bwrap import as_person
from tests.runtimes.test_filtered import NODE

pytestmark = [pytest.mark.bwrap, pytest.mark.slow, pytest.mark.usefixtures("subreaper")]

_WORK = """
import concurrent.futures, json, socket, ssl, subprocess, sys, threading
done = []
thread = threading.Thread(target=done.append, args=("thread",))
thread.start(); thread.join()
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    done.append(sum(pool.map(len, ["abc"] * 100)))
done.append(bool(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)))
done.append(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout.strip())
ssl.create_default_context()
print(json.dumps(done))
"""


def _pythons() -> list[str]:
    """Return the Pythons of this machine from 3.11 on, in its system and in the usual places for more of them."""
    homes = [os.path.expanduser(place) for place in ("~/.pyenv/versions", "~/.local/share/uv/python", "/opt")]
    found = ["/usr/bin/python3", *(path for home in homes for path in sorted(glob.glob(f"{home}/*/bin/python3")))]
    return [path for path in found if os.path.exists(path) and _version(path) >= (3, 11)]


def _version(path: str) -> tuple[int, ...]:
    words = [path, "-c", "import sys; print(*sys.version_info[:2])"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return tuple(map(int, done.stdout.split()))


def _prefix(path: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(path)))


@pytest.mark.parametrize("path", _pythons())
@bounded(60)
async def test_every_python_works(path: str) -> None:
    env = (("PATH", "/usr/bin:/bin"),)
    spec = LaunchSpec("test", (path, "-I", "-c", _WORK), env=env, marker="t-case-35", read_only=(_prefix(path),))
    async with running(BwrapRuntime(), spec) as child:
        output, complaints = await read(child.stdout), await read(child.stderr)
        assert complaints == b""
        assert json.loads(output) == ["thread", 300, True, "child"]


@pytest.fixture(scope="module", params=[SYSTEM, NEWER])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return each Node."""
    return node(request.param, tmp_path_factory.mktemp("node"))


@pytest.mark.npm
@bounded(60)
async def test_every_node_works(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.js"
    script.write_text(NODE)
    env = (("PATH", f"{program.parent}:/usr/bin:/bin"),)
    spec = LaunchSpec("test", (str(program), str(script), "none"), env=env, marker="t-case-35")
    spec = replace(spec, mounts=(Mount(str(tmp_path)), Mount(str(program.parent))))
    if str(program.parent).startswith("/usr/"):
        spec = replace(spec, mounts=(Mount(str(tmp_path)),))
    async with running(BwrapRuntime(), spec) as child:
        output, complaints = await read(child.stdout), await read(child.stderr)
        assert complaints == b""
        assert json.loads(output) == ["skipped", "worker", 42, "child", "forked", True, True]


#: Programs of Go and Rust that need no library at all, with packages of npm that hold one for each machine.
_STATIC = {
    "go": ("@esbuild/linux-{}", "bin/esbuild", ("a.ts", "--bundle", "--outfile=made.js"), "hello"),
    "rust": ("@sentry/cli-linux-{}", "bin/sentry-cli", ("sourcemaps", "inject", "."), "debugId="),
}
_SOURCES = {
    "a.ts": 'import { word } from "./b"; console.log(word as string);',
    "b.ts": 'export const word: string = "hello";',
    "made.js": "console.log(1)\n//# sourceMappingURL=made.js.map\n",
    "made.js.map": '{"version":3,"sources":["a.ts"],"names":[],"mappings":"AAAA"}',
}


@pytest.fixture(scope="module", params=_STATIC)
def static(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a static program, and which one it is."""
    package, program, _, _ = _STATIC[request.param]
    package = package.format({"x86_64": "x64", "aarch64": "arm64"}[platform.machine()])
    place = tmp_path_factory.mktemp("static")
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place), package]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    return place / "node_modules" / package / program, request.param


@pytest.mark.npm
@pytest.mark.parametrize("runtime", ["bwrap", "landlock"])
@bounded(60)
async def test_static_programs_work(static: tuple[Path, str], tmp_path: Path, runtime: str) -> None:
    program, language = static
    _, _, words, expected = _STATIC[language]
    project = tmp_path / "project"
    _write(project)
    env = (("PATH", "/usr/bin:/bin"), ("SENTRY_DISABLE_UPDATE_CHECK", "1"))
    mounts = (Mount(str(project), "rw"), Mount(str(program.parent)))
    spec = LaunchSpec("test", (str(program), *words), str(project), env, f"t-case-35-{language}", mounts=mounts)
    async with running(BwrapRuntime() if runtime == "bwrap" else LandlockRuntime(str(tmp_path / "own")), spec) as child:
        complaints = await read(child.stderr)
        assert (await ended(child)).success, complaints
    assert expected in (project / "made.js").read_text()


def _write(project: Path) -> None:
    project.mkdir()
    project.chmod(0o777)
    for name, text in _SOURCES.items():
        (project / name).write_text(text)
        (project / name).chmod(0o666)


_MANY = """
import os, time
children = []
for _ in range(30):
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    children.append(child)
print(len(children), flush=True)
for child in children:
    os.kill(child, 9)
"""


@contextlib.contextmanager
def _foreigners() -> Iterator[None]:
    """Run three hundred processes of this user that are none of a server's."""
    running = [subprocess.Popen(["/bin/sleep", "300"]) for _ in range(300)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


async def _despite_foreigners() -> None:
    with _foreigners():
        spec = LaunchSpec("test", ("/usr/bin/python3", "-I", "-c", _MANY), env=(("PATH", "/usr/bin:/bin"),))
        spec = replace(spec, marker=f"t-{os.getpid()}", limits=replace(DEFAULTS, pids=64))
        async with running(BwrapRuntime(), spec) as child:
            assert await read(child.stdout, b"\n") == b"30\n"


def test_the_limit_of_processes_does_not_count_those_of_others() -> None:
    as_person(_despite_foreigners)


_TAKE = """
block = bytearray({} << 20)
for at in range(0, len(block), 4096):
    block[at] = 1
print("fine", flush=True)
"""
_STAY = "import time\ntime.sleep(60)"


@pytest.mark.parametrize("runtime", ["bwrap", "landlock"])
@pytest.mark.parametrize("grouped", [False, True])
@bounded(90)
async def test_memory_beyond_its_limit_ends_that_server_alone(tmp_path: Path, runtime: str, grouped: bool) -> None:
    groups = await asyncio.to_thread(cgroup.prepare) if grouped else None
    need(groups or not grouped, "cgroups that may be made")
    made = (
        BwrapRuntime(None, groups, Identities())
        if runtime == "bwrap"
        else LandlockRuntime(str(tmp_path), groups, Identities())
    )
    limits: Limits = replace(DEFAULTS, memory=256 << 20)
    try:
        async with running(made, replace(python(_TAKE.format(100) + "input()"), limits=limits)) as modest:
            assert await read(modest.stdout, b"\n") == b"fine\n"
            async with running(made, replace(python(_TAKE.format(400) + _STAY), limits=limits)) as greedy:
                status = await ended(greedy, seconds=40)
                assert status.cause == "memory limit 256M"
                assert status.signal in (None, signal.SIGKILL)
            os.write(modest.stdin, b"\n")
            assert (await ended(modest)).success
    finally:
        if groups is not None:
            groups.close()
