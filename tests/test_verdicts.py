"""Verdicts on disk: kept, found again by another daemon, gone when old, and no harm where that is not possible."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from supervisord_mcp.protocol.eras.probe import KEPT as DAY
from supervisord_mcp.protocol.eras.probe import UNKNOWN, Verdict
from supervisord_mcp.verdicts import KEPT, LASTING, Verdicts

A, B = "0123456789abcdef", "fedcba9876543210"
LEGACY, MODERN, BOTH = Verdict(True, False), Verdict(False, True), Verdict(True, True)


class Clock:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "eras.json"


def test_a_verdict_belongs_to_one_command_and_outlives_the_daemon(path: Path, clock: Clock) -> None:
    one = Verdicts(path, clock)
    assert one.load(A) == UNKNOWN
    one.save(A, LEGACY)
    one.save(B, Verdict(None, True))
    for verdicts in (one, Verdicts(path, clock)):
        assert (verdicts.load(A), verdicts.load(B), verdicts.load("other")) == (LEGACY, Verdict(None, True), UNKNOWN)
    one.save(A, MODERN)
    assert Verdicts(path, clock).load(A) == MODERN
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("verdict", "kept"), [(LEGACY, DAY), (MODERN, DAY), (BOTH, LASTING)])
def test_a_verdict_is_not_believed_for_ever(path: Path, clock: Clock, verdict: Verdict, kept: float) -> None:
    Verdicts(path, clock).save(A, verdict)
    clock.now += kept - 1
    assert Verdicts(path, clock).load(A) == verdict
    clock.now += 1
    verdicts = Verdicts(path, clock)
    assert verdicts.load(A) == UNKNOWN
    verdicts.save(B, verdict)
    assert A not in path.read_text()


def test_the_oldest_go_when_there_are_too_many(path: Path, clock: Clock) -> None:
    verdicts = Verdicts(path, clock)
    for number in range(KEPT + 1):
        verdicts.save(str(number), LEGACY)
    assert verdicts.load("0") == UNKNOWN
    assert verdicts.load("1") == LEGACY


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"a":1}', b'{"a":{"legacy":1}}', b"\xff"])
def test_what_cannot_be_read_is_found_out_anew(
    path: Path, clock: Clock, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    verdicts = Verdicts(path, clock)
    with caplog.at_level(logging.WARNING):
        assert verdicts.load(A) == UNKNOWN
    assert "cannot read which eras" in caplog.text
    verdicts.save(A, LEGACY)
    assert Verdicts(path, clock).load(A) == LEGACY


def test_what_cannot_be_written_is_believed_all_the_same(
    path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    verdicts = Verdicts(path, clock)
    with caplog.at_level(logging.WARNING):
        verdicts.save(A, LEGACY)
    assert "cannot keep which era" in caplog.text
    assert verdicts.load(A) == LEGACY
    assert list(path.parent.iterdir()) == []
