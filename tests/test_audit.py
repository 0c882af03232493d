"""Every call of a tool is recorded, with no value of a secret; a disk that is full or hangs is felt by no host."""

from __future__ import annotations

import asyncio
import hashlib
import json
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp import audit as module
from supervisord_mcp import rotated
from supervisord_mcp.audit import BULKY, DEEPEST, LONGEST, LONGEST_NAME, Audit, _Batch, arguments_of, line_of
from supervisord_mcp.config.daemon import Audit as Settings
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.protocol.calls import Call, Caller
from tests.kit.bounded import bounded
from tests.kit.estate import estate

LIMIT = 30
SECRET = "s3cret-value-of-a-call"


def request(arguments: str = '{"path": "/a"}', identity: str = "7") -> bytes:
    params = f'{{"name": "read", "arguments": {arguments}}}'
    return f'{{"jsonrpc": "2.0", "id": {identity}, "method": "tools/call", "params": {params}}}\n'.encode()


def call(line: bytes = b"", *, method: str = "tools/call", session: int = 3, identity: bytes = b"7") -> Call:
    now = time.monotonic()
    one = Call(session, identity, method, b'"read"', asked=len(line), request=line, told=9)
    one.began, one.ended, one.caller = now - 0.25, now, Caller("s", "s-1", "editor")
    return one


class World:
    """An audit, and where it writes."""

    def __init__(self, directory: Path) -> None:
        self.observers = Observers()
        self.path = directory / "audit" / "audit.jsonl"
        self.audit = Audit(self.path, self.observers)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    async def until(self, wanted: Callable[[], object]) -> None:
        while not wanted():
            await asyncio.sleep(0.005)


@asynccontextmanager
async def recording(directory: Path, **settings: Any) -> AsyncIterator[World]:
    world = World(directory)
    world.audit.configure(Settings(enabled=True, **settings))
    try:
        yield world
    finally:
        world.audit.close()


# One record


@pytest.mark.parametrize("masked", [False, True])
def test_a_record_says_who_what_how_and_how_long(masked: bool) -> None:
    line = line_of(call(request()), 77, time.time() - time.monotonic(), masked)
    assert line.count(b"\n") == 1
    record = json.loads(line)
    assert record.pop("time") < record.get("time", "9")
    wanted = {
        "host": "editor",
        "pid": 77,
        "session": 3,
        "server": "s",
        "instance": "s-1",
        "tool": "read",
        "outcome": "ok",
        "duration": 0.25,
        "digest": hashlib.sha256(b'{"path": "/a"}').hexdigest(),
    }
    assert record == (wanted | {"arguments": {"path": "/a"}} if masked else wanted)


def test_a_record_has_no_secret_in_it() -> None:
    masker.learn(SECRET, "vault:mine")
    one = call(request(json.dumps({"token": SECRET, "more": [SECRET * 2]})))
    one.caller, one.tool = Caller("s", "s-1", f"editor {SECRET}"), json.dumps(f"read {SECRET}").encode()
    line = line_of(one, 77, 0.0, masked=True)
    assert SECRET.encode() not in line
    record = json.loads(line)
    assert record["arguments"] == {"token": "***", "more": ["******"]}
    assert (record["host"], record["tool"]) == ("editor ***", "read ***")


@pytest.mark.parametrize("openssl", [True, False])
@pytest.mark.parametrize("length", [BULKY - 1, BULKY, BULKY + 1])
def test_bulky_arguments_have_the_same_digest(length: int, openssl: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not openssl:
        monkeypatch.setitem(sys.modules, "_hashlib", None)
    arguments = f'"{"x" * (length - 2)}"'
    record = json.loads(line_of(call(request(arguments)), None, 0.0, masked=True))
    assert record["digest"] == hashlib.sha256(arguments.encode()).hexdigest()


def test_bulky_arguments_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []

    def openssl(data: bytes) -> Any:
        used.append(len(data))
        return hashlib.sha256(data)

    monkeypatch.setattr("_hashlib.openssl_sha256", openssl)
    for length in (BULKY - 1, BULKY):
        line_of(call(request(f'"{"x" * (length - 2)}"')), None, 0.0, masked=True)
    assert used == [BULKY]


def test_long_arguments_are_left_out_and_have_a_digest() -> None:
    record = json.loads(line_of(call(request(json.dumps({"a": "x" * LONGEST}))), None, 0.0, masked=True))
    assert "arguments" not in record
    assert len(record["digest"]) == 64


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [
        ("[" * DEEPEST + "]" * DEEPEST, True),
        ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), False),
        ('{"a": ' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1), False),
        (json.dumps(["[" * 500, '\\"[[[' * 100]), True),
        (json.dumps([[], {}] * 200), True),
    ],
)
def test_arguments_are_recorded_up_to_a_depth(arguments: str, recorded: bool) -> None:
    record = json.loads(line_of(call(request(arguments)), 1, 0.0, True))
    assert record["digest"] == hashlib.sha256(arguments.encode()).hexdigest()
    assert ("arguments" in record) is recorded


