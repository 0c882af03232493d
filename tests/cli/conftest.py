"""A home of its own for every test, a daemon that says what it is told, and a way to run commands."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from msgspec import Raw

from supervisord_mcp.cli import main
from supervisord_mcp.protocol import control
from tests.adoption.machine import Machine
from tests.cli.daemon import FakeDaemon


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    status: int
    out: str
    err: str


class Smcp(Protocol):
    """Runs a command in this process."""

    def __call__(self, *words: str, stdin: str = "") -> Ran:
        """Run it."""
        ...


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SMCP_HOME", str(tmp_path))
    for name in ("SMCP_PROJECT", "CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS", "FORCE_COLOR", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def daemon(home: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(home)
    yield fake
    fake.close()


@pytest.fixture
def smcp(monkeypatch: pytest.MonkeyPatch) -> Smcp:
    def run(*words: str, stdin: str = "") -> Ran:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", out)
            patch.setattr(sys, "stderr", err)
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
            try:
                status = main(words)
            except SystemExit as ending:
                status = ending.code if isinstance(ending.code, int) else 1
        texts = []
        for stream in (out, err):
            stream.flush()
            buffer = stream.buffer
            assert isinstance(buffer, io.BytesIO)
            texts.append(buffer.getvalue().decode())
        return Ran(status, *texts)

    return run


@pytest.fixture
def machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A home directory with hosts, whose owner is in a project."""
    made = Machine(home)
    (made.project / ".git").mkdir()
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.project)
    return made


@pytest.fixture
def tools(machine: Machine) -> Iterator[FakeDaemon]:
    """A daemon in which every server has one tool."""
    fake = FakeDaemon(Path(machine.environ["SMCP_HOME"]))
    fake.answers[control.Tools] = control.ToolsResult(tools=(Raw(b'{"name": "t"}'),))
    yield fake
    fake.close()
