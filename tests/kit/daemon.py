"""A daemon of its own for one test: its home, its configuration, hosts that reach it through the real shim."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import tomli_w

from tests.kit import probe
from tests.kit.fhost import ConversationError, Host
from tests.kit.journal import Journal
from tests.kit.traffic import judge, recorded

ROOT = Path(__file__).resolve().parents[2]
KIT = Path(__file__).resolve().parent
SHIM = ROOT / "supervisord_mcp" / "shim.py"
#: The interpreter without its virtual environment: the fake server needs the standard library only.
PYTHON = os.path.realpath(sys.executable)
#: For how many seconds a daemon or a server is waited for; an emulated processor is twenty times slower than others.
START = 100.0 if os.environ.get("SMCP_VM") else 20.0
#: How a test starts the daemon in the foreground.
RUN = (sys.executable, "-m", "supervisord_mcp", "run")
#: How the fake server is started in the image that it is in.
IN_IMAGE = "/usr/bin/python3 -I -S /srv/tests/kit/fserver.py"
DEFAULTS: Mapping[str, Any] = {"stop_grace": "500ms", "start_timeout": "10s", "backoff": {"first": "100ms"}}


def shim(server: str, *options: str) -> list[str]:
    """Return the command that a host's configuration names for a server."""
    return [sys.executable, "-I", "-S", str(SHIM), server, *options]


