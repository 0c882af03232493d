"""Shipped profiles with programs that they are for: what each needs works, and what it must not have fails."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from supervisord_mcp.config.load import load
from supervisord_mcp.config.variables import escape
from supervisord_mcp.errors import ConfigError
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launcher
from tests.config.places import paths_in
from tests.kit.bounded import bounded
from tests.runtimes.conformance import read

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

#: Every line of these answers one question.
POOLS = """
import multiprocessing, os, sys
if __name__ == "__main__":
    for way in ("fork", "spawn", "forkserver"):
        try:
            with multiprocessing.get_context(way).Pool(1) as pool:
                print(way, pool.map(abs, [-1]), flush=True)
        except OSError as error:
            print(way, error.errno, flush=True)
"""
SOCKETS = """
import socket
for name in ("AF_INET", "AF_UNIX"):
    try:
        socket.socket(getattr(socket, name)).close()
        print(name, "yes")
    except OSError as error:
        print(name, "no")
socket.socketpair()
"""
TRACING = """
import ctypes
print("traced", ctypes.CDLL(None, use_errno=True).ptrace(0, 0, 0, 0))
"""
NAMESPACES = """
import ctypes
print("user namespace", ctypes.CDLL(None, use_errno=True).unshare(0x10000000))
"""
FILES = """
import os
for place in (os.environ["PROJECT"], os.environ["NEIGHBOUR"]):
    for name, act in (("read", lambda p: os.listdir(p)), ("write", lambda p: open(p + "/new", "w").close())):
        try:
            act(place)
            print(os.path.basename(place), name, "yes")
        except OSError:
            print(os.path.basename(place), name, "no")
"""
#: Asks an engine whether it is there, as clients of Docker do first.
PING = """
import os, socket
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(os.environ["NEIGHBOUR"] + "/engine.sock")
    connection.sendall(b"GET /_ping HTTP/1.0\\r\\n\\r\\n")
    print(connection.recv(99).split()[-1].decode())