def test_the_name_of_a_tool_is_recorded_up_to_a_length() -> None:
    masker.learn(SECRET, "vault:x")
    try:
        named = call(request())
        named.tool = json.dumps("n" * (LONGEST_NAME - 5) + SECRET + "n" * 1_000_000).encode()
        line = line_of(named, 1, 0.0, True)
    finally:
        masker.clear()
    assert json.loads(line)["tool"] == "n" * (LONGEST_NAME - 5) + "***nn"


@bounded(LIMIT)
async def test_what_is_written_while_calls_are_taken_is_not_forgotten(tmp_path: Path) -> None:
    async with recording(tmp_path) as world:
        audit = world.audit

        class Long(bytes):
            def __len__(self) -> int:
                # The thread writes what waits while the loop adds up what it takes.
                audit._write(_Batch([(call(b"x" * 50), 1)], False))
                return super().__len__()

        taken, before = call(Long(b"y" * 70)), audit._bytes_written
        audit._take([taken])
        assert audit._bytes_written - before == 50, "it was written meanwhile"
        assert audit._bytes_taken == 70


@pytest.mark.parametrize("arguments", ["[" * 600 + f'"{SECRET}"' + "]" * 600, f'["{SECRET}", 1e400]'])
def test_arguments_that_cannot_be_masked_are_left_out(arguments: str) -> None:
    masker.learn(SECRET, "vault:mine")
    line = line_of(call(request(arguments)), None, 0.0, masked=True)
    assert SECRET.encode() not in line
    record = json.loads(line)
    assert "digest" in record
    assert "arguments" not in record


@pytest.mark.parametrize(
    ("line", "identity", "wanted"),
    [
        (request(), b"7", b'{"path": "/a"}'),
        (request('{"big": 1e400, "twice": 1, "twice": 2}'), b"7", b'{"big": 1e400, "twice": 1, "twice": 2}'),
        (b"[" + request("[1]", "1").strip() + b", " + request("[2]", '"1"').strip() + b"]", b'"1"', b"[2]"),
        (b"[" + request("[1]", "1").strip() + b"]", b"2", b""),
        (b'{"id": 7, "method": "tools/call"}', b"7", b""),
        (b'{"id": 7, "params": {"name": "read"}}', b"7", b""),
        (b"", b"7", b""),
        (b"no json", b"7", b""),
        (b'{"params": 5}', b"7", b""),
    ],
)
def test_arguments_are_found_in_what_a_host_said(line: bytes, identity: bytes, wanted: bytes) -> None:
    assert arguments_of(line, identity) == wanted


@pytest.mark.parametrize("name", [b"", b"7", b"\xff", b"no json"])
def test_a_name_that_is_none_is_empty(name: bytes) -> None:
    one = call()
    one.tool = name
    assert json.loads(line_of(one, None, 0.0, masked=False))["tool"] == ""


# While it goes on


