"""A daemon of its own for the demo, in a temporary place: configured, started, asked, taken away again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.to_thread
import psutil
import tomlkit
from mcp import StdioServerParameters

from contrib.demo import memory
from contrib.demo.servers import Server

#: Seconds for a command of the program.
COMMAND = 60.0


class StageError(Exception):
    """A command of the program failed; the text is what it said."""


@dataclass(slots=True)
class Stage:
    """The demo's own SMCP_HOME and everything that was ever started for it."""

    place: Path
    seen: set[psutil.Process] = field(default_factory=set)

    @classmethod
    def build(cls) -> Self:
        """Make a temporary place with a short name: a socket path has room for a hundred characters only."""
        return cls(Path(tempfile.mkdtemp(prefix="smcp-demo-")))

    @property
    def home(self) -> Path:
        """The SMCP_HOME of the demo's daemon."""
        return self.place / "home"

    @property
    def scratch(self) -> Path:
        """The directory that the servers work on."""
        return self.place / "scratch"

    @property
    def environment(self) -> dict[str, str]:
        """What every command of the demo has in its environment."""
        return dict(os.environ) | {"SMCP_HOME": str(self.home)}

    def configure(self, servers: Iterable[Server], runtime: str) -> Path:
        """Write the configuration a person would write and return where it is."""
        path = self.home / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tomlkit.dumps({"servers": {server.name: server.entry(runtime) for server in servers}}))
        return path

    def direct(self, server: Server) -> StdioServerParameters:
        """Return the command by which a host starts a server without the program."""
        return StdioServerParameters(command=server.command[0], args=server.command[1:], env=self.environment)

    def shared(self, server: Server) -> StdioServerParameters:
        """Return the command by which a host reaches a server through the program."""
        return StdioServerParameters(command=smcp(), args=["connect", server.name], env=self.environment)

    async def run(self, *words: str) -> str:
        """Run a command of the program and return what it printed. Raise `StageError` with its error otherwise."""
        done = await anyio.to_thread.run_sync(self._run, words)
        if done.returncode:
            raise StageError(f"smcp {' '.join(words)} exited with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    async def status(self) -> dict[str, Any]:
        """Return the status as programs see it."""
        status: dict[str, Any] = json.loads(await self.run("status", "--json"))
        return status

    async def instances(self, name: str) -> list[dict[str, Any]]:
        """Return the running copies of a server."""
        servers = {server["name"]: server for server in (await self.status())["servers"]}
        return [instance for instance in servers[name]["instances"] if instance.get("pid")]

    def watch(self, processes: Iterable[psutil.Process]) -> list[psutil.Process]:
        """Remember processes, so that none of them is left behind, and return them."""
        found = list(processes)
        self.seen.update(found)
        return found

    def left(self, patience: float = 10.0) -> list[psutil.Process]:
        """Return the processes of the demo that still live after a while."""
        _, alive = psutil.wait_procs(self.seen | set(self._ours()), timeout=patience)
        return [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]

    def logs(self) -> list[Path]:
        """Return the log files of the daemon and its servers."""
        return sorted((self.home / "state").rglob("*.log"))

    def remove(self) -> None:
        """Take everything away: the daemon if it still runs, what is left of the processes, the files."""
        if (self.home / "config").exists():
            self._run(("down",))
        for process in self.left(patience=3.0):
            process.kill()
        shutil.rmtree(self.place, ignore_errors=True)

    def _run(self, words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [smcp(), *words],
            check=False,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND,
        )

    def _ours(self) -> Iterator[psutil.Process]:
        """Yield every process of this machine that was started for this stage, whoever its parent is now."""
        for process in psutil.process_iter():
            try:
                environment = process.environ()
            except psutil.Error:
                continue
            if environment.get("SMCP_HOME") == str(self.home):
                yield process


def smcp() -> str:
    """Return the program, as installed beside this Python."""
    return str(Path(sys.executable).parent / "smcp")


def server_process(pid: int) -> psutil.Process:
    """Given the leader of an instance, return the server itself: the first process below those of its sandbox."""
    return next(process for process in memory.tree(pid) if process.name() != "bwrap")
