"""The pipes of real children, those that jam them too."""

from __future__ import annotations

import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.conduit import Bounds, Conduit, Fittings
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.runtimes.base import ExitStatus
from supervisord_mcp.runtimes.child import ProcessChild
from supervisord_mcp.runtimes.process import Program, spawn
from tests.kit.bounded import bounded

LIMIT = 20
FOREVER = "sleep 1000"
#: More than any pipe takes.
MUCH = 3 << 20


class Line:
    """A conduit to a child that runs a shell script, and what came through it."""

    def __init__(self, directory: Path, *argv: str, grace: float = 0.2, write_timeout: float = 30.0) -> None:
        self.log = ServerLog(directory / "one.log", max_size=1 << 20, keep=1)
        self.child = ProcessChild(spawn(Program(argv, {"PATH": "/usr/bin:/bin"})), f"t-{uuid.uuid4()}")
        self.lines: list[bytes | Oversized] = []
        self.drained = 0
        self.changed = anyio.Event()
        fittings = Fittings(self.take, self.drain)
        self.conduit = Conduit(self.child, self.log, fittings, Bounds(100_000, grace, write_timeout))

    def take(self, line: bytes | Oversized) -> None:
        self.lines.append(line)
        self.tell()

    def drain(self) -> None:
        self.drained += 1
        self.tell()

    def tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def heard(self, count: int = 1) -> list[bytes | Oversized]:
        while len(self.lines) < count:
            await self.changed.wait()
        return self.lines

    async def ended(self) -> ExitStatus:
        status = await self.child.wait()
        await self.conduit.aclose()
        return status

    def logged(self) -> list[str]:
        return [line.split(" ", 2)[2] for line in self.log.last(100)]


@asynccontextmanager
async def child(directory: Path, script: str, grace: float = 0.2, write_timeout: float = 30.0) -> AsyncIterator[Line]:
    """A child that runs a script of the shell."""
    one = Line(directory, "/bin/sh", "-c", script, grace=grace, write_timeout=write_timeout)
    try:
        yield one
    finally:
        one.child.kill()
        await one.ended()
        one.log.close()


@bounded(LIMIT)
async def test_lines_go_both_ways_and_stderr_into_the_log(tmp_path: Path) -> None:
    async with child(tmp_path, 'while read -r line; do echo "got $line"; echo "saw $line" >&2; done') as one:
        one.conduit.write(b"one\n")
        one.conduit.write(b"two\n")
        assert await one.heard(2) == [b"got one", b"got two"]
        one.conduit.close_stdin()
        assert await one.ended() == ExitStatus(code=0)
        assert one.logged() == ["saw one", "saw two"]
        assert one.conduit.tail == "saw one\nsaw two"
        assert one.conduit.trouble == ""


@bounded(LIMIT)
async def test_the_last_words_of_a_child_are_heard(tmp_path: Path) -> None:
    async with child(tmp_path, "echo one; printf two; printf three >&2") as one:
        assert await one.ended() == ExitStatus(code=0)
        assert one.lines == [b"one", b"two"]
        assert one.logged() == ["three"]


@bounded(LIMIT)
async def test_a_line_that_is_too_long_costs_only_itself(tmp_path: Path) -> None:
    async with child(tmp_path, "head -c 200000 /dev/zero; echo; echo next") as one:
        long, following = await one.heard(2)
        assert isinstance(long, Oversized)
        assert long.length == 200_000
        assert following == b"next"


@bounded(LIMIT)
async def test_what_does_not_fit_waits_and_the_end_of_waiting_is_told(tmp_path: Path) -> None:
    async with child(tmp_path, "read -r go; wc -c") as one:
        one.conduit.write(b"x" * 500_000)
        assert one.conduit.queued > 0
        one.conduit.write(b"\n" + b"y" * 300_000)
        while not one.drained:
            await one.changed.wait()
        assert one.conduit.queued == 0
        one.conduit.close_stdin()
        assert await one.heard() == [b"300000"]


@bounded(LIMIT)
async def test_a_child_that_does_not_read_is_ended(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER, write_timeout=0.2) as one:
        one.conduit.write(b"x" * MUCH)
        assert await one.ended() == ExitStatus(signal=9)
        assert one.conduit.trouble == "not reading: it took nothing from its stdin for 0.2 s"