@bounded(LIMIT)
async def test_calls_are_recorded_while_that_is_wanted(tmp_path: Path) -> None:
    async with recording(tmp_path) as world:
        assert world.observers.keep_requests
        world.observers.publish(Event("session-opened", "s", {"session": 3, "pid": 77}))
        for method in ("tools/call", "resources/read", "tools/call"):
            world.observers.calls.tell(call(request(), method=method))
        world.observers.publish(Event("session-closed", "s", {"session": 3}))
        world.observers.calls.tell(call(request()))
        await world.until(lambda: len(world.records()) == 3)
        assert [record["pid"] for record in world.records()] == [77, 77, None]
        assert stat.S_IMODE(world.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(world.path.parent.stat().st_mode) == 0o700
        world.audit.configure(Settings(enabled=True, arguments="masked"))
        world.observers.calls.tell(call(request()))
        await world.until(lambda: len(world.records()) == 4)
        assert world.records()[3]["arguments"] == {"path": "/a"}


@bounded(LIMIT)
async def test_nothing_is_kept_or_done_while_it_is_not_wanted(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.audit.configure(Settings())
    for _ in range(2):
        assert (world.observers.keep_requests, world.observers.calls.watched) == (False, False)
        world.observers.calls.tell(call(request()))
        world.audit.close()
        assert not world.path.exists()
        world.audit.configure(Settings(enabled=True))
        world.audit.configure(Settings())


@bounded(LIMIT)
async def test_the_end_writes_what_was_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOON", 3600.0)
    async with recording(tmp_path) as world:
        for _ in range(100):
            world.observers.calls.tell(call(request()))
        assert world.records() == []
        world.audit.close()
        assert len(world.records()) == 100
        world.audit.close()


@bounded(LIMIT)
async def test_files_are_rotated(tmp_path: Path) -> None:
    async with recording(tmp_path, max_size=1024, keep=2) as world:
        for _ in range(30):
            world.observers.calls.tell(call(request()))
        world.audit.close()
    assert sorted(path.name for path in world.path.parent.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    assert all(path.stat().st_size <= 1024 for path in world.path.parent.iterdir())


@bounded(LIMIT)
async def test_a_full_disk_is_reported_once_and_costs_only_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotated, "CHECK_EVERY", 0.0)
    monkeypatch.setattr(module, "SOON", 0.0)
    (tmp_path / "audit").write_text("in the way")
    async with recording(tmp_path) as world:
        for number in range(1, 4):
            world.observers.calls.tell(call(request()))
            await world.until(lambda: world.audit._written == number)  # noqa: B023 - it is waited for in this round
        await world.until(lambda: world.observers.recent)
        [event] = world.observers.recent
        assert (event.kind, event.data["file"]) == ("logging", str(world.path))
        assert world.audit.trouble == f"{event.data['trouble']} (3 records lost)"
        (tmp_path / "audit").unlink()
        world.observers.calls.tell(call(request()))
        await world.until(lambda: len(world.observers.recent) == 2)
        assert world.observers.recent[-1].data == {"file": str(world.path), "trouble": "", "lost": 3}
        assert world.audit.trouble == ""
        missing, record = world.records()
        assert (missing["missing"], record["tool"]) == (3, "read")
        assert world.observers.dropped == {}


@pytest.mark.parametrize("what", ["calls", "bytes"])
@bounded(LIMIT)
async def test_a_disk_that_hangs_ends_the_audit_and_nothing_else(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SOON", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 0.01)
    monkeypatch.setattr(module, "MOST_CALLS" if what == "calls" else "MOST_BYTES", 5)
    go_on, hangs = threading.Event(), threading.Event()
    async with recording(tmp_path) as world:

        def hang(_lines: object) -> None:
            hangs.set()
            go_on.wait(LIMIT)

        monkeypatch.setattr(world.audit._file, "append", hang)
        told: list[Call] = []
        world.observers.calls.add(told.append)
        count = 0
        while world.observers.dropped == {}:
            world.observers.calls.tell(call(request()))
            count += 1
            await asyncio.sleep(0)
        assert count <= 8
        assert len(told) == count, "others are told as before"
        cause = world.observers.dropped["audit"]
        assert str(world.path) in cause
        assert world.observers.recent[-1].data == {"observer": "audit", "cause": cause}
        assert not world.observers.keep_requests
        go_on.set()
        await world.until(lambda: world.audit._written == world.audit._taken)
        before = world.audit._written
        world.observers.calls.tell(call(request()))
        world.audit.configure(Settings(enabled=True))
        assert (world.observers.keep_requests, world.observers.dropped) == (True, {})
        world.observers.calls.tell(call(request()))
        await world.until(lambda: world.audit._written == before + 1)


@bounded(LIMIT)
async def test_a_writer_that_fails_is_let_go_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SOON", 0.0)
    async with recording(tmp_path) as world:

        def fail(*_parts: object) -> bytes:
            raise ValueError("a fault of ours")

        monkeypatch.setattr(module, "line_of", fail)
        while world.observers.dropped == {}:
            world.observers.calls.tell(call(request()))
            await asyncio.sleep(0.005)
        assert world.observers.dropped == {"audit": "a fault of ours"}


@bounded(LIMIT)
async def test_calls_of_hosts_and_commands_are_recorded_with_their_processes(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        audit = Audit(one.home / "audit.jsonl", one.observers)
        audit.configure(Settings(enabled=True, arguments="masked"))
        guest = await one.greeted("s")
        await guest.call("echo", value="hello")
        await one.command().ask("call", name="s", tool="echo", arguments={"value": "there"})
        for instance in one.instances("s"):
            instance.traffic.tell()
        audit.close()
        first, second = [json.loads(line) for line in (one.home / "audit.jsonl").read_text().splitlines()]
        assert (first["tool"], first["arguments"], first["outcome"]) == ("echo", {"value": "hello"}, "ok")
        assert (second["host"], second["arguments"]) == ("smcp", {"value": "there"})
        opened = {event.data["session"]: event.data["pid"] for event in one.events("session-opened")}
        assert [first["pid"], second["pid"]] == [opened[first["session"]], opened[second["session"]]]