class ControlError(AssertionError):
    """The daemon refused a request on its control socket."""

    def __init__(self, op: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{op}: {error}")
        self.error = error


@dataclass(frozen=True, slots=True)
class Fake:
    """A server entry whose command is the fake server with these switches."""

    name: str
    switches: Mapping[str, Any]
    entry: Mapping[str, Any]
    shell: str | None = None
    scripts: Sequence[Mapping[str, Any]] = field(default=())


def fake(
    name: str,
    *,
    entry: Mapping[str, Any] | None = None,
    shell: str | None = None,
    scripts: Sequence[Mapping[str, Any]] = (),
    **switches: Any,
) -> Fake:
    """Return a fake server in the default sandbox.

    ``entry`` goes into the configuration, ``shell`` wraps the command (``@CMD@``) in ``sh -c``, and ``scripts`` are the
    switches of the first, second … start.
    """
    return Fake(name, switches, entry or {}, shell, scripts)


def bare(name: str, *, entry: Mapping[str, Any] | None = None, **more: Any) -> Fake:
    """Return a fake server that runs without a sandbox."""
    return fake(name, entry={"runtime": "bare", **(entry or {})}, **more)


class Daemon:
    """One daemon in its own SMCP_HOME, and everything that was started against it."""

    def __init__(self, env: Mapping[str, str] | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="smcp-", dir="/tmp"))
        self.marker = uuid.uuid4().hex
        self.work = self.home / "work"
        self.work.mkdir()
        self.user = self.home / "user"
        self.user.mkdir()
        self.config = self.home / "config" / "config.toml"
        self.config.parent.mkdir()
        self.taps = self.home / "taps"
        self.taps.mkdir()
        self.socket = self.home / "run" / "daemon.sock"
        self.hosts: list[Host] = []
        self.process: subprocess.Popen[bytes] | None = None
        self.descriptors: Counter[str] = Counter()
        self.fakes: dict[str, Fake] = {}
        self.settings: dict[str, Any] = {}
        self.env = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.user),
            "LANG": "C.UTF-8",
            "SMCP_HOME": str(self.home),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            probe.MARKER: self.marker,
            # Only root could see the descriptors of a daemon that keeps to itself, and tests look at them.
            **({} if os.geteuid() == 0 else {"SMCP_TRACEABLE": "1"}),
            **(env or {}),
        }

    @property
    def marks(self) -> tuple[str, str]:
        """What marks every process of this daemon."""
        return (self.marker, str(self.home))

    # -- configuration ---------------------------------------------------------------------------------------------

    def configure(self, *fakes: Fake, settings: Mapping[str, Any] | None = None) -> None:
        """Write a configuration with exactly these servers (and the daemon's own settings, if given)."""
        self.fakes = {one.name: one for one in fakes}
        if settings is not None:
            self.settings = dict(settings)
        for one in fakes:
            self.switch(one.name, one.switches, one.scripts)
        servers = {name: self.entry(one) for name, one in self.fakes.items()}
        self.write_config(tomli_w.dumps({"daemon": {"journal": False, **self.settings}, "servers": servers}))

    def write_config(self, text: str) -> None:
        """Write config.toml as an editor does: a new file, renamed over the old one."""
        new = self.config.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config)

    def entry(self, one: Fake) -> dict[str, Any]:
        """Return the configuration of a fake server, or of a server that is in an image already."""
        if "image" in one.entry:
            env = {probe.MARKER: self.marker, "FSRV": json.dumps(one.switches), **one.entry.get("env", {})}
            shell = {} if one.shell is None else {"command": ["/bin/sh", "-c", one.shell.replace("@CMD@", IN_IMAGE)]}
            return {**DEFAULTS, **shell, **one.entry, "env": env}
        command = [PYTHON, "-I", "-S", str(KIT / "fserver.py"), f"@{self.work / one.name}.json"]
        if one.shell is not None:
            command = ["/bin/sh", "-c", one.shell.replace("@CMD@", shlex.join(command))]
        mounts = [{"path": str(self.work), "access": "rw"}, {"path": str(KIT), "access": "ro"}]
        if one.shell is not None and not PYTHON.startswith("/usr/"):
            # The program is the shell, so nothing else tells the sandbox that an interpreter is needed.
            mounts.append({"path": sys.base_prefix, "access": "ro"})
        entry = {**DEFAULTS, "command": command, **one.entry}
        entry["env"] = {probe.MARKER: self.marker, **one.entry.get("env", {})}
        if entry.get("runtime") != "bare":
            entry["mounts"] = [*mounts, *one.entry.get("mounts", [])]
        return entry

    def switch(self, name: str, switches: Mapping[str, Any], scripts: Sequence[Mapping[str, Any]] = ()) -> None:
        """Set the switches that the next start of a fake server reads."""
        told = {"journal": str(self.work / f"{name}.journal"), **switches}
        if scripts:
            told |= {"starts_file": str(self.work / f"{name}.starts"), "per_start": list(scripts)}
        (self.work / f"{name}.json").write_text(json.dumps(told))

    def journal(self, name: str) -> Journal:
        """Return the journal of a fake server."""
        return Journal(self.work / f"{name}.journal")

    # -- life ------------------------------------------------------------------------------------------------------

    async def start(self, **popen: Any) -> Self:
        """Start the daemon in the foreground and wait until its socket answers."""
        self.spawn(**popen)
        await self.answers()
        self.descriptors = await self.settled()
        return self

    async def settled(self) -> Counter[str]:
        """Return the descriptors of the daemon that we started, once its watch of the files stands."""
        assert self.process is not None
        before: Counter[str] = Counter()
        for _ in range(100):
            await asyncio.sleep(0.02)
            now = kinds(self.process.pid)
            watches = now["anon_inode:inotify"] or self.settings.get("reload") is False
            if watches and now == before:
                break
            before = now
        return now

    def spawn(self, **popen: Any) -> None:
        """Start the daemon in the foreground, with the options of Popen changed as given."""
        with open(self.home / "daemon.err", "ab") as log:
            options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log, "env": self.env}
            self.process = subprocess.Popen(**{"args": RUN, "cwd": ROOT, "start_new_session": True, **options, **popen})

    async def answers(self, timeout: float = START) -> dict[str, Any]:
        """Wait until the control socket answers; return what `version` says."""
        end = time.monotonic() + timeout
        while True:
            try:
                found: dict[str, Any] = await self.control("version", timeout=2.0)
            except (OSError, EOFError, TimeoutError) as error:
                if self.process is not None and self.process.poll() is not None:
                    raise AssertionError(f"the daemon ended: {self.process.returncode}\n{self.logs()}") from error
                if time.monotonic() > end:
                    raise AssertionError(f"the daemon does not answer: {error!r}\n{self.logs()}") from error
                await asyncio.sleep(0.03)
            else:
                return found

    async def pid(self) -> int:
        """Return the pid of the daemon that answers now, whoever started it."""
        return int((await self.status())["daemon"]["pid"])

    async def kill(self) -> None:
        """Kill the daemon that runs now with SIGKILL and reap it if it is ours."""
        await self._end(signal.SIGKILL)

    async def terminate(self) -> int | None:
        """Stop the daemon that runs now with SIGTERM, and return its exit status if it is ours."""
        return await self._end(signal.SIGTERM)

    async def _end(self, number: int) -> int | None:
        pid = self.process.pid if self.process and self.process.poll() is None else await self.pid()
        os.kill(pid, number)
        return await self.ended(pid)

    async def ended(self, pid: int, timeout: float = 15.0) -> int | None:
        """Wait until a daemon is gone, and return its exit status if it is ours."""
        end = time.monotonic() + timeout
        while probe.alive(pid):
            if time.monotonic() > end:
                raise AssertionError(f"the daemon {pid} does not end\n{self.logs()}")
            await asyncio.sleep(0.02)
        return self.process.wait() if self.process and self.process.pid == pid else None

    # -- talking to it ---------------------------------------------------------------------------------------------

    def host(
        self,
        server: str,
        *options: str,
        name: str | None = None,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        own_group: bool = False,
    ) -> Host:
        """Start a host whose MCP server is the shim with this server's name."""
        host = Host(shim(server, *options), name=name or f"host{len(self.hosts) + 1}")
        self.hosts.append(host)
        return host.start(env=self.env | dict(env or {}), cwd=cwd or self.user, own_group=own_group)

    async def connected(
        self,
        server: str,
        *options: str,
        version: str = "2025-11-25",
        capabilities: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Host:
        """Start a host and do its handshake."""
        host = self.host(server, *options, **more)
        await host.handshake(version, capabilities, id='"hello"', timeout=START)
        return host

    async def control(self, op: str, timeout: float = 15.0, **args: Any) -> Any:
        """Send one request on the control socket and return its result. Raise ControlError on an error."""
        async with asyncio.timeout(timeout):
            async with aclosing(self.stream(op, **args)) as replies:
                async for kind, value in replies:
                    if kind == "result":
                        return value
        raise EOFError("the daemon closed the control socket")

    async def stream(self, op: str, **args: Any) -> AsyncGenerator[tuple[str, Any], None]:
        """Send one request and yield ("event", …) for each event and ("result", …) at the end."""
        reader, writer = await asyncio.open_unix_connection(str(self.socket), limit=1 << 26)
        try:
            hello = {"smcp": 1, "role": "control", "pid": os.getpid()}
            for message in (hello, {"id": 1, "op": op, "args": args}):
                writer.write(json.dumps(message).encode() + b"\n")
            while line := await reader.readline():
                if line.startswith(b"no "):
                    raise EOFError(f"the daemon refused the control connection: {line!r}")
                if line.startswith(b"ok "):
                    continue
                reply = json.loads(line)
                if reply.get("error"):
                    raise ControlError(op, reply["error"])
                if "event" in reply:
                    yield "event", reply["event"]
                else:
                    yield "result", reply.get("result")
                    return
        finally:
            writer.close()

    async def status(self) -> dict[str, Any]:
        """Return what the daemon says of itself and its servers."""
        found: dict[str, Any] = await self.control("status")
        return found

    async def server(self, name: str) -> dict[str, Any]:
        """Return what the daemon says of one server."""
        servers = (await self.status())["servers"]
        found: dict[str, Any] = next(server for server in servers if server["name"] == name)
        return found

    async def instances(self, name: str) -> list[dict[str, Any]]:
        """Return what the daemon says of the instances of one server."""
        found: list[dict[str, Any]] = (await self.server(name))["instances"]
        return found

    async def until(
        self, name: str, wanted: Callable[[dict[str, Any]], object], what: str = "", timeout: float = 10.0
    ) -> dict[str, Any]:
        """Return the status of a server once it satisfies the condition."""
        end = time.monotonic() + timeout
        while True:
            found = await self.server(name)
            if wanted(found):
                return found
            if time.monotonic() > end:
                raise AssertionError(f"{name}: no {what or 'such state'} within {timeout} s: {found}\n{self.logs()}")
            await asyncio.sleep(0.03)

    async def in_state(self, name: str, *states: str, timeout: float = 10.0) -> dict[str, Any]:
        """Return the status of a server once it is in one of the states."""
        return await self.until(name, lambda found: found["state"] in states, f"state {states}", timeout)

    def log_files(self) -> list[Path]:
        """Return the log files below the home."""
        return [path for path in sorted(self.home.rglob("*.log*")) if path.is_file()]

    def logs(self) -> str:
        """Return the tails of the daemon's stderr and of every log file."""
        paths = [path for path in [self.home / "daemon.err", *self.log_files()] if path.exists()]
        return "\n".join(f"--- {path}\n{path.read_bytes()[-6000:].decode(errors='replace')}" for path in paths)

    # -- the end ---------------------------------------------------------------------------------------------------

    async def end(self, *, orderly: bool) -> list[str]:
        """Close the hosts, stop the daemon, and return what was not as it should be."""
        problems = self.judged() if orderly else []
        for host, outcome in zip(
            self.hosts, await asyncio.gather(*(h.aclose() for h in self.hosts), return_exceptions=True), strict=True
        ):
            if outcome is not None:
                problems.append(f"{host.name} did not end: {outcome}")
        try:
            if self.process is not None and self.process.poll() is None:
                if orderly:
                    await self._alone()
                    problems += await self.leaks(self.process.pid)
                status = await self.terminate()
                if self.socket.exists():
                    problems.append("the socket is still there")
                if status:
                    problems.append(f"the daemon ended with status {status}")
            if probe.find(self.marks):
                # One that a shim started: it answers at once, and then takes as long as its servers.
                pid = await self.pid()
                await self.control("down", timeout=10.0)
                await self.ended(pid)
        except (AssertionError, OSError, EOFError, TimeoutError) as error:
            problems.append(f"the daemon cannot be stopped: {error!r}")
        try:
            await probe.nothing_left(self.marks, 5.0 if orderly else 0.0)
        except AssertionError as error:
            problems.append(str(error))
        probe.kill_all(self.marks)
        if self.process is not None:
            await self.ended(self.process.pid)
        for path in [self.home / "daemon.err", *self.log_files()]:
            if path.exists() and b"Traceback (most recent call last)" in path.read_bytes():
                problems.append(f"there is a traceback in {path}")
        return problems

    async def _alone(self, timeout: float = 15.0) -> None:
        """Wait until no other daemon is being started: a shim may have begun to when this one was killed."""
        deadline = time.monotonic() + timeout
        while any(p.cmdline.endswith("run --on-demand") for p in probe.find(self.marks)):
            if time.monotonic() > deadline:
                raise AssertionError("a daemon that a shim started does not end beside the one that runs")
            await asyncio.sleep(0.05)

    def judged(self) -> list[str]:
        """Return what smcp said to hosts and servers that fits no schema of the protocol."""
        connections = [host.traffic for host in self.hosts]
        connections += [one for name in self.fakes for one in self.journal(name).traffic()]
        connections += recorded(self.taps, "server")
        return judge(connections)[:5]

    async def leaks(self, pid: int, timeout: float = 5.0) -> list[str]:
        """Given the daemon that we started, stop its servers and return what it did not let go of."""
        await self.control("stop", all=True)
        end = time.monotonic() + timeout
        while True:
            sessions = (await self.status())["daemon"]["sessions"]
            await asyncio.sleep(0.05)  # our own connection is not the daemon's fault
            records = [path.name for path in (self.home / "run" / "sessions").glob("*")]
            more = kinds(pid) - self.descriptors
            left = {
                "sessions": sessions,
                "records": records,
                "children": probe.children(pid),
                "descriptors": dict(more),
            }
            if not any(left.values()):
                return []
            if time.monotonic() > end:
                return [f"the daemon keeps {left}: {probe.fd_table(pid)}"]
            await asyncio.sleep(0.05)


def kinds(pid: int) -> Counter[str]:
    """Return how many descriptors of each kind a process has; its logs do not count."""
    names = [what.split(":[")[0] for what in probe.fd_table(pid).values()]
    return Counter(name for name in names if not name.removesuffix(" (deleted)").endswith(".log"))


@asynccontextmanager
async def daemon(
    *fakes: Fake,
    settings: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    start: bool = True,
    **popen: Any,
) -> AsyncIterator[Daemon]:
    """Run a daemon with these servers for the block; afterwards nothing of it may be left.

    When the block fails, every conversation, journal and log is printed.
    """
    one = Daemon(env)
    try:
        one.configure(*fakes, settings=settings or {})
        try:
            if start:
                await one.start(**popen)
            yield one
        except BaseException:
            report(one)
            await one.end(orderly=False)
            raise
        problems = await one.end(orderly=True)
        if problems:
            report(one)
            raise AssertionError("\n".join(problems))
    finally:
        shutil.rmtree(one.home, ignore_errors=True)


def report(one: Daemon) -> None:
    """Print everything that tells what went on."""
    for host in one.hosts:
        print(host.show(), file=sys.stderr)
    for name in one.fakes:
        print(one.journal(name).tail(), file=sys.stderr)
    print(one.logs(), file=sys.stderr)


__all__ = ["ControlError", "ConversationError", "Daemon", "Fake", "bare", "daemon", "fake"]
