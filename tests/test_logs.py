"""Logs on real files: rotation, files that others move, disks that are full, stderr that never ends a line."""

from __future__ import annotations

import os
import re
import resource
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisord_mcp import logs, rotated
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.loglines import parse, printable
from supervisord_mcp.logs import MAX_LINE, TAIL_LENGTH, TAIL_LINES, ServerLog, StderrSink, TaggedLog
from supervisord_mcp.protocol.news import LogLine
from tests.kit.probe import LeakGuard
from tests.kit.required import as_root, need

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServerLog]:
    with LeakGuard():
        one = ServerLog(tmp_path / "logs" / "one.log", max_size=1000, keep=3)
        yield one
        one.close()


@pytest.fixture
def _attentive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line looks whether the file is still there, and tries one that failed again."""
    monkeypatch.setattr(rotated, "CHECK_EVERY", 0.0)


def texts(lines: list[str]) -> list[str]:
    """Return lines without their time."""
    assert all(STAMP.match(line) for line in lines), lines
    return [STAMP.sub("", line, count=1) for line in lines]


def written(log: ServerLog) -> list[str]:
    return texts(log.path.read_text().splitlines())


# The file


def test_lines_have_a_time_and_a_speaker(log: ServerLog) -> None:
    log.write("smcp", "STOPPED -> STARTING")
    log.write("stderr", "two\nlines")
    log.write("stderr", "")
    assert written(log) == ["smcp STOPPED -> STARTING", "stderr two", "stderr lines", "stderr "]
    assert (log.trouble, log.lost) == ("", 0)


def test_nothing_that_others_say_begins_a_line_of_ours(log: ServerLog) -> None:
    log.write("smcp", "file not shown that it would read: /x\nRUNNING -> FATAL")
    assert written(log) == ["smcp file not shown that it would read: /x", "smcp   RUNNING -> FATAL"]


def test_what_is_said_at_length_is_cut(log: ServerLog) -> None:
    log.write("message", "x" * (MAX_LINE + 1))
    assert written(log) == ["message " + "x" * MAX_LINE + f" … (cut, {MAX_LINE + 1} characters)"]


def test_lines_of_one_of_several_instances_say_which(log: ServerLog) -> None:
    TaggedLog(log, "/src/a\x1b\nb").write("smcp", "STOPPED -> STARTING")
    StderrSink(TaggedLog(log, session=3)).feed(b"one\ntwo\n")
    TaggedLog(log, "/src/a b").write("message", "hello", session=4)
    assert written(log) == [
        "smcp[/src/a\ufffd\ufffdb] STOPPED -> STARTING",
        "stderr[session-3] one",
        "stderr[session-3] two",
        "message[/src/a b session-4] hello",
    ]


def test_the_file_is_for_its_user_alone(log: ServerLog) -> None:
    log.write("smcp", "x")
    assert stat.S_IMODE(log.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700


def test_a_log_goes_on_where_the_daemon_before_ended(log: ServerLog) -> None:
    log.write("smcp", "before")
    log.close()
    again = ServerLog(log.path, max_size=1000, keep=3)
    again.write("smcp", "after")
    again.close()
    assert written(log) == ["smcp before", "smcp after"]


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_files_are_rotated_by_size_and_only_so_many_are_kept(keep: int, tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "one.log", max_size=400, keep=keep)
    for number in range(100):
        log.write("stderr", f"line {number}")
    log.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["one.log", *(f"one.log.{number}" for number in range(1, keep))]
    assert all(file.stat().st_size <= 400 for file in files)
    kept = [line for file in (log.path, *files[1:]) for line in reversed(file.read_text().splitlines())]
    assert texts(kept) == [f"stderr line {number}" for number in range(99, 99 - len(kept), -1)]


def test_many_lines_at_once_are_rotated_as_well(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "one.log", max_size=400, keep=3)
    log.write("stderr", "\n".join(f"line {number}" for number in range(1000)))
    log.close()
    assert all(file.stat().st_size <= 400 for file in tmp_path.iterdir())
    kept = texts(log.last(100))
    assert kept == [f"stderr line {number}" for number in range(1000 - len(kept), 1000)]


def test_a_line_longer_than_a_file_is_written_all_the_same(log: ServerLog) -> None:
    log.write("stderr", "x" * 5000)
    log.write("stderr", "y")
    assert written(log) == ["stderr y"]
    assert texts(log.last(2)) == ["stderr " + "x" * 5000, "stderr y"]


def test_other_limits_hold_from_the_next_line_on(log: ServerLog) -> None:
    log.write("stderr", "x" * 900)
    log.limit(max_size=10_000, keep=3)
    log.write("stderr", "y" * 900)
    assert [file.name for file in log.path.parent.iterdir()] == ["one.log"]


@pytest.mark.usefixtures("_attentive")
@pytest.mark.parametrize("how", ["deleted", "moved", "directory deleted"])
def test_a_file_that_somebody_took_away_is_made_anew(how: str, log: ServerLog) -> None:
    log.write("smcp", "before")
    if how == "moved":
        log.path.rename(log.path.with_name("kept"))
    else:
        log.path.unlink()
        if how == "directory deleted":
            log.path.parent.rmdir()
    log.write("smcp", "after")
    assert written(log) == ["smcp after"]
    assert (log.trouble, log.lost) == ("", 0)


@pytest.mark.usefixtures("_attentive")
def test_a_file_that_somebody_emptied_has_room_again(log: ServerLog) -> None:
    log.write("stderr", "x" * 900)
    os.truncate(log.path, 0)
    log.write("stderr", "y" * 900)
    assert [file.name for file in log.path.parent.iterdir()] == ["one.log"]
    assert written(log) == ["stderr " + "y" * 900]


def test_text_that_a_terminal_would_obey_is_defused(log: ServerLog) -> None:
    log.write("smcp", "noise: \x1b[2J\x07bell\ttab \u202egnp.exe \ud800")
    assert written(log) == ["smcp noise: \ufffd[2J\ufffdbell\ttab \ufffdgnp.exe \ufffd"]
    assert printable("plain – ü\t日本") == "plain – ü\t日本"


# Where it cannot be written


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A disk that has room for so much in one file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("_attentive")
def test_a_disk_without_room_costs_lines_and_leaves_no_half_of_one(log: ServerLog) -> None:
    log.write("stderr", "kept")
    with largest_file(log.path.stat().st_size + 40):
        for number in range(3):
            log.write("stderr", f"lost {number} {'x' * 100}\nlost too")
        assert str(log.path) in log.trouble
        assert "too large" in log.trouble
        assert log.lost == 6
        assert written(log) == ["stderr kept"]
    log.write("stderr", "goes on")
    assert written(log)[0] == "stderr kept"
    assert re.fullmatch(r"smcp 6 lines are missing here \(.*too large\)", written(log)[1])
    assert written(log)[2:] == ["stderr goes on"]
    assert (log.trouble, log.lost) == ("", 6)


def test_a_failed_file_is_not_tried_at_every_line(log: ServerLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotated, "CHECK_EVERY", 3600.0)
    log.write("stderr", "kept")
    with largest_file(10):
        log.write("stderr", "lost")
    for number in range(5):
        log.write("stderr", f"lost, although there is room again: {number}")
    assert log.lost == 6
    assert written(log) == ["stderr kept"]
    monkeypatch.setattr(rotated, "CHECK_EVERY", 0.0)
    log.write("stderr", "after")
    assert written(log)[-1] == "stderr after"


def test_a_full_device_is_named(tmp_path: Path) -> None:
    log = ServerLog(Path("/dev/full"), max_size=1000, keep=2)
    log.write("smcp", "x")
    assert log.trouble == "/dev/full: No space left on device"
    assert log.lost == 1


@as_root
@pytest.mark.usefixtures("_attentive")
def test_a_full_tmpfs_and_room_on_it_again(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], check=False).returncode
    need(mounted == 0, "leave to mount a file system")
    log = ServerLog(disk / "one.log", max_size=1 << 20, keep=2)
    try:
        for number in range(2000):
            log.write("stderr", f"{number} {'x' * 100}")
        assert "No space left" in log.trouble
        assert log.lost > 1000
        assert log.path.read_bytes().endswith(b"x\n")
        log.path.unlink()
        log.write("stderr", "after")
        assert written(log)[-1] == "stderr after"
        assert log.trouble == ""
    finally:
        log.close()
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.usefixtures("_attentive")
@pytest.mark.parametrize("what", ["directory", "link", "fifo", "parent is a file"])
def test_what_is_no_file_is_not_written_to(what: str, log: ServerLog, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    if what == "parent is a file":
        log.path.parent.write_text("in the way")
    else:
        log.path.parent.mkdir()
    match what:
        case "directory":
            log.path.mkdir()
        case "link":
            log.path.symlink_to(elsewhere)
        case "fifo":
            os.mkfifo(log.path)
    log.write("smcp", "x")
    assert log.trouble.startswith(str(log.path))
    assert log.lost == 1
    assert elsewhere.read_text() == "untouched"
    if what == "directory":
        log.path.rmdir()
        log.write("smcp", "y")
        assert written(log)[-1] == "smcp y"


@pytest.mark.usefixtures("_attentive")
def test_a_rotation_that_fails_costs_lines_until_it_works(log: ServerLog) -> None:
    older = log.path.with_name("one.log.1")
    log.limit(max_size=1000, keep=2)
    log.write("stderr", "x" * 900)
    older.mkdir()
    log.write("stderr", "y" * 900)
    assert log.lost == 1
    assert log.trouble
    older.rmdir()
    log.write("stderr", "z" * 900)
    assert older.exists()
    assert texts(log.last(1)) == ["stderr " + "z" * 900]


# Reading


def test_the_last_lines_come_from_as_many_files_as_needed(log: ServerLog) -> None:
    for number in range(60):
        log.write("stderr", f"line {number}")
    assert texts(log.last(3)) == ["stderr line 57", "stderr line 58", "stderr line 59"]
    every = texts(log.last(1000))
    assert every == [f"stderr line {number}" for number in range(60 - len(every), 60)]
    assert len(every) > len(log.path.read_text().splitlines())
    assert texts(log.last(len(every) - 1)) == every[1:]
    assert log.last(0) == []
    assert log.last(-1) == []


def test_a_long_file_is_read_from_its_end(log: ServerLog) -> None:
    log.limit(max_size=10 << 20, keep=3)
    log.write("stderr", "\n".join(f"line {number} {'x' * (number % 300)}" for number in range(5000)))
    assert len(log.last(4321)) == 4321
    assert texts(log.last(4321))[0].startswith("stderr line 679 ")
    assert len(log.last(10_000)) == 5000


def test_a_missing_file_hides_no_older_one(log: ServerLog) -> None:
    assert log.last(5) == []
    for number in range(60):
        log.write("stderr", f"line {number}")
    log.path.unlink()
    assert texts(log.last(100))


def test_who_follows_gets_every_line_also_where_the_file_does_not(tmp_path: Path) -> None:
    told: list[LogLine] = []
    log = ServerLog(tmp_path / "one.log", max_size=1000, keep=3, tell=told.extend)
    log.write("stderr", "one\ntwo")
    with largest_file(10):
        log.write("smcp", "three", instance="/src", session=3)
    log.close()
    assert texts([line.line for line in told]) == ["stderr one", "stderr two", "smcp[/src session-3] three"]
    assert [(one.server, one.source, one.instance, one.session, one.text) for one in told[1:]] == [
        ("one", "stderr", "", 0, "two"),
        ("one", "smcp", "/src", 3, "three"),
    ]


# What is not written line by line


class Clock:
    """A clock that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        monkeypatch.setattr(logs, "_now", lambda: self.now)
        monkeypatch.setattr(logs, "_clock", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_line_that_comes_again_is_counted_and_both_times_are_kept(log: ServerLog, clock: Clock) -> None:
    log.write("stderr", "boom\nboom")
    for _ in range(3):
        clock.now += 1
        log.write("stderr", "boom")
    clock.now += 1
    log.write("stderr", "other")
    assert log.path.read_text().splitlines() == [
        "1970-01-12T13:46:40.000Z stderr boom",
        "1970-01-12T13:46:43.000Z smcp last line repeated 4 times since 1970-01-12T13:46:40.000Z",
        "1970-01-12T13:46:44.000Z stderr other",
    ]
    found = list(parse(log.last(9), "one"))
    assert [(one.time - 1_000_000, one.source, one.text, one.repeated) for one in found] == [
        (0.0, "stderr", "boom", 0),
        (3.0, "stderr", "boom", 4),
        (4.0, "stderr", "other", 0),
    ]
    assert found[1].since == 1_000_000


def test_a_line_that_comes_twice_is_written_twice_with_its_times(log: ServerLog, clock: Clock) -> None:
    tagged = TaggedLog(log, "/src", 3)
    tagged.write("stderr", "boom")
    clock.now += 1
    tagged.write("stderr", "boom")
    clock.now += 1
    log.write("stderr", "boom")
    assert log.last(9) == [
        "1970-01-12T13:46:40.000Z stderr[/src session-3] boom",
        "1970-01-12T13:46:41.000Z stderr[/src session-3] boom",
        "1970-01-12T13:46:42.000Z stderr boom",
    ]


def test_what_is_counted_is_written_when_somebody_looks_and_counted_on(log: ServerLog, clock: Clock) -> None:
    for _ in range(3):
        log.write("stderr", "boom")
    assert len(written(log)) == 1
    assert log.mark().size == log.path.stat().st_size > 100
    assert log.mark().inode == log.path.stat().st_ino
    for _ in range(3):
        clock.now += 1
        log.write("stderr", "boom")
    assert texts(log.last(9))[-1] == "smcp last line repeated 3 times since 1970-01-12T13:46:41.000Z"
    log.settle()
    assert len(written(log)) == 3


def test_of_a_server_that_writes_too_much_some_lines_are_left_out(log: ServerLog, clock: Clock) -> None:
    log.limit(max_size=10 << 20, keep=3, rate=10)
    for number in range(150):
        log.write("stderr", f"line {number}")
    log.write("smcp", "is always heard")
    clock.now += 0.5
    log.write("stderr", "there is too little room yet")
    clock.now += 0.5
    log.write("message", "there is room again")
    assert written(log) == [f"stderr line {number}" for number in range(100)] + [
        "smcp 50 lines are left out here: more than 10 a second (log.rate)",
        "smcp is always heard",
        "smcp 1 lines are left out here: more than 10 a second (log.rate)",
        "message there is room again",
    ]


def test_another_rate_holds_at_once(log: ServerLog, clock: Clock) -> None:
    log.limit(max_size=10 << 20, keep=3, rate=10)
    for number in range(150):
        log.write("stderr", f"line {number}")
    log.limit(max_size=10 << 20, keep=3, rate=None)
    for number in range(5000):
        log.write("stderr", f"more {number}")
    assert len(written(log)) == 100 + 1 + 5000


# stderr


@pytest.fixture
def sink(log: ServerLog) -> StderrSink:
    log.limit(max_size=10 << 20, keep=3)
    return StderrSink(log)


def lines(log: ServerLog) -> list[str]:
    """Return what went into the log from stderr."""
    return [line.removeprefix("stderr ") for line in written(log)] if log.path.exists() else []


def test_chunks_become_lines_wherever_they_are_cut(log: ServerLog, sink: StderrSink) -> None:
    data = "one\ntwo\r\n\nthree ü\r\nlast".encode()
    for byte in data:
        sink.feed(bytes([byte]))
    sink.finish()
    sink.finish()
    assert lines(log) == ["one", "two", "", "three ü", "last"]
    sink.feed(data)
    sink.finish()
    assert lines(log) == ["one", "two", "", "three ü", "last"] * 2


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_of_a_progress_bar_the_last_state_is_kept(size: int, log: ServerLog, sink: StderrSink) -> None:
    data = b"start\n" + b"".join(b"\r%d %%" % number for number in range(101)) + b"\r\n" + b"50 %\r60 %\r"
    for at in range(0, len(data), size):
        sink.feed(data[at : at + size])
        assert len(sink._partial) < 10
    assert sink.tail == "start\n100 %\n60 %"
    sink.finish()
    assert lines(log) == ["start", "100 %", "60 %"]


def test_endless_progress_grows_nothing(log: ServerLog, sink: StderrSink) -> None:
    for _ in range(100):
        sink.feed(b"e" * 99 + b"\r" + b"f" * 99 + b"\r")
    assert len(sink._partial) <= 200
    sink.finish()
    assert lines(log) == ["f" * 99]


def test_a_line_without_an_end_is_cut(log: ServerLog, sink: StderrSink) -> None:
    sink.feed(b"x" * 100_000)
    sink.feed(b"y" * (MAX_LINE - 1))
    sink.feed(b"\n")
    assert lines(log) == ["x" * MAX_LINE + " … (cut, 100000 bytes)", "y" * (MAX_LINE - 1)]
    assert len(sink.tail) <= TAIL_LENGTH


def test_only_the_last_lines_are_told(sink: StderrSink) -> None:
    assert sink.tail == ""
    for number in range(100):
        sink.feed(b"%d\n" % number)
    assert sink.tail.split("\n") == [str(number) for number in range(100 - TAIL_LINES, 100)]
    sink.feed(b"not finished")
    assert sink.tail.endswith("99\nnot finished")


def test_what_is_no_text_is_shown_as_such(log: ServerLog, sink: StderrSink) -> None:
    sink.feed(b"\xff\x00\x1b[31mred \xe6\x97\xa5\n")
    assert lines(log) == ["\ufffd\ufffd\ufffd[31mred 日"]


def test_no_line_has_a_secret(log: ServerLog, sink: StderrSink) -> None:
    masker.learn("s3cret-value-of-a-server", "vault:mine")
    log.write("smcp", "it said s3cret-value-of-a-server")
    for chunk in (b"token s3cret-val", b"ue-of-a-server\nand s3cret-", b"value", b"-of-a-server"):
        sink.feed(chunk)
    assert "s3cret" not in sink.tail
    sink.finish()
    assert texts(log.last(9)) == ["smcp it said ***", "stderr token ***", "stderr and ***"]
    assert sink.tail == "token ***\nand ***"


def test_a_secret_across_the_place_where_a_line_is_cut(log: ServerLog, sink: StderrSink) -> None:
    masker.learn("s3cret-value-of-a-server", "vault:mine")
    sink.feed(b"x" * (MAX_LINE - 10) + b"s3cret-value-of-a-server" + b"y" * 50 + b"\n")
    sink.finish()
    assert "s3cret" not in "".join(log.last(9))
