"""What was used survives the daemon, and a file that is none costs only itself."""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from pathlib import Path

import anyio
import msgspec
import pytest

from supervisord_mcp.metrics import archive
from supervisord_mcp.metrics.archive import Archive
from supervisord_mcp.metrics.counts import Counts
from supervisord_mcp.metrics.ring import History, Point
from supervisord_mcp.metrics.sampler import Sampler
from tests.kit.bounded import bounded

NOW = 1_700_000_000.0


def sampler() -> Sampler:
    return Sampler(list, Counts(time.time), time.time)


def filled() -> Sampler:
    """Return a sampler that looked at two servers."""
    made = sampler()
    for name, count in (("s", 900), ("t", 3)):
        history = made.histories[name] = History()
        for number in range(count):
            at = NOW - 5.0 * (count - number)
            history.add(
                Point(at, 5.0, 0.25, 1 << 20, 1 << 21, 2, 3, 4, 5 << 10, 6 << 10, 7 << 10, 8 << 10, int(number == 1))
            )
        made.added += 1
    return made


def kept(one: Sampler) -> dict[str, list[tuple[float, list[Point]]]]:
    return {
        name: [history.since(NOW - back, NOW) for back in (3000, 80_000)] for name, history in one.histories.items()
    }


@bounded(20)
async def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "state" / "history.bin"
    one, other = filled(), sampler()
    first = Archive(file, sampler(), lambda: NOW)
    first._sampler = one
    first.write()
    assert file.stat().st_size < 20_000
    second = Archive(file, other, lambda: NOW)
    second.read()
    assert kept(other) == kept(one)
    assert kept(other)["t"][0][1][1].starts == 1
    for made in (one, other):
        made.histories["s"].add(Point(NOW + 1, 5.0, 0.5, 1 << 22))
    assert kept(other) == kept(one), "and it goes on as if nothing had been"
    before = file.stat().st_ino
    second.write()
    assert file.stat().st_ino == before, "nothing was looked at, so nothing is written"


def packed(**servers: object) -> bytes:
    return zlib.compress(msgspec.msgpack.encode({"form": archive._FORM, "servers": servers}))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        zlib.compress(b"x"),
        packed(s=[[b""] * 13] * 2)[:-3],
        packed(s=[[b""] * 13] * 3),
        packed(s=[[b""] * 12] * 2),
        packed(s=[[b"1" * 8, *[b""] * 12]] * 2),
        packed(s=[[b"1" * 7, *[b""] * 12]] * 2),
        packed(s=[[b"1" * 8 * 800, *(b"1" * size * 800 for size in (4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 4, 2))]] * 2),
        packed(s=[[b"1" * 16, *(b"1" * size * 2 for size in (4, 4, 4, 4, 2, 2, 4, 4, 4, 4, 4, 2))]] * 2),
        zlib.compress(msgspec.msgpack.encode({"form": "0", "servers": {}})),
        b"x" * (33 << 20),
    ],
    ids=range(12),
)
@bounded(20)
async def test_a_file_that_is_none_begins_anew(
    tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "history.bin"
    file.write_bytes(content)
    empty = sampler()
    with caplog.at_level(logging.WARNING):
        Archive(file, empty, lambda: NOW).read()
    assert empty.histories == {}
    assert str(file) in caplog.text


@bounded(20)
async def test_no_file_is_no_fault_and_neither_is_an_empty_ring(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, one = tmp_path / "none", sampler()
    Archive(file, one, lambda: NOW).read()
    file.write_bytes(packed(s=[[b""] * 13] * 2))
    Archive(file, one, lambda: NOW).read()
    assert one.histories["s"].since(0.0, NOW)[1] == []
    assert caplog.records == []


@bounded(20)
async def test_what_is_of_the_future_is_left_out(tmp_path: Path) -> None:
    file, one = tmp_path / "history.bin", filled()
    first = Archive(file, sampler(), lambda: NOW)
    first._sampler = one
    first.write()
    later = sampler()
    Archive(file, later, lambda: NOW - 3600).read()
    assert later.histories == {}


@bounded(20)
async def test_it_is_written_from_time_to_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archive, "EVERY", 0.01)
    place = tmp_path / "place"
    place.write_text("a file where a directory should be")
    one = sampler()
    writing = Archive(place / "history.bin", one, lambda: NOW)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(writing.run)
        for _ in range(2):
            one.added += 1
            while writing._written != one.added:
                await asyncio.sleep(0.01)
        while not caplog.records:
            await asyncio.sleep(0.01)
        place.unlink()
        one.added += 1
        while not (place / "history.bin").exists():
            await asyncio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert len(caplog.records) == 1, "what cannot be written is told once"
