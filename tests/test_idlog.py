"""The log of ids: what is not ended by a newline was not written, and it does not only grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisord_mcp import idlog
from supervisord_mcp.idlog import IdLog, open_private, replace_file, write_all
from tests.kit.probe import LeakGuard


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with LeakGuard():
        yield tmp_path / "ids"


def restored(path: Path) -> IdLog:
    """Return what the next one knows."""
    log = IdLog(str(path))
    log.restore()
    log.close()
    return log


records = st.lists(st.tuples(st.sampled_from([b"+", b"-", b"!", b"s"]), st.sampled_from([b"1", b'"a"', b"x" * 80])))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records)
def test_the_file_says_what_the_log_knows(path: Path, told: list[tuple[bytes, bytes]]) -> None:
    path.unlink(missing_ok=True)
    log = IdLog(str(path))
    for kind, identity in told:
        log.append(kind, b"" if kind == b"s" else identity)
        other = restored(path)
        assert (other.waiting, other.answered) == (log.waiting, log.answered)
        assert min(log.waiting.values(), default=1) > 0
    log.close()


def test_an_empty_log_is_an_empty_file(path: Path) -> None:
    log = IdLog(str(path))
    log.append(b"+", b"1")
    log.append(b"-", b"1")
    assert path.read_bytes() == b""
    log.append(b"+", b"2")
    assert path.read_bytes() == b"+2\n"
    log.close()


def test_a_record_that_was_cut_off_did_not_happen(path: Path) -> None:
    path.write_bytes(b"+1\n+2\n-1")
    log = IdLog(str(path))
    log.restore()
    assert dict(log.waiting) == {b"1": 1, b"2": 1}
    log.append(b"-", b"2")
    log.close()
    assert dict(restored(path).waiting) == {b"1": 1}


def test_a_log_that_is_never_empty_does_not_grow_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idlog, "_LONG_FILE", 1000)
    log = IdLog(str(path))
    log.append(b"+", b"stays")
    log.append(b"!", b"early")
    for number in range(2000):
        log.append(b"+", b"%d" % number)
        log.append(b"-", b"%d" % number)
        assert path.stat().st_size < 1100
    log.close()
    assert (dict(restored(path).waiting), dict(restored(path).answered)) == ({b"stays": 1}, {b"early": 1})


def test_files_are_private_and_replaced_as_a_whole(path: Path) -> None:
    replace_file(str(path), b"one")
    replace_file(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["ids"]
    path.unlink()
    path.symlink_to("elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        open_private(str(path), 0)


def test_writing_at_an_offset(path: Path) -> None:
    with path.open("w+b") as file:
        write_all(file.fileno(), b"abcdef")
        write_all(file.fileno(), b"XY", 2)
    assert path.read_bytes() == b"abXYef"
