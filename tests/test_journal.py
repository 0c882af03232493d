"""What survives the daemon: at every step of every call, a copy of the files is what a death there would have left."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from supervisord_mcp import idlog, journal
from supervisord_mcp.journal import Journal, Recovered, discard, leftovers
from tests.kit import probe

TOKEN = "a token that nobody can guess"
LIMIT = 20.0
ROOM = 1 << 16


def request(identity: str, size: int = 0) -> bytes:
    """Return a request of a host, made longer by so many bytes."""
    return b'{"jsonrpc":"2.0","id":%b,"method":"m","params":"%b"}' % (identity.encode(), b"p" * size)


def note(size: int = 0) -> bytes:
    """Return a notification."""
    return b'{"jsonrpc":"2.0","method":"n","params":"%b"}' % (b"p" * size)


def identity_of(line: bytes) -> bytes | None:
    """Return the id of a request as it was written."""
    return line.partition(b'"id":')[2].partition(b',"method"')[0] or None


@dataclass(frozen=True)
class Truth:
    """What a session should know."""

    unanswered: frozenset[bytes] = frozenset()
    tail: bytes = b""
    skipping: bool = False
    mid_output: bool = False
    state: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, recovered: Recovered) -> Truth:
        """Return what a record says; a request that is taken up and whose line is still there is one request."""
        lines = frozenset(filter(None, map(identity_of, recovered.unprocessed)))
        pending = Counter(recovered.pending)
        assert max(pending.values(), default=1) == 1
        return cls(
            frozenset(pending) | lines,
            recovered.partial,
            recovered.skipping,
            recovered.mid_output,
            recovered.state,
        )


class Deaths:
    """Looks at the files between any two steps of the journal's code, and recovers a copy of them."""

    def __init__(self, directory: Path, copy: Path, *, opcodes: bool = False) -> None:
        self.directory, self.copy, self.opcodes = directory, copy, opcodes
        self.seen: dict[str, bytes] = {}
        self.found: list[Truth] = []
        self.files = {journal.__file__, idlog.__file__}

    @contextmanager
    def during(self, *allowed: Truth) -> Iterator[None]:
        """Check that each death in the block leaves one of these, and that the end leaves the last one."""
        self.found.clear()
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)
        self._look()
        for found in self.found:
            assert found in allowed
        assert self._recover() == allowed[-1]

    def _trace(self, frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        if frame.f_code.co_filename not in self.files:
            return None
        frame.f_trace_opcodes = self.opcodes
        self._look()
        return self._trace

    def _look(self) -> None:
        files = {path.name: path.read_bytes() for path in self.directory.iterdir()}
        if files != self.seen:
            self.seen = files
            self.found.append(self._recover())

    def _recover(self) -> Truth:
        before = sys.gettrace()
        sys.settrace(None)
        shutil.rmtree(self.copy, ignore_errors=True)
        self.copy.mkdir()
        for name, data in self.seen.items():
            (self.copy / name).write_bytes(data)
        other, recovered = Journal.recover(self.copy, TOKEN)
        other.close()
        sys.settrace(before)
        return Truth.of(recovered)


class Driver:
    """A session that does with a journal what the daemon's does, and knows what is true."""

    def __init__(self, base: Path, *, opcodes: bool = False) -> None:
        self.directory = base / "sessions"
        self.directory.mkdir(parents=True)
        self.deaths = Deaths(self.directory, base / "copy", opcodes=opcodes)
        self.journal = Journal.create(self.directory, TOKEN)
        self.deaths._look()
        self.truth = Truth()
        self.source, self.sink = os.pipe()
        os.set_blocking(self.source, False)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.remove()
        os.close(self.source)
        os.close(self.sink)
        assert list(self.directory.iterdir()) == []

    def step(self, call: Callable[[], Any], **changes: Any) -> None:
        """Do something that makes this different, and look at every death on the way."""
        after = replace(self.truth, **changes)
        with self.deaths.during(self.truth, after):
            call()
        self.truth = after

    def says(self, data: bytes, early: Callable[[bytes], bool]) -> None:
        """Let the host say something, and act upon the lines of it; ``early`` tells which are answered at once."""
        rest = memoryview(data)
        while rest:
            ahead = bytes(rest[: os.write(self.sink, rest[: 1 << 15])])
            rest = rest[len(ahead) :]
            while ahead:
                size = min(len(ahead), ROOM - self.journal._end)
                self.read(ahead[:size], early)
                ahead = ahead[size:]

    def read(self, ahead: bytes, early: Callable[[bytes], bool]) -> None:
        """Read once, which brings this, and act upon it."""
        *lines, tail = (self.truth.tail + ahead).split(b"\n")
        skipping = self.truth.skipping and not lines
        if self.truth.skipping and lines:
            del lines[0]
        ids = set(filter(None, map(identity_of, lines)))
        unanswered = self.truth.unanswered | ids
        self.step(lambda: self.journal.read(self.source), unanswered=unanswered, tail=tail, skipping=skipping)
        for line in lines:
            identity = identity_of(line)
            if identity is not None:
                if early(identity):
                    if len(identity) % 2:
                        self.step(lambda identity=identity: self.journal.add(identity))  # type: ignore[misc]
                    self.answer(identity)
                else:
                    self.step(lambda identity=identity: self.journal.add(identity))  # type: ignore[misc]
        kept = b"" if skipping else tail
        self.step(lambda: self.journal.settle(len(kept), skipping=skipping), tail=kept)

    def answer(self, identity: bytes) -> None:
        """Answer a request."""
        self.step(lambda: self.journal.done(identity), unanswered=self.truth.unanswered - {identity})

    def restart(self) -> None:
        """Be the next daemon."""
        self.journal.close()
        self.journal, recovered = Journal.recover(self.directory, TOKEN)
        assert Truth.of(recovered) == self.truth
        assert recovered.unprocessed == ()
        self.step(lambda: self.journal.settle(len(self.truth.tail), skipping=self.truth.skipping))


# One call after the other


def never(_: bytes) -> bool:
    return False


def always(_: bytes) -> bool:
    return True


def test_every_death_in_a_conversation(tmp_path: Path) -> None:
    with probe.LeakGuard(), Driver(tmp_path, opcodes=True) as driver:
        driver.says(request("1") + b"\n" + note() + b"\n" + request('"two"')[:30], never)
        driver.says(request('"two"')[30:] + b"\n", always)
        driver.says(request('"%s"' % ("long" * 20)) + b"\n", never)
        driver.says(request('"%s"' % ("early" * 20)) + b"\n", always)
        driver.step(lambda: driver.journal.record({"level": "debug"}), state={"level": "debug"})
        driver.restart()
        driver.answer(b"1")
        driver.answer(b'"%b"' % (b"long" * 20))
        driver.step(lambda: driver.journal.record({"level": "info"}), state={"level": "info"})
        driver.step(lambda: setattr(driver.journal, "mid_output", True), mid_output=True)
        driver.step(lambda: setattr(driver.journal, "mid_output", False), mid_output=False)
        assert driver.truth == Truth(state={"level": "info"})


def test_every_death_in_a_long_line(tmp_path: Path) -> None:
    with probe.LeakGuard(), Driver(tmp_path) as driver:
        line = request("7", 5 * ROOM)
        for start in range(0, len(line), 30_000):
            driver.says(line[start : start + 30_000], never)
        driver.restart()
        driver.says(b"\n" + request("8", 60_000) + b"\n" + note(10_000), never)
        driver.restart()
        driver.says(b"\n" + request("9") + b"\n", never)
        assert driver.truth.unanswered == {b"7", b"8", b"9"}


def test_the_rest_of_a_line_that_is_thrown_away(tmp_path: Path) -> None:
    with probe.LeakGuard(), Driver(tmp_path) as driver:
        driver.says(request("1", 50_000), never)
        driver.step(lambda: driver.journal.settle(0, skipping=True), tail=b"", skipping=True)
        driver.says(b"x" * 100_000, never)
        driver.restart()
        assert driver.truth.skipping
        driver.says(b'","id":2,"method":"x"}\n' + request("3") + b"\n" + request("4")[:10], never)
        assert driver.truth.unanswered == {b"3"}
        driver.restart()


@dataclass(frozen=True)
class Line:
    """One line of a host: a request with an id of this kind or a notification, so long, answered at once or not."""

    kind: str
    size: int
    early: bool

    def text(self, number: int) -> bytes:
        """Return the line as the one of this number."""
        match self.kind:
            case "note":
                return note(self.size)
            case "long":
                return request(f'"{"i" * 70}{number}"', self.size)
            case "text":
                return request(f'"{number}"', self.size)
            case _:
                return request(str(number), self.size)


lines = st.builds(
    Line,
    st.sampled_from(["note", "long", "text", "number"]),
    st.sampled_from([0, 0, 0, 1, 5_000, 20_000, 70_000]),
    st.booleans(),
)
actions = st.one_of(
    st.lists(lines, min_size=1, max_size=6),
    st.sampled_from(["answer", "restart", "record", "mid"]),
)


@settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    max_examples=min(settings().max_examples, 400),  # each one is hundreds of deaths
)
@given(st.lists(actions, max_size=6), st.randoms(use_true_random=False))
def test_every_death_in_any_session(tmp_path: Path, told: list[list[Line] | str], chance: random.Random) -> None:
    shutil.rmtree(tmp_path / "any", ignore_errors=True)
    number, unsent = 0, b""
    early: set[bytes] = set()
    with Driver(tmp_path / "any") as driver:
        for action in told:
            match action:
                case "answer":
                    if driver.truth.unanswered:
                        driver.answer(chance.choice(sorted(driver.truth.unanswered)))
                case "restart":
                    driver.restart()
                case "record":
                    number += 1
                    state = {"number": number}
                    driver.step(lambda state=state: driver.journal.record(state), state=state)  # type: ignore[misc]
                case "mid":
                    value = not driver.truth.mid_output
                    driver.step(lambda value=value: setattr(driver.journal, "mid_output", value), mid_output=value)  # type: ignore[misc]
                case list():
                    for line in action:
                        number += 1
                        text = line.text(number)
                        if line.early and (identity := identity_of(text)):
                            early.add(identity)
                        unsent += text + b"\n"
                    cut = chance.randrange(len(unsent) + 1)
                    driver.says(unsent[:cut], early.__contains__)
                    unsent = unsent[cut:]


