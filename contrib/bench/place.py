"""A daemon of its own for the benchmark, in a temporary place: configured, started, told, taken away again."""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import psutil

from contrib.bench import keeper, server
from supervisord_mcp import shim
from supervisord_mcp.cli.client import SLOW, Client
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.protocol import control
from supervisord_mcp.runtimes.bwrap import BwrapRuntime

ROOT = Path(__file__).resolve().parents[2]
#: The command of the tiny server. The interpreter is the one behind a virtual environment: only its library is needed.
TINY = [os.path.realpath(sys.executable), "-I", "-S", str(Path(server.__file__).resolve())]
#: Names of the configured servers: the tiny one without a sandbox, in one, and in one with rules for its network.
BARE, BOXED, RULED = "bare", "boxed", "ruled"
#: One more without a sandbox, where secrets are given, whose messages are looked at for them.
WATCHED = "watched"
#: Copies of it that make it many.
COPIES = tuple(f"tiny-{number}" for number in range(10))

_START, _STOP = 30.0, 30.0
#: What makes a number of a process one of its clocks: the kernel's CPUCLOCK_SCHED.
_PROCESS_CLOCK = 2
#: How often something outside of this process is looked at, in seconds.
STEP = 0.005


class BenchError(Exception):
    """The benchmark cannot go on; the text says why."""


