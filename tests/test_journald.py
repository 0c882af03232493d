"""Lines of logs in the journal: of systemd itself where it can be run, of a socket in its place where it cannot."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp import observer as module
from supervisord_mcp import systemd
from supervisord_mcp.journald import Journald, fields
from supervisord_mcp.loglines import parse
from supervisord_mcp.observer import Observers
from supervisord_mcp.protocol.news import LogLine
from tests.kit.required import as_root, need

ROOT = Path(__file__).parents[1]
JOURNALD = "/lib/systemd/systemd-journald"
LINES = [
    "2026-11-30T08:00:01.000Z stderr[/src/site session-3] boom",
    "2026-11-30T08:00:03.000Z smcp[/src/site session-3] last line repeated 4 times since 2026-11-30T08:00:01.500Z",
    "2026-11-30T08:00:05.000Z message error db: ü",
]
#: Sends the lines as a daemon does. What it is run with has /run for itself.
SENDER = f"""
import sys
from supervisord_mcp.journald import Journald
from supervisord_mcp.loglines import parse
from supervisord_mcp.observer import Observers
observers = Observers()
journald = Journald(observers)
journald.configure(True)
assert observers.lines.watched, "there is no journal"
observers.lines.tell_all(list(parse({LINES!r}, "git")))
thread = observers.lines._watchers[0].close.__self__._thread
journald.configure(False)
thread.join(10)
"""
#: A socket in the place of the journal, which prints what it gets.
LISTENER = f"""
import os, socket, subprocess, sys
os.makedirs("/run/systemd/journal")
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
    journal.bind("/run/systemd/journal/socket")
    journal.settimeout(10)
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
    for _ in range({len(LINES)}):
        sys.stdout.buffer.write(journal.recv(10_000) + b"\\n")
"""


def entries() -> list[dict[str, str]]:
    return [dict(text.split("=", 1) for text in fields(line)) for line in parse(LINES, "git")]


def test_an_entry_has_fields_to_be_looked_up_by() -> None:
    first, again, message = entries()
    assert first == {
        "MESSAGE": "boom",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "smcp",
        "SMCP_SERVER": "git",
        "SMCP_SOURCE": "stderr",
        "SMCP_INSTANCE": "/src/site",
        "SMCP_SESSION": "3",
    }
    assert again["MESSAGE"] == "boom (last line repeated 4 times since 2026-11-30T08:00:01.500Z)"
    assert (message["MESSAGE"], message["PRIORITY"]) == ("error db: ü", "3")
    assert "SMCP_INSTANCE" not in message
    assert "SMCP_SESSION" not in message


@pytest.mark.parametrize(("text", "priority"), [("debug: x", 7), ("emergency a: x", 0), ("-: x", 6), ("loud: x", 6)])
def test_log_messages_have_their_priority(text: str, priority: int) -> None:
    assert f"PRIORITY={priority}" in fields(LogLine(line="", source="message", text=text))


def wait_for(wanted: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not wanted():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_lines_go_to_the_journal_while_it_is_wanted() -> None:
    observers, sent = Observers(), list[tuple[str, ...]]()
    journald = Journald(observers, lambda: lambda *words: sent.append(words))
    line = LogLine(line="x", text="x")
    observers.lines.tell(line)
    for wanted in (False, True, True):
        journald.configure(wanted)
    observers.lines.tell(line)
    wait_for(lambda: sent)
    journald.configure(False)
    assert not observers.lines.watched
    assert sent == [tuple(fields(line))]


def test_without_a_journal_nothing_watches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(systemd, "JOURNAL", str(tmp_path / "none"))
    observers = Observers()
    Journald(observers).configure(True)
    assert not observers.lines.watched


def test_without_the_library_nothing_watches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(systemd, "JOURNAL", str(tmp_path))
    monkeypatch.setitem(sys.modules, "systemd", None)
    assert systemd.journal() is None


@pytest.mark.parametrize("how", ["fails", "hangs"])
def test_a_journal_that_fails_or_hangs_is_let_go_and_reported(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKLOG", 3)
    observers, go_on, tried = Observers(), threading.Event(), threading.Event()

    def send(*_words: str) -> None:
        tried.set()
        if how == "fails":
            raise OSError("the journal is full")
        go_on.wait(10)

    Journald(observers, lambda: send).configure(True)
    line = LogLine(line="x", text="x")
    observers.lines.tell(line)
    assert tried.wait(10)

    def dropped() -> bool:
        observers.lines.tell(line)
        return not observers.lines.watched

    wait_for(dropped)
    go_on.set()
    cause = "the journal is full" if how == "fails" else "it is 3 behind"
    assert observers.dropped == {"journal": cause}
    assert observers.recent[-1].data == {"observer": "journal", "cause": cause}


# The real thing


def inside(script: str, *words: str) -> str:
    """Run a shell script that has /run for itself, and return what it prints."""
    need(importlib.util.find_spec("systemd"), "systemd-python (contrib/check.sh builds it)")
    own = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    prepared = "mount -t tmpfs none /run"
    need(subprocess.run([*own, "/bin/sh", "-c", prepared], check=False).returncode == 0, "leave to mount")
    done = subprocess.run(
        [*own, "/bin/sh", "-e", "-c", f"{prepared}\n{script}", sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_library_speaks_the_protocol_of_the_journal() -> None:
    told = inside('exec "$0" -c "$1" "$2"', LISTENER, SENDER)
    found = [dict(line.split("=", 1) for line in entry.splitlines()) for entry in told.strip().split("\n\n")]
    names = ("MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER", "SMCP_SERVER", "SMCP_SOURCE", "SMCP_INSTANCE", "SMCP_SESSION")
    assert [{name: entry[name] for name in names if name in entry} for entry in found] == entries()


@as_root
def test_the_journal_of_systemd_finds_them_by_their_fields() -> None:
    need(os.path.exists(JOURNALD) and shutil.which("journalctl"), "the journal of systemd")
    script = f"""
mkdir -p /run/log/journal /run/systemd/journal
[ -s /etc/machine-id ] || {{ tr -d - </proc/sys/kernel/random/uuid >/run/id; mount --bind /run/id /etc/machine-id; }}
{JOURNALD} >/dev/null 2>&1 &
trap "kill $!" EXIT
for _ in $(seq 200); do [ ! -S /run/systemd/journal/socket ] || break; sleep 0.05; done
"$0" -c "$1"
journalctl --sync
journalctl --directory=/run/log/journal --output=json SMCP_SERVER=git SMCP_SESSION=3
"""
    found = [json.loads(line) for line in inside(script, SENDER).splitlines()]
    assert [(entry["MESSAGE"], entry["SMCP_SOURCE"], entry["SMCP_INSTANCE"]) for entry in found] == [
        (entry["MESSAGE"], "stderr", "/src/site") for entry in entries()[:2]
    ]