def test_more_ids_than_there_are_slots(tmp_path: Path) -> None:
    base = Journal.create(tmp_path, TOKEN)
    ids = [b'"%d"' % number for number in range(1000)]
    for identity in ids:
        base.add(identity)
    for identity in ids[::2]:
        base.done(identity)
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert sorted(recovered.pending) == sorted(ids[1::2])
    for identity in ids[1::2]:
        base.done(identity)
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.pending == ()
    base.remove()


def test_an_id_that_is_used_twice_is_two_requests(tmp_path: Path) -> None:
    base = Journal.create(tmp_path, TOKEN)
    for _ in range(3):
        base.add(b"1")
    base.done(b"1")
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.pending == (b"1", b"1")
    base.done(b"1")
    base.done(b"1")
    base.done(b"1")
    base.done(b"never heard of")
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.pending == ()
    base.remove()


def test_bytes_that_are_zero_are_bytes(tmp_path: Path) -> None:
    source, sink = os.pipe()
    base = Journal.create(tmp_path, TOKEN)
    os.write(sink, b"\0{\0}\0\n" + request("1") + b"\n\0x\0\0")
    assert base.read(source).endswith(b"\0x\0\0")
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.unprocessed == (b"\0{\0}\0", request("1"))
    assert recovered.partial == b"\0x\0\0"
    base.remove()
    os.close(source)
    os.close(sink)


