"""A fake daemon behind the real shim, endpoint and listener, and an installation of the package in which it starts.

As a module it gives tests an `Installation`; as ``__main__`` of that installation it is the daemon. What the daemon
does with a session is said by the name of the server: ``echo`` sends back what comes, ``refused`` is refused,
``verdict`` gets a verdict at once, ``silent`` no answer, and the first ``leavings`` daemons end when ``leaving`` comes.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from supervisord_mcp import shim
from supervisord_mcp.endpoint import Endpoint
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.listener import Greeting, Listener
from supervisord_mcp.protocol.hello import accept_line, refuse_line, verdict_line

PACKAGE = Path(shim.__file__).parent
#: The variable with the switches of the daemon, as JSON.
SWITCHES = "SMCP_FDAEMON"
PATIENCE = 20.0


class Installation:
    """A place of its own with an interpreter that finds the package, and a fake daemon where the real one would be."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="smcp-", dir="/tmp"))
        self.marker = uuid.uuid4().hex
        self.home = self.root / "home"
        self.user = self.root / "user"
        self.work = self.user / "work"
        self.work.mkdir(parents=True)
        self.python = self.root / "venv" / "bin" / "python"
        self.shim = self._install() / "shim.py"
        self.runtime = self.home / "run"
        self.log = self.home / "state" / "daemon.log"
        self.events_file = self.root / "events"
        self.started: list[subprocess.Popen[bytes]] = []

    def _install(self) -> Path:
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        site = self.root / "venv" / "lib" / version / "site-packages"
        site.mkdir(parents=True)
        self.python.parent.mkdir()
        interpreter = os.path.realpath(sys.executable)
        self.python.symlink_to(interpreter)
        (self.root / "venv" / "pyvenv.cfg").write_text(f"home = {Path(interpreter).parent}\n")
        (site / "libraries.pth").write_text(f"{sysconfig.get_path('purelib')}\n{PACKAGE.parent}\n")
        package = site / PACKAGE.name
        package.mkdir()
        for source in PACKAGE.iterdir():
            if source.name not in ("__main__.py", "__pycache__"):
                (package / source.name).symlink_to(source)
        (package / "__main__.py").write_text("from tests.kit.fdaemon import main\n\nmain()\n")
        return package

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.kill_all()
        subprocess.run(["rm", "-rf", str(self.root)], check=True)

    def environ(self, switches: Mapping[str, Any] | None = None, **more: str) -> dict[str, str]:
        """Return the environment of a host."""
        told = {"events": str(self.events_file), "package": str(PACKAGE), **(switches or {})}
        own = {
            "SMCP_HOME": str(self.home),
            "HOME": str(self.user),
            "SMCP_MARK": self.marker,
            SWITCHES: json.dumps(told),
        }
        return {"PATH": "/usr/bin:/bin", **own, **more}

    def command(self, *words: str) -> list[str]:
        """Return the command that a host's configuration names."""
        return [str(self.python), "-I", "-S", str(self.shim), *words]

    def host(
        self,
        *words: str,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        stdin: int | IO[bytes] = subprocess.PIPE,
        stdout: int | IO[bytes] = subprocess.PIPE,
        **popen: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a shim as a host does."""
        options = {"cwd": self.work, "env": self.environ() if env is None else env, "stderr": subprocess.PIPE, **popen}
        process = subprocess.Popen([*prefix, *self.command(*words)], stdin=stdin, stdout=stdout, **options)
        self.started.append(process)
        return process

    def changed(self, server: str, change: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start a shim in which a constant has another value, as in ``NAME = value``."""
        program = f"import sys; sys.path.append({str(PACKAGE)!r}); import shim; shim.{change}"
        command = [str(self.python), "-I", "-c", f"{program}; sys.exit(shim.main([{server!r}]))"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process: subprocess.Popen[bytes] = subprocess.Popen(command, env=env or self.environ(), cwd=self.work, **pipes)
        self.started.append(process)
        return process

    def run(self, *words: str, data: bytes = b"", **popen: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a shim to its end with this input."""
        process = self.host(*words, **popen)
        out, err = process.communicate(data, timeout=PATIENCE)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Return what daemons wrote down so far."""
        lines = self.events_file.read_text().splitlines() if self.events_file.exists() else []
        found: list[dict[str, Any]] = [json.loads(line) for line in lines]
        return [event for event in found if kind in (None, event["event"])]

    def wait_for(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the events of a kind once there are so many."""
        end = time.monotonic() + PATIENCE
        while len(found := self.events(kind)) < count:
            if time.monotonic() > end:
                raise AssertionError(f"{len(found)} of {count} {kind}: {self.events()}")
            time.sleep(0.01)
        return found

    def daemon(self) -> int:
        """Return the pid of the daemon that was started last."""
        return int(self.wait_for("started")[-1]["pid"])

    def gone(self, pid: int) -> None:
        """Return once a process that is not our child is gone."""
        end = time.monotonic() + PATIENCE
        while (
            Path(f"/proc/{pid}").exists() and " Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
        ):
            if time.monotonic() > end:
                raise AssertionError(f"{pid} does not end")
            time.sleep(0.01)

    def living(self) -> list[int]:
        """Return the pids of all processes of this installation."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                if self.marker.encode() in Path(f"/proc/{name}/environ").read_bytes():
                    found.append(int(name))
            except OSError:
                continue
        return found

    def kill_all(self) -> None:
        """End everything that runs here, and close what was opened for it."""
        end = time.monotonic() + PATIENCE
        while pids := self.living():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            for process in self.started:
                process.poll()
            if time.monotonic() > end:
                raise AssertionError(f"left: {pids}")
            time.sleep(0.01)
        for process in self.started:
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None and not pipe.closed:
                    pipe.close()


class _Session:
    """Sends back to one host what it says, and ends when the host does."""

    def __init__(self, daemon: _Daemon, greeting: Greeting) -> None:
        self.daemon, self.greeting = daemon, greeting
        self.stdin, self.stdout = greeting.fds
        for fd in greeting.fds:
            os.set_blocking(fd, False)
        self.rest = b""
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.stdin, self._read)
        self.loop.add_reader(greeting.connection, self._gone)

    def _read(self) -> None:
        if self.rest:
            return
        self.rest = os.read(self.stdin, 65536)
        if self.rest:
            self._write()
        else:
            self.end(0)

    def _write(self) -> None:
        self.loop.remove_writer(self.stdout)
        with suppress(BlockingIOError):
            self.rest = self.rest[os.write(self.stdout, self.rest) :]
        if self.rest:
            self.loop.add_writer(self.stdout, self._write)

    def _gone(self) -> None:
        self.daemon.note("gone", server=self.greeting.hello.server)
        self._close()

    def end(self, status: int, text: str = "") -> None:
        """End orderly."""
        self.greeting.connection.send(verdict_line(status, text))
        self._close()

    def _close(self) -> None:
        self.loop.remove_reader(self.stdin)
        self.loop.remove_writer(self.stdout)
        self.loop.remove_reader(self.greeting.connection)
        self.greeting.connection.close()
        for fd in self.greeting.fds:
            os.close(fd)
        self.daemon.sessions.discard(self)


class _Daemon:
    def __init__(self, switches: Mapping[str, Any]) -> None:
        self.switches = switches
        self.sessions: set[_Session] = set()

    def note(self, event: str, **more: Any) -> None:
        with open(self.switches["events"], "a", encoding="utf-8") as file:
            file.write(json.dumps({"event": event, "pid": os.getpid(), **more}) + "\n")

    async def run(self) -> None:
        environ, uid = os.environ, os.getuid()
        endpoint = Endpoint(shim.runtime_directory(environ, uid), pointer=shim.pointer_file(environ, uid))
        ending = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, ending.set)
        listener = Listener(endpoint.socket, self.receive)
        self.note("started", **_about_itself())
        idle = loop.create_task(self._leave_when_idle(ending, listener))
        await ending.wait()
        idle.cancel()
        listener.close()
        for session in tuple(self.sessions):
            session.end(0)
        endpoint.close()
        self.note("ended")

    async def _leave_when_idle(self, ending: asyncio.Event, listener: Listener) -> None:
        while "idle" in self.switches and not ending.is_set():
            await asyncio.sleep(self.switches["idle"])
            if not self.sessions:
                listener.close()  # at once: whoever comes from now on is for the next daemon
                ending.set()

    def receive(self, greeting: Greeting) -> None:
        said = greeting.hello
        self.note(
            "greeting", server=said.server, project=said.project, cwd=said.cwd, resume=said.resume, from_=said.pid
        )
        match said.server:
            case "leaving" if self._starts() <= self.switches.get("leavings", 1):
                print(self.switches.get("words", ""), file=sys.stderr, flush=True)
                os._exit(0)
            case "refused":
                self._dismiss(greeting, refuse_line(4, "no server 'refused' is configured\nadd it with: smcp add"))
            case "verdict":
                self._dismiss(greeting, accept_line("t") + verdict_line(5, "it stopped\nlast words"))
            case "silent":
                self._kept = greeting
            case _:
                greeting.connection.send(accept_line(said.resume or uuid.uuid4().hex))
                self.sessions.add(_Session(self, greeting))

    def _starts(self) -> int:
        with open(self.switches["events"], encoding="utf-8") as file:
            return sum('"started"' in line for line in file)

    def _dismiss(self, greeting: Greeting, line: bytes) -> None:
        greeting.connection.send(line)
        greeting.connection.close()
        for fd in greeting.fds:
            os.close(fd)


def _about_itself() -> dict[str, Any]:
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    return {
        "sid": os.getsid(0),
        "cwd": os.getcwd(),
        "argv": sys.argv,
        "blocked": status["SigBlk"],
        "fds": {fd: os.readlink(f"/proc/self/fd/{fd}") for fd in (0, 1, 2)},
        "environ": sorted(os.environ),
    }


def main() -> None:
    """Be the daemon that an installation starts."""
    switches = json.loads(os.environ[SWITCHES])
    ignored = [number for number in sorted(signal.valid_signals()) if signal.getsignal(number) == signal.SIG_IGN]
    fds = sorted(int(name) for name in os.listdir("/proc/self/fd"))
    with open(switches["events"], "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": "launched", "pid": os.getpid(), "ignored": ignored, "fds": fds}) + "\n")
    if "delay" in switches:
        time.sleep(switches["delay"])
    if "fail" in switches:
        sys.exit(switches["fail"])
    try:
        asyncio.run(_Daemon(switches).run())
    except SmcpError as error:
        sys.exit(str(error))