@bounded(LIMIT)
async def test_a_child_that_reads_slowly_is_left_alone(tmp_path: Path) -> None:
    slow = "import os,time\nwhile os.read(0, 200_000): time.sleep(0.08)"
    one = Line(tmp_path, sys.executable, "-I", "-S", "-c", slow, write_timeout=0.5)
    one.conduit.write(b"x" * MUCH)
    while not one.drained:
        await one.changed.wait()
    one.conduit.close_stdin()
    assert await one.ended() == ExitStatus(code=0)
    assert one.conduit.trouble == ""


@bounded(LIMIT)
async def test_a_child_that_closes_its_stdin_is_ended_after_a_while(tmp_path: Path) -> None:
    async with child(tmp_path, f"exec 0<&-; echo closed; {FOREVER}") as one:
        await one.heard()
        one.conduit.write(b"for nobody\n")
        one.conduit.write(b"nor this\n")
        assert await one.ended() == ExitStatus(signal=9)
        assert one.conduit.trouble == "it closed its stdin (Broken pipe)"


@bounded(LIMIT)
async def test_a_child_that_closes_its_stdout_is_ended_after_a_while(tmp_path: Path) -> None:
    async with child(tmp_path, f"exec 1>&-; {FOREVER}") as one:
        assert await one.ended() == ExitStatus(signal=9)
        assert one.conduit.trouble == "it closed its stdout"


@bounded(LIMIT)
async def test_a_child_that_closes_its_stdout_may_end_by_itself(tmp_path: Path) -> None:
    async with child(tmp_path, "exec 1>&-; read -r line; exit 7", grace=1000) as one:
        with pytest.raises(TimeoutError), anyio.fail_after(0.2):
            await one.child.wait()
        one.conduit.write(b"end\n")
        assert await one.ended() == ExitStatus(code=7)
        assert one.conduit.trouble == ""


@bounded(LIMIT)
async def test_the_end_of_input_comes_after_what_fits(tmp_path: Path) -> None:
    async with child(tmp_path, "cat") as one:
        one.conduit.write(b"last\n")
        one.conduit.close_stdin()
        one.conduit.close_stdin()
        one.conduit.write(b"too late\n")
        assert await one.ended() == ExitStatus(code=0)
        assert one.lines == [b"last"]


@bounded(LIMIT)
async def test_who_does_not_read_is_not_blamed_for_it_after_the_end_of_input(tmp_path: Path) -> None:
    async with child(tmp_path, "sleep 0.3", write_timeout=0.05) as one:
        one.conduit.write(b"x" * MUCH)
        one.conduit.close_stdin()
        assert await one.ended() == ExitStatus(code=0)
        assert one.conduit.trouble == ""


@bounded(LIMIT)
async def test_the_first_trouble_is_the_cause(tmp_path: Path) -> None:
    async with child(tmp_path, FOREVER) as one:
        one.conduit.kill("it speaks nonsense")
        one.conduit.kill("something else")
        assert await one.ended() == ExitStatus(signal=9)
        assert one.conduit.trouble == "it speaks nonsense"


@bounded(LIMIT)
async def test_much_stderr_holds_nobody_up(tmp_path: Path) -> None:
    async with child(tmp_path, "head -c 3000000 /dev/zero >&2; echo done") as one:
        assert await one.heard() == [b"done"]


@bounded(LIMIT)
async def test_whether_a_child_heard_what_it_was_told(tmp_path: Path) -> None:
    async with child(tmp_path, "read -r line; exit 3") as one:
        one.conduit.write(b"a word\n")
        assert await one.ended() == ExitStatus(code=3)
        assert one.conduit.heard
    async with child(tmp_path, "echo here; exec 3<&0; kill -STOP $$; exit 3") as one:
        await one.heard()
        one.conduit.write(b"a word\n")
        one.child.kill()
        await one.ended()
        assert not one.conduit.heard
    async with child(tmp_path, "echo here; kill -STOP $$") as one:
        await one.heard()
        one.conduit.write(b"x" * MUCH)
        one.child.kill()
        await one.ended()
        assert not one.conduit.heard
    async with child(tmp_path, "exit 3") as one:
        one.conduit.close_stdin()
        await one.ended()
        assert one.conduit.heard