def test_a_line_that_was_answered_at_once_does_not_come_again(tmp_path: Path) -> None:
    source, sink = os.pipe()
    base = Journal.create(tmp_path, TOKEN)
    os.write(sink, b"\n".join([request("1"), note(), request("2"), b"nonsense", b""]))
    base.read(source)
    base.done(b"1")
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.unprocessed == (note(), request("2"), b"nonsense")
    base.add(b"2")
    base.done(b"2")
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert (recovered.pending, recovered.unprocessed) == ((), (note(), b"nonsense"))
    base.settle(0)
    os.write(sink, request("1") + b"\n")
    base.read(source)
    base.close()
    base, recovered = Journal.recover(tmp_path, TOKEN)
    assert recovered.unprocessed == (request("1"),), "an old mark does not hide a new line"
    base.remove()
    os.close(source)
    os.close(sink)


def test_what_cannot_be(tmp_path: Path) -> None:
    source, sink = os.pipe()
    base = Journal.create(tmp_path, TOKEN)
    with pytest.raises(ValueError, match="0 bytes are there, not 1"):
        base.settle(1)
    os.write(sink, b"x" * ROOM)
    base.read(source)
    with pytest.raises(ValueError, match="no room"):
        base.read(source)
    base.settle(ROOM)
    os.write(sink, b"x")
    assert base.read(source) == b"x"
    with pytest.raises(ValueError, match=f"{ROOM + 1} bytes are there, not {ROOM}"):
        base.settle(ROOM)
    os.close(sink)
    base.settle(ROOM + 1)
    assert base.read(source) == b""
    os.close(source)
    base.remove()
    base.remove()
    base.add(b"1")
    base.done(b"1")
    base.record({})
    base.mid_output = True
    assert not base.mid_output


