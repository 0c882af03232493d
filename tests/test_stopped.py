"""What a person stopped, on disk: found again by another daemon, and no harm where that is not possible."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from supervisord_mcp.policy.holds import FREE, Hold
from supervisord_mcp.stopped import BOOT, Stopped


def test_the_next_daemon_knows_what_is_stopped_and_where(tmp_path: Path) -> None:
    file = tmp_path / "state" / "stopped.json"
    first = Stopped(file)
    assert first.hold("s") == FREE
    first.put("s", True, None)
    first.put("s", False, "/p")
    first.put("t", True, "/p")
    first.put("u", True, None)
    assert list(file.parent.iterdir()) == [file]
    second = Stopped(file)
    assert second.hold("s") == Hold(everywhere=True, exceptions=frozenset({"/p"})) == first.hold("s")
    assert second.hold("t") == Hold(exceptions=frozenset({"/p"}))
    second.keep({"t", "x"})
    assert (second.hold("s"), Stopped(file).hold("u")) == (FREE, FREE)
    second.put("t", False, None)
    assert Stopped(file).hold("t") == FREE
    assert list(file.parent.iterdir()) == [], "where nothing is stopped there is no file"


def test_a_start_of_the_machine_forgets_it(tmp_path: Path) -> None:
    file, boot = tmp_path / "stopped.json", tmp_path / "boot"
    boot.write_text("one\n")
    Stopped(file, boot).put("s", True, None)
    assert Stopped(file, boot).hold("s").holds(None)
    boot.write_text("two\n")
    assert Stopped(file, boot).hold("s") == FREE
    assert BOOT.read_text().strip()


def test_a_machine_that_does_not_say_when_it_was_started(tmp_path: Path) -> None:
    file = tmp_path / "stopped.json"
    Stopped(file, tmp_path / "none").put("s", True, None)
    assert Stopped(file, tmp_path / "none").hold("s").holds(None)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b'{"boot": "x", "servers": {"s": 1}}', None])
def test_what_cannot_be_read_is_told_and_is_nothing(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "stopped.json"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        stopped = Stopped(file)
    assert stopped.hold("s") == FREE
    assert f"cannot read which servers were stopped, so none is: {file}" in caplog.text
    stopped.put("s", True, None)
    assert stopped.hold("s").holds(None)
    assert (content is None) or Stopped(file).hold("s").holds(None)


def test_what_cannot_be_written_is_told_and_holds_as_long_as_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    stopped = Stopped(tmp_path / "file" / "stopped.json")
    with caplog.at_level(logging.WARNING):
        stopped.put("s", True, None)
    assert "cannot keep which servers are stopped" in caplog.text
    assert stopped.hold("s").holds(None)
