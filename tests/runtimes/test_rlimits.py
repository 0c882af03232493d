"""Limits of a single process, set from outside."""

from __future__ import annotations

import io
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import rlimits


@pytest.fixture
def process() -> Iterator[int]:
    """A process that waits."""
    started = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    yield started.pid
    started.communicate(timeout=10)


def test_they_hold_and_lower_ones_stay(process: int) -> None:
    resource.prlimit(process, resource.RLIMIT_NOFILE, (50, 60))
    rlimits.set_rlimits(process, [(resource.RLIMIT_NOFILE, 100), (resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 7)])
    assert resource.prlimit(process, resource.RLIMIT_NOFILE) == (60, 60)
    assert resource.prlimit(process, resource.RLIMIT_CORE) == (0, 0)
    assert resource.prlimit(process, resource.RLIMIT_FSIZE) == (7, 7)


def test_one_that_does_not_hold_is_named(process: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "prlimit", lambda *_: (-1, -1))
    with pytest.raises(IsolationError, match="limit fsize cannot be set: the kernel holds -1 instead of 5"):
        rlimits.set_rlimits(process, [(resource.RLIMIT_FSIZE, 5)])


def test_a_process_that_is_gone_has_none() -> None:
    with pytest.raises(IsolationError, match="limit nofile cannot be set"):
        rlimits.set_rlimits(2**22 + 1, [(resource.RLIMIT_NOFILE, 5)])
    with pytest.raises(IsolationError, match="limit oom score cannot be set"):
        rlimits.raise_oom_score(2**22 + 1)


def test_the_oom_score_is_raised_and_never_lowered(process: int) -> None:
    path = Path(f"/proc/{process}/oom_score_adj")
    rlimits.raise_oom_score(process)
    assert int(path.read_text()) == rlimits.OOM_SCORE
    path.write_text("700")
    rlimits.raise_oom_score(process)
    assert int(path.read_text()) == 700


def test_an_oom_score_that_does_not_hold_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rlimits, "open", lambda *_, **__: io.BytesIO(b"0\n"), raising=False)
    with pytest.raises(IsolationError, match="the kernel holds 0 instead of 500"):
        rlimits.raise_oom_score(1)