# Files


def test_nobody_else_can_read_it_and_the_token_is_not_in_a_name(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        base = Journal.create(tmp_path, TOKEN)
        base.record({"a": 1})
        base.add(b"i" * 100)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"{base.name}.{kind}" for kind in ("ids", "json", "map")
    ]
    assert TOKEN not in base.name
    assert leftovers(tmp_path) == {base.name}
    base.close()
    discard(tmp_path, [base.name, "another"])
    assert leftovers(tmp_path) == frozenset()
    assert leftovers(tmp_path / "none") == frozenset()


def test_a_directory_that_was_tidied_away(tmp_path: Path) -> None:
    base = Journal.create(tmp_path / "gone", TOKEN)
    assert base.degraded is None
    assert stat.S_IMODE((tmp_path / "gone").stat().st_mode) == 0o700
    base.remove()


@pytest.mark.parametrize("deleted", ["directory", "map"])
def test_a_record_that_was_deleted_is_written_again(tmp_path: Path, deleted: str) -> None:
    directory = tmp_path / "sessions"
    long = b'"%b"' % (b"i" * 100)
    with probe.LeakGuard():
        journal = Journal.create(directory, TOKEN)
        journal.renew()
        journal.record({"level": "debug"})
        reading, writing = os.pipe()
        os.write(writing, request("7", 60_000))
        tail = 0
        while tail < 60_000:
            tail += len(journal.read(reading))
            journal.settle(tail)
        for identity in (b"1", long):
            journal.add(identity)
        journal.mid_output = True
        if deleted == "directory":
            shutil.rmtree(directory)
        else:
            next(directory.glob("*.map")).unlink()
        journal.renew()
        assert journal.degraded is None
        journal.add(b"2")
        journal.add(long + b"2")
        os.write(writing, b"more")
        assert journal.read(reading) == b"more"
        journal.settle(tail + 4)
        journal.close()
        again, recovered = Journal.recover(directory, TOKEN)
        assert sorted(recovered.pending) == sorted([b"1", b"2", long, long + b"2"])
        assert len(recovered.partial) == tail + 4
        assert recovered.partial.endswith(b"more")
        assert (recovered.mid_output, recovered.state) == (True, {"level": "debug"})
        shutil.rmtree(directory)
        again.settle(len(recovered.partial))
        again.renew()
        again.close()
        last, recovered = Journal.recover(directory, TOKEN)
        assert (len(recovered.pending), len(recovered.partial), recovered.state) == (4, tail + 4, {"level": "debug"})
        last.remove()
        last.renew()
        assert list(directory.iterdir()) == []
        os.close(reading)
        os.close(writing)


