"""The logs of all servers: their limits, what is wrong with them, and the sessions in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import rotated
from supervisord_mcp.config.models import Config
from supervisord_mcp.logbooks import ServerLogs
from supervisord_mcp.observer import Event, Observers


def configured(**servers: Mapping[str, Any]) -> Config:
    return Config.model_validate({"servers": {name: {"command": "x", **entry} for name, entry in servers.items()}})


def test_every_server_has_a_log_with_its_limits(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path)
    logs.configure(configured(a={"log": {"max_size": "1K", "keep": 2}}, b={}))
    assert list(logs) == []
    log = logs["a"]
    assert logs["a"] is log
    assert (list(logs), len(logs), log.path) == (["a"], 1, tmp_path / "a.log")
    with pytest.raises(KeyError):
        logs["nobody"]
    log.write("stderr", "x" * 900)
    logs.configure(configured(a={"log": {"max_size": "1M"}}, b={}))
    log.write("stderr", "y" * 900)
    assert [file.name for file in tmp_path.iterdir()] == ["a.log"]
    logs.configure(configured(b={}))
    assert log.file._descriptor is None
    log.write("smcp", "last words of a server that was removed")
    assert "last words" in log.path.read_text()
    log.close()


def test_logs_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    logs = ServerLogs(tmp_path / "file")
    logs.configure(configured(a={}, b={}))
    assert logs.trouble == "ok"
    for name in ("a", "b"):
        logs[name].write("smcp", "x")
    assert logs.trouble.startswith(f"degraded: {tmp_path}/file/a.log: ")
    assert f"; {tmp_path}/file/b.log: " in logs.trouble


def test_what_cannot_be_written_is_told_once_and_when_it_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotated, "CHECK_EVERY", 0.0)
    observers = Observers()
    logs = ServerLogs(tmp_path / "logs", observers)
    logs.configure(configured(a={}))
    (tmp_path / "logs").write_text("in the way")
    for number in range(3):
        logs["a"].write("smcp", f"lost {number}")
    [event] = observers.recent
    assert (event.kind, event.server, event.data["file"]) == ("logging", "a", str(tmp_path / "logs" / "a.log"))
    assert event.data["trouble"].startswith(event.data["file"])
    (tmp_path / "logs").unlink()
    logs["a"].write("smcp", "goes on")
    assert observers.recent[-1].data == {"file": event.data["file"], "trouble": "", "lost": 3}
    assert len(observers.recent) == 2
    assert logs.trouble == "ok"


def test_sessions_are_in_the_log_of_their_server(tmp_path: Path) -> None:
    observers = Observers()
    logs = ServerLogs(tmp_path, observers)
    logs.configure(configured(a={}))
    observers.add(logs.note)
    opened = {"session": 3, "pid": 77, "project": "/src/site", "resumed": False}
    observers.publish(Event("session-opened", "a", opened))
    observers.publish(Event("session-opened", "a", {**opened, "pid": 0, "project": None, "resumed": True}))
    greeted = {"session": 3, "host": "editor", "version": "1.2", "revision": "2025-11-25"}
    observers.publish(Event("session-greeted", "a", greeted))
    observers.publish(Event("session-closed", "a", {"session": 3, "reason": "the host is gone"}))
    observers.publish(Event("session-closed", "a", {"session": 3, "reason": ""}))
    observers.publish(Event("session-closed", "removed", {"session": 3, "reason": ""}))
    observers.publish(Event("config-reloaded"))
    assert [line.split(" ", 1)[1] for line in logs["a"].last(9)] == [
        "smcp[session-3] session opened of pid 77 in /src/site",
        "smcp[session-3] session resumed",
        "smcp[session-3] session of editor 1.2, revision 2025-11-25",
        "smcp[session-3] session closed: the host is gone",
        "smcp[session-3] session closed",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["a.log"]


def test_a_change_of_the_configuration_is_in_the_log_with_what_follows_from_it(tmp_path: Path) -> None:
    observers = Observers()
    logs = ServerLogs(tmp_path, observers)
    observers.add(logs.note)
    logs.configure(configured(a={}, b={}, c={}))
    for name in "ab":
        logs[name].write("smcp", "begins")
    logs.configure(configured(a={"args": ["x"]}, b={}))
    logs.configure(configured(b={}))
    observers.publish(Event("session-closed", "a", {"session": 3, "reason": "server 'a' was removed"}))
    logs.configure(configured(b={}))
    assert [line.split(" ", 1)[1] for line in logs["a"].last(9)] == [
        "smcp begins",
        "smcp its entry in the configuration changed",
        "smcp it was removed from the configuration",
        "smcp[session-3] session closed: server 'a' was removed",
    ]
    assert len(logs["b"].last(9)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "b.log"]


def test_what_was_counted_is_written_down_now_and_then(tmp_path: Path) -> None:
    logs = ServerLogs(tmp_path)
    logs.configure(configured(a={}))
    for _ in range(3):
        logs["a"].write("stderr", "again")
    assert len((tmp_path / "a.log").read_text().splitlines()) == 1
    logs.settle()
    assert "last line repeated 2 times" in (tmp_path / "a.log").read_text()