"""


class Shop:
    """A project, a home and a configuration with one server."""

    def __init__(self, folder: Path) -> None:
        self.project, self.home, self.neighbour = folder / "project", folder / "home", folder / "neighbour"
        for place in (self.project, self.home, self.neighbour):
            place.mkdir()
        self.paths = paths_in(folder / "smcp")
        self.paths.config_dir.mkdir(parents=True)
        self.marker = f"t-{folder}/"

    def repository(self) -> None:
        """Make the project a repository of git with a file that it does not know yet."""
        subprocess.run(["git", "init", "-q", str(self.project)], check=True, capture_output=True)
        (self.project / "file").write_text("x")

    async def run(self, profile: str, *command: str, **entry: Any) -> list[str]:
        """Return the lines that a command writes to stdout under a profile, then its last line of stderr if any."""
        env = {"PROJECT": str(self.project), "NEIGHBOUR": str(self.neighbour)}
        whole = {"command": [escape(word) for word in command], "profile": profile, "env": env, **entry}
        self.paths.config_file.write_text(tomli_w.dumps({"servers": {"s": whole}}))
        loaded = load(self.paths)
        environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        launcher = Launcher(self.paths, environ, self.marker, [os.path.dirname(sys.executable)])
        facts = Facts("s", project=str(self.project), environ={})
        launch = launcher.resolve("s", loaded.config.servers["s"], facts)
        child = await launch.start(lambda: None, lambda _: None)
        try:
            child.close_stdin()
            told = (await read(child.stdout)).decode().splitlines()
            return told + (await read(child.stderr)).decode().splitlines()[-1:]
        finally:
            await child.aclose()
            await launch.runtime.aclose()


@pytest.fixture
def shop() -> Iterator[Shop]:
    # Not below /tmp: every sandbox has one of its own.
    with tempfile.TemporaryDirectory(prefix="smcp-", dir="/var/tmp") as folder:
        yield Shop(Path(folder))


@bounded(120)
async def test_python_has_its_fork_server(shop: Shop) -> None:
    script = shop.project / "pools.py"
    script.write_text(POOLS)
    mounts = [{"path": str(script)}]
    assert await shop.run("python", "python3", str(script), mounts=mounts) == [
        "fork [1]",
        "spawn [1]",
        "forkserver [1]",
    ]
    plain = await shop.run("default", "python3", str(script), mounts=mounts)
    assert plain[:2] == ["fork [1]", "spawn [1]"]
    assert "forkserver [1]" not in plain


@pytest.mark.parametrize(
    ("profile", "inet", "unix"),
    [("strict", "no", "no"), ("default", "yes", "no"), ("node", "yes", "yes"), ("git", "yes", "yes")],
)
@bounded(60)
async def test_sockets(shop: Shop, profile: str, inet: str, unix: str) -> None:
    assert await shop.run(profile, "python3", "-c", SOCKETS) == [f"AF_INET {inet}", f"AF_UNIX {unix}"]


@pytest.mark.parametrize(("profile", "outcome"), [("devel", 0), ("python", -1), ("browser", -1)])
@bounded(60)
async def test_debugging(shop: Shop, profile: str, outcome: int) -> None:
    assert await shop.run(profile, "python3", "-c", TRACING) == [f"traced {outcome}"]


@pytest.mark.parametrize(("profile", "outcome"), [("browser", 0), ("devel", -1)])
@bounded(60)
async def test_namespaces_of_its_own(shop: Shop, profile: str, outcome: int) -> None:
    assert await shop.run(profile, "python3", "-c", NAMESPACES) == [f"user namespace {outcome}"]


@pytest.mark.parametrize(
    ("profile", "reads", "writes"),
    [
        *(("files-ro", "yes", "no"), ("files-rw", "yes", "yes"), ("git", "yes", "yes"), ("devel", "yes", "yes")),
        *(("default", "no", "no"), ("fetch", "no", "no")),
    ],
)
@bounded(60)
async def test_the_project_and_nothing_beside_it(shop: Shop, profile: str, reads: str, writes: str) -> None:
    assert await shop.run(profile, "python3", "-c", FILES) == [
        *(f"project read {reads}", f"project write {writes}"),
        *("neighbour read no", "neighbour write no"),
    ]


@bounded(60)
async def test_git_commits_in_the_name_of_the_person(shop: Shop) -> None:
    (shop.home / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.com\n[safe]\ndirectory = *\n")
    shop.repository()
    commit = 'git add file && git commit -qm first && git log --format="%an %s"'
    told = await shop.run("git", "sh", "-c", f"{commit} && git config --global user.name Eve")
    assert told[0] == "Ada first"
    assert "could not lock config file" in told[-1]
    assert "Eve" not in (shop.home / ".gitconfig").read_text()


@bounded(60)
async def test_git_needs_no_settings_of_the_person(shop: Shop) -> None:
    shop.repository()
    told = await shop.run("git", "sh", "-c", "git config --global --list; git status --short")
    assert "?? file" in told


@bounded(60)
async def test_a_server_that_drives_an_engine_reaches_its_socket_if_that_is_meant(shop: Shop) -> None:
    place = str(shop.neighbour / "engine.sock")
    shop.paths.profiles_dir.mkdir(parents=True)
    # The socket of an engine is where this machine may have one: here is another, and the rest is as it is shipped.
    engine = {"description": "x", "extends": "docker-socket", "override": ["mounts"]}
    mounts = [{"path": place, "access": "rw"}]
    (shop.paths.profiles_dir / "engine.toml").write_text(tomli_w.dumps({**engine, "mounts": mounts}))
    with pytest.raises(ConfigError, match='write confirm = "engine"'):
        await shop.run("engine", "python3", "-c", PING)
    async with await asyncio.start_unix_server(_answer, place):
        os.chmod(place, 0o600)
        assert await shop.run("engine", "python3", "-c", PING, confirm="engine") == ["OK"]
        (told,) = await shop.run("default", "python3", "-c", PING, mounts=mounts)
        assert "Address family not supported" in told


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nOK")
    writer.close()
    await writer.wait_closed()