def test_a_record_that_cannot_be_written_again_is_degraded(tmp_path: Path) -> None:
    directory = tmp_path / "sessions"
    journal = Journal.create(directory, TOKEN)
    shutil.rmtree(directory)
    directory.write_text("in the way")
    journal.renew()
    assert journal.degraded is not None
    journal.record({"level": "debug"})
    for identity in (b"1", b"2", long := b'"%b"' % (b"i" * 100)):
        journal.add(identity)
    journal.done(b"1")
    directory.unlink()
    journal.renew()
    assert str(journal.degraded) == "None", "nothing was lost meanwhile"
    journal.close()
    again, recovered = Journal.recover(directory, TOKEN)
    assert (sorted(recovered.pending), recovered.state) == (sorted([b"2", long]), {"level": "debug"})
    again.close()


def test_what_cannot_be_recovered(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Journal.recover(tmp_path, TOKEN)
    base = Journal.create(tmp_path, TOKEN)
    path = tmp_path / f"{base.name}.map"
    base.close()
    good = path.read_bytes()
    for data, text in ((b"short", "size"), (b"X" + good[1:], "not whole"), (b"", "size")):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=text):
            Journal.recover(tmp_path, TOKEN)
    path.unlink()
    path.symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic links"):
        Journal.recover(tmp_path, TOKEN)
    discard(tmp_path, [base.name])


def test_a_part_that_is_gone(tmp_path: Path) -> None:
    source, sink = os.pipe()
    base = Journal.create(tmp_path, TOKEN)
    os.write(sink, b"x" * ROOM)
    base.read(source)
    base.settle(ROOM)
    base.close()
    part = tmp_path / f"{base.name}.part"
    assert part.stat().st_size == ROOM
    os.truncate(part, ROOM - 1)
    with pytest.raises(ValueError, match=f"{ROOM - 1} of {ROOM} bytes"):
        Journal.recover(tmp_path, TOKEN)
    part.unlink()
    with pytest.raises(ValueError, match="not whole"):
        Journal.recover(tmp_path, TOKEN)
    discard(tmp_path, [base.name])
    os.close(source)
    os.close(sink)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file may grow beyond this size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_costs_the_record_and_not_the_session(tmp_path: Path) -> None:
    source, sink = os.pipe()
    with full_disk(4096):
        base = Journal.create(tmp_path, TOKEN)
    assert "File too large" in str(base.degraded)
    assert list(tmp_path.iterdir()) == []
    os.write(sink, request("1") + b"\n")
    assert base.read(source) == request("1") + b"\n"
    base.add(b"1")
    base.settle(0)
    base.done(b"1")
    base.record({})
    base.remove()
    os.close(source)
    os.close(sink)


@pytest.mark.parametrize("what", ["part", "ids", "state"])
def test_a_disk_that_gets_full(tmp_path: Path, what: str) -> None:
    source, sink = os.pipe()
    base = Journal.create(tmp_path, TOKEN)
    with full_disk(10):
        match what:
            case "part":
                os.write(sink, b"x" * ROOM)
                base.read(source)
                base.settle(ROOM)
                os.write(sink, b"y\n")
                assert base.read(source) == b"y\n"
                base.settle(0)
            case "ids":
                base.add(b"i" * 100)
                base.done(b"i" * 100)
            case _:
                base.record({"key": "value" * 10})
    assert "File too large" in str(base.degraded)
    base.close()
    with pytest.raises(ValueError, match="not whole"):
        Journal.recover(tmp_path, TOKEN)
    discard(tmp_path, [base.name])
    assert list(tmp_path.iterdir()) == []
    os.close(source)
    os.close(sink)


# Real deaths

