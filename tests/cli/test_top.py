"""``smcp top``: printed once, refused without a terminal, and driven in a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from supervisord_mcp.errors import UnknownServerError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream, clean_lines
from tests.cli.figures import RESULT
from tests.kit.daemon import ROOT
from tests.kit.required import need

PATIENCE = 20.0


@pytest.fixture(autouse=True)
def told(daemon: FakeDaemon) -> FakeDaemon:
    """A daemon that tells always the same."""
    daemon.answers[control.Usage] = RESULT
    return daemon


def test_top_once(smcp: Smcp) -> None:
    lines = clean_lines(smcp("top", "--once", "--sort", "name").out)
    assert lines[1].split()[:4] == ["git", "RUNNING", "42.5%", "91M"]
    assert lines[-1] == "saved by sharing: 4 processes and 160M"


def test_top_sorts_by_what_there_is(smcp: Smcp) -> None:
    ran = smcp("top", "--once", "--sort", "colour")
    assert ran.status == 2
    assert "--sort colour: sort by cpu, memory, calls, name" in ran.err


def test_top_needs_a_terminal(smcp: Smcp) -> None:
    ran = smcp("top")
    assert ran.status == 2
    assert "smcp top --once" in ran.err


class Terminal:
    """A real terminal of 80 columns and 24 lines, in which a command runs."""

    def __init__(self, command: str) -> None:
        self._tmux = ["tmux", "-L", f"smcp-{uuid.uuid4().hex[:12]}", "-f", os.devnull]
        environ = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        # What a library said of the window that the tests run in would count for more than this one.
        environ = {name: value for name, value in environ.items() if name not in ("LINES", "COLUMNS")}
        self._run("new-session", "-d", "-x", "80", "-y", "24", f"{command}; echo ended $?; cat", env=environ)

    def _run(self, *words: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run([*self._tmux, *words], env=env, capture_output=True, timeout=PATIENCE, check=True)
        return done.stdout.decode()

    def type(self, *keys: str) -> None:
        """Press keys."""
        self._run("send-keys", *keys)

    def until(self, wanted: Callable[[list[str]], object]) -> list[str]:
        """Return the screen once it shows what is wanted."""
        deadline = time.monotonic() + PATIENCE
        while True:
            lines = self._run("capture-pane", "-p").splitlines()
            if wanted(lines):
                return lines
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(0.05)

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size."""
        self._run("resize-window", "-x", str(columns), "-y", str(lines))

    def close(self) -> None:
        """End everything in it."""
        self._run("kill-server")


@pytest.fixture
def terminal(home: Path) -> Iterator[Terminal]:
    """Top in a terminal."""
    need(shutil.which("tmux"), "tmux")
    made = Terminal(f"SMCP_HOME={home} {sys.executable} -m supervisord_mcp top")
    yield made
    made.close()


def said(text: str) -> Callable[[list[str]], bool]:
    """Return whether a text is anywhere on the screen."""
    return lambda lines: any(text in line for line in lines)


def test_top_in_a_terminal(terminal: Terminal, told: FakeDaemon) -> None:
    told.answers[control.Logs] = Stream([LogLine(line="the server said this")])
    told.answers[control.Restart] = None
    lines = terminal.until(said("+idle"))
    assert len(lines) == 24
    assert lines[0].startswith("smcp top  daemon 0.2% 38M   1 of 2 servers run")
    assert lines[2].startswith("+git ")
    assert "q quit" in lines[-1]

    terminal.type("Enter")
    terminal.until(said("4242"))
    terminal.type("Down", "Enter", "Up", "Left")
    terminal.until(lambda lines: said("-idle")(lines) and not said("4242")(lines))
    terminal.type("l")
    terminal.until(said("the server said this"))
    terminal.type("Escape")
    terminal.until(said("-idle"))
    told.answers[control.Logs] = UnknownServerError("no server git")
    terminal.type("l")
    terminal.until(said("git is not there any more"))
    terminal.type("Down", "Up")
    terminal.type("s")
    terminal.until(said("sort: memory"))

    terminal.type("r")
    terminal.until(said("restart git? y: yes"))
    terminal.type("y")
    terminal.until(said("restart git: done"))
    assert control.Restart(names=("git",)) in told.asked

    terminal.resize(120, 10)
    terminal.until(lambda lines: len(lines) == 10 and lines[1].endswith(" MEM"))

    def looks() -> list[control.Usage]:
        return [operation for operation in told.asked if isinstance(operation, control.Usage)]

    # It looks again and again, with the history for the curves.
    terminal.until(lambda lines: len(looks()) > 1)
    assert all(look.fresh and look.since is not None for look in looks())
    terminal.type("q")
    lines = terminal.until(said("ended 0"))
    assert not said("SERVER")(lines), "the screen is as it was before"


def test_top_ends_with_the_daemon(terminal: Terminal, told: FakeDaemon) -> None:
    from tests.cli.daemon import HangUp

    terminal.until(said("+git"))
    told.answers[control.Usage] = HangUp()
    terminal.until(said("ended 3"))