class Place:
    """The SMCP_HOME of the benchmark and the daemon in it. ``runtime`` is what the servers but `BARE` run in.

    ``root`` is the checkout whose daemon and shim are measured, ``secrets`` how many of them its servers are given,
    ``settings`` what its configuration says besides, ``entry`` what the entry of each server does, and ``copies`` how
    many servers there are that make it many.
    """

    #: What Python runs as the program.
    program: ClassVar[Sequence[str]] = ("-m", "supervisord_mcp")

    def __init__(
        self, root: Path = ROOT, secrets: int = 0, settings: str = "", entry: str = "", copies: int = len(COPIES)
    ) -> None:
        self._root = root
        self._secrets = secrets
        self._settings = settings
        self._entry = entry
        self.copies = tuple(f"tiny-{number}" for number in range(copies))
        self.lacks = tuple(lack.cause for lack in BwrapRuntime().check())
        self.runtime = "bare" if self.lacks else "bwrap"
        # A socket path has room for a hundred characters only, so the name is short.
        self.home = Path(tempfile.mkdtemp(prefix="smcp-bench-"))
        self.environ = {**os.environ, "SMCP_HOME": str(self.home), "PYTHONPATH": str(root)}
        # Both in groups of their own: Ctrl-C is for who measures, who then ends them in order.
        self._daemon: subprocess.Popen[bytes] | None = None
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._configure()
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    @property
    def daemon(self) -> psutil.Process:
        """The process of the daemon."""
        assert self._daemon is not None
        return psutil.Process(self._daemon.pid)

    def processor_time(self) -> float:
        """Return the seconds of a processor that the daemon has used, all its threads together."""
        # The clock of a process (clock_getcpuclockid(3)) has the time of threads that have ended, too.
        return time.clock_gettime(~self.daemon.pid << 3 | _PROCESS_CLOCK)

    def shim(self, name: str) -> list[str]:
        """Return the command that a host starts instead of the server."""
        return [sys.executable, "-I", "-S", str(self._root / "supervisord_mcp" / "shim.py"), name]

    def connect(self, name: str) -> list[str]:
        """Return the command ``smcp connect``, as a host has it in its configuration."""
        return [sys.executable, "-m", "supervisord_mcp", "connect", name]

    def configure(self, settings: str) -> None:
        """Give the running daemon other settings."""
        self._settings = settings
        self._configure()
        self._tell(control.Reload())

    def start(self, name: str) -> float:
        """Start a server that does not run; return after how many seconds it was ready."""
        began = time.perf_counter()
        self._tell(control.Start(names=(name,)))
        return time.perf_counter() - began

    def stop(self, name: str) -> None:
        """Stop a server, and wait until nothing of it is left."""
        self._tell(control.Stop(names=(name,)))

    def child(self, name: str) -> psutil.Process:
        """Return the process that serves: the command itself, whatever holds the sandbox around it."""
        with self.client() as client:
            status = client.ask_for(control.Status(), control.StatusResult)
        pids = [instance.pid for entry in status.servers if entry.name == name for instance in entry.instances]
        for pid in filter(None, pids):
            leader = psutil.Process(pid)
            for process in (leader, *leader.children(recursive=True)):
                if process.cmdline() == TINY:
                    return process
        raise BenchError(f"server {name} does not run")

    def family(self, name: str) -> list[psutil.Process]:
        """Return every process of a server that runs: what holds the sandbox around it, and the command."""
        first = self.child(name)
        while (parent := first.parent()) is not None and parent.pid != self.daemon.pid:
            first = parent
        return [first, *first.children(recursive=True)]

    def close(self) -> None:
        """Take everything away: the daemon, whatever is left of it, and the files."""
        # Only what is of this daemon: who measures may have other children, and other places.
        family: list[psutil.Process] = []
        if self._daemon is not None:
            with suppress(psutil.NoSuchProcess):
                family = [self.daemon, *self.daemon.children(recursive=True)]
            self._daemon.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._daemon.wait(_STOP)
        _, left = psutil.wait_procs(family, timeout=1.0)
        for process in left:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=_STOP)
        if self._daemon is not None:
            self._daemon.wait()
            self._daemon = None
        if self._keeper is not None:
            self._keeper.kill()
            self._keeper.communicate()
            self._keeper = None
        shutil.rmtree(self.home, ignore_errors=True)

    def _configure(self) -> None:
        lines = [self._settings]
        for name in (BARE, BOXED, RULED, *self.copies, *((WATCHED,) if self._secrets else ())):
            runtime = "bare" if name in (BARE, WATCHED) else self.runtime
            # What is measured is one crash, again and again, not the end of the budget of a server that keeps failing.
            lines += [
                f"[servers.{name}]",
                f"command = {json.dumps(TINY)}",
                f'runtime = "{runtime}"',
                f"mounts = [{{ path = {json.dumps(str(Path(TINY[-1]).parent))} }}]",
                "budget = { restarts = 1000, within = 60 }",
                self._entry,
            ]
            if name == RULED and runtime != "bare":
                lines.append('network = { allow = ["one.example:443", "*.two.example:443"] }')
            if name == WATCHED:
                lines.append("warn_on_echo = true")
            if self._secrets:
                given = [f'TINY_{number}_TOKEN = "{os.urandom(20).hex()}"' for number in range(self._secrets)]
                lines.append(f"env = {{ {', '.join(given)} }}")
        path = self.home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")

    def _start(self) -> None:
        # As an installed program has it: a daemon that compiles itself keeps megabytes of what that took.
        compileall.compile_dir(self._root / "supervisord_mcp", quiet=2)
        with (self.home / "daemon.log").open("wb") as log:
            self._daemon = subprocess.Popen(
                [sys.executable, *self.program, "run"],
                cwd=self._root,
                env=self.environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        command = [TINY[0], "-I", "-S", str(Path(keeper.__file__).resolve()), str(self._daemon.pid), str(self.home)]
        self._keeper = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
        deadline = time.monotonic() + _START
        while not self._answers():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                raise BenchError(f"the daemon did not start:\n{(self.home / 'daemon.log').read_text()}")
            time.sleep(STEP)

    def _answers(self) -> bool:
        # It listens before it works: instead of one that fails in between, a host would start one that nobody ends.
        with suppress(SmcpError, OSError):
            if (client := self._connect()) is not None:
                with client:
                    client.ask(control.Status())
                    return True
        return False

    def _connect(self) -> Client | None:
        connection = shim.find_daemon(self.environ, os.getuid())
        return None if connection is None else Client(connection)

    def client(self) -> Client:
        """Return a command that is connected with the daemon."""
        if (client := self._connect()) is None:
            raise BenchError("the daemon is gone")
        return client

    def _tell(self, operation: control.Operation) -> None:
        with self.client() as client:
            client.ask(operation, SLOW)