SESSION = """
import json, os, sys
from supervisord_mcp.journal import Journal
directory, token = sys.argv[1:]
try:
    journal, recovered = Journal.recover(directory, token)
except FileNotFoundError:
    journal, recovered = Journal.create(directory, token), None
waiting = []
def say(word, identity):
    os.write(1, b"%b %b\\n" % (word, identity))  # short, so whole or not at all
    journal.done(identity)
tail = b""
if recovered:
    lost = list(recovered.pending)
    for line in recovered.unprocessed:
        identity = str(json.loads(line)["id"]).encode()
        if identity not in lost:
            lost.append(identity)
    for identity in lost:
        say(b"lost", identity)
    tail = recovered.partial
    journal.settle(len(tail))
os.write(1, b"ready 0\\n")
while data := journal.read(0):
    *lines, tail = (tail + data).split(b"\\n")
    for line in lines:
        number = json.loads(line)["id"]
        identity = str(number).encode()
        if number % 3:
            journal.add(identity)
            waiting.append(identity)
        else:
            say(b"done", identity)
    journal.settle(len(tail))
    while len(waiting) > 20:
        say(b"done", waiting.pop(0))
for identity in waiting:
    say(b"done", identity)
os.write(1, b"end 0\\n")
"""


class Host:
    """Says lines of all lengths into a pipe until told to stop, and collects what comes back."""

    def __init__(self) -> None:
        self.theirs, self.sink = os.pipe()
        self.source, self.their_sink = os.pipe()
        self.sent = 0
        self.outcomes: dict[int, list[str]] = {}
        self.words: Counter[str] = Counter()
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=target, daemon=True) for target in (self._say, self._hear)]
        for thread in self.threads:
            thread.start()

    def _say(self) -> None:
        chance = random.Random(1)
        while not self.stop.is_set():
            size = chance.choice([0, 0, 0, 100, 3000, 80_000, 200_000])
            data = request(str(self.sent), size) + b"\n"
            self.sent += 1
            while data:
                cut = chance.choice([1, 100, 65536, 65536])
                data = data[os.write(self.sink, data[:cut]) :]
        os.close(self.sink)

    def _hear(self) -> None:
        rest = b""
        while data := os.read(self.source, 65536):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                word, number = line.decode().split(" ")
                self.words[word] += 1
                if word in ("lost", "done"):
                    self.outcomes.setdefault(int(number), []).append(word)

    def wait_for(self, word: str, count: int) -> None:
        """Return once a word was heard so often."""
        limit = time.monotonic() + LIMIT
        while self.words[word] < count:
            assert time.monotonic() < limit, self.words
            time.sleep(0.0005)


def test_sessions_that_are_killed_again_and_again(tmp_path: Path) -> None:
    kills, chance = 25, random.Random(2)
    with probe.LeakGuard():
        host = Host()
        for number in range(kills + 1):
            command = [sys.executable, "-c", SESSION, str(tmp_path), TOKEN]
            with subprocess.Popen(command, stdin=host.theirs, stdout=host.their_sink) as process:
                host.wait_for("ready", number + 1)
                if number < kills:
                    host.wait_for("done", host.words["done"] + chance.randrange(60))
                    process.send_signal(signal.SIGKILL)
                else:
                    host.stop.set()
                assert process.wait(LIMIT) == (-signal.SIGKILL if number < kills else 0)
        os.close(host.theirs)
        os.close(host.their_sink)
        for thread in host.threads:
            thread.join(LIMIT)
        os.close(host.source)
        assert host.outcomes.keys() == set(range(host.sent)), "every request came to an end"
        assert host.words["lost"] > kills / 2
        twice = {number: words for number, words in host.outcomes.items() if len(words) > 1}
        # Between the answer and its being noted there is no way to know: then an error follows, and nothing else.
        assert all(words == ["done", "lost"] for words in twice.values()), twice
        assert len(twice) <= kills
        discard(tmp_path, leftovers(tmp_path))


def test_the_state_is_json(tmp_path: Path) -> None:
    base = Journal.create(tmp_path, TOKEN)
    base.record({"project": None, "levels": ["a"]})
    assert json.loads((tmp_path / f"{base.name}.json").read_bytes()) == {"project": None, "levels": ["a"]}
    base.remove()
