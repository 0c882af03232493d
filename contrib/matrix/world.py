"""A daemon of its own for the matrix, with every server as a person would configure it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from contrib.matrix.peers import Server

ROOT = Path(__file__).parents[2]
#: Seconds for the daemon to come up and to end.
PATIENCE = 20.0
#: A server that may ask its hosts has an entry of its own: what it offers may depend on whether it may.
ASKING = "-asking"
#: A host of 2026-07-28 tells its roots when it is asked, too late to choose a server that others share.
OWN = "-own"


#: Given the name of a server and a command, returns the command to be started instead.
Wrap = Callable[[str, Sequence[str]], list[str]]


@dataclass(frozen=True, slots=True)
class World:
    """One SMCP_HOME with a running daemon; ``place`` is where the kits are installed.

    ``host`` and ``server`` may wrap the commands that hosts and the daemon start.
    """

    home: Path
    place: Path
    host: Wrap = lambda name, command: [*command]
    server: Wrap = lambda name, command: [*command]

    @property
    def environment(self) -> dict[str, str]:
        """What the daemon and every host have in their environment."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return kept | {"SMCP_HOME": str(self.home), "NODE_NO_WARNINGS": "1"}

    def connect(self, name: str) -> list[str]:
        """Return the command that a host's configuration names for a server."""
        shim = ROOT / "supervisord_mcp" / "shim.py"
        return self.host(name, [sys.executable, "-I", "-S", str(shim), name])

    def configure(self, servers: Iterable[Server]) -> None:
        """Write the configuration: each server shared by all hosts, as one that may ask them, and for one host each."""
        entries: dict[str, object] = {}
        for server in servers:
            command = self.server(server.name, server.command(self.place))
            entry = {"command": command, "runtime": "bare", "env": {"NODE_NO_WARNINGS": "1"}}
            entries[server.name] = entry
            entries[server.name + ASKING] = {**entry, "callbacks": "on"}
            entries[server.name + OWN] = {**entry, "scope": "session"}
        path = self.home / "config" / "config.toml"
        path.parent.mkdir(parents=True)
        path.write_text(tomlkit.dumps({"servers": entries}))


@contextmanager
def running(place: Path, servers: Iterable[Server], **wraps: Wrap) -> Iterator[World]:
    """Run a daemon for the block; afterwards nothing of it is left. Raise `RuntimeError` if it does not come up.

    ``wraps`` are those of `World`.
    """
    world = World(Path(tempfile.mkdtemp(prefix="smcp-matrix-")), place, **wraps)
    try:
        world.configure(servers)
        words = [sys.executable, "-m", "supervisord_mcp", "run"]
        log = world.home / "daemon.log"
        with log.open("wb") as stream:
            daemon = subprocess.Popen(
                words, cwd=ROOT, env=world.environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        try:
            _wait(world, daemon, log)
            yield world
        finally:
            daemon.terminate()
            try:
                daemon.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
    finally:
        shutil.rmtree(world.home, ignore_errors=True)


def _wait(world: World, daemon: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while not (world.home / "run" / "daemon.sock").exists():
        if daemon.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the daemon does not come up:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
