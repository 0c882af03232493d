"""The three servers of the demo, something for them to work on, and a question for each client that only it asks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: Half of what a fresh machine needs to start a server of npm is the download.
FILESYSTEM_PACKAGE = "@modelcontextprotocol/server-filesystem"


@dataclass(frozen=True, slots=True)
class Question:
    """A tool call, and the text that its answer must hold."""

    tool: str
    arguments: dict[str, Any]
    answer: str


@dataclass(frozen=True, slots=True)
class Server:
    """A real server: how it is started, what it may see, and what a client asks it."""

    name: str
    command: list[str]
    ask: Callable[[int], Question]
    mounts: list[dict[str, str]] = field(default_factory=list)

    def entry(self, runtime: str) -> dict[str, Any]:
        """Return the server's table for the configuration; no network, and nothing visible but its mounts."""
        return {"command": self.command, "runtime": runtime, "mounts": self.mounts}


def build(scratch: Path, clients: int) -> list[Server]:
    """Given an empty directory, put a repository and notes into it and return the servers that work on them."""
    revisions = _repository(scratch / "repository", clients)
    notes = _notes(scratch / "notes", clients)
    servers = [_time(), _git(scratch / "repository", revisions)]
    if shutil.which("npx"):
        servers.append(_files(notes))
    return servers


def _time() -> Server:
    def ask(number: int) -> Question:
        clock = f"{number:02}:30"
        arguments = {"source_timezone": "UTC", "time": clock, "target_timezone": "Etc/GMT-1"}
        return Question("convert_time", arguments, f"T{number + 1:02}:30")

    return Server("time", ["mcp-server-time"], ask)


def _git(repository: Path, revisions: list[str]) -> Server:
    def ask(number: int) -> Question:
        arguments = {"repo_path": str(repository), "revision": revisions[number]}
        return Question("git_show", arguments, _change(number))

    command = ["mcp-server-git", "--repository", str(repository)]
    return Server("git", command, ask, [{"path": str(repository), "access": "ro"}])


def _files(notes: Path) -> Server:
    def ask(number: int) -> Question:
        return Question("read_text_file", {"path": str(notes / f"{number}.txt")}, _change(number))

    return Server("files", ["npx", "-y", FILESYSTEM_PACKAGE, str(notes)], ask, [{"path": str(notes), "access": "rw"}])


def _change(number: int) -> str:
    return f"for client {number} alone"


def _notes(directory: Path, count: int) -> Path:
    directory.mkdir()
    for number in range(count):
        (directory / f"{number}.txt").write_text(_change(number))
    return directory


def _repository(directory: Path, count: int) -> list[str]:
    """Make a git repository with one commit for each client and return their revisions."""
    directory.mkdir()
    # The person's own git configuration may sign commits or run hooks.
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> str:
        identity = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
        command = ["git", "-C", str(directory), *identity, *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=30)
        return done.stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    revisions = []
    for number in range(count):
        git("commit", "--quiet", "--allow-empty", "--message", f"A change {_change(number)}")
        revisions.append(git("rev-parse", "HEAD"))
    return revisions
