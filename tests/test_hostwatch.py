"""What hosts do to adopted files is told once, however they save, and nothing is told that did not change (case 37)."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp import reloader
from supervisord_mcp.adoption.records import Records
from supervisord_mcp.hostwatch import HostWatch
from supervisord_mcp.observer import Event, Observers
from tests.adoption.machine import TIME, Machine
from tests.kit.bounded import bounded

LIMIT = 30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    for name, value in made.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(reloader, "SETTLE", 0.05)
    return made


class Listener:
    """What was told."""

    def __init__(self, watch: HostWatch, observers: Observers) -> None:
        self.watch = watch
        self.events: list[Event] = []
        self._changed = anyio.Event()
        observers.add(self._take)

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._changed.set()
        self._changed = anyio.Event()

    async def told(self, count: int) -> list[tuple[str, str]]:
        """Return names and changes, once there are so many."""
        while len(self.events) < count:
            await self._changed.wait()
        return [(event.data["name"], event.data["change"].rpartition(".json ")[2]) for event in self.events]

    async def watches(self, directory: Path) -> None:
        """Return once a directory is watched."""
        while directory not in self.watch._reloader._watched:
            await anyio.sleep(0.01)


@asynccontextmanager
async def watching(machine: Machine, wanted: Callable[[], bool] = lambda: True) -> AsyncIterator[Listener]:
    observers = Observers()
    watch = HostWatch(machine.paths, observers, wanted)
    listener = Listener(watch, observers)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch.run)
        yield listener
        tasks.cancel_scope.cancel()


def with_new(file: Path, name: str = "new") -> bytes:
    """Return the content of a file with one server more."""
    data: dict[str, Any] = json.loads(file.read_text())
    data["mcpServers"][name] = {"command": "new-mcp"}
    return json.dumps(data, indent=2).encode()


def in_place(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def renamed_over(file: Path, content: bytes) -> None:
    other = file.with_suffix(".tmp")
    other.write_bytes(content)
    other.replace(file)


def moved_away(file: Path, content: bytes) -> None:
    file.rename(file.with_suffix(".bak"))
    file.write_bytes(content)


@pytest.mark.parametrize("save", [in_place, renamed_over, moved_away])
@bounded(LIMIT)
async def test_a_new_server_is_told_once_however_the_host_saves(
    tmp_path: Path, machine: Machine, save: Callable[[Path, bytes], None]
) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    async with watching(machine) as listener:
        await listener.watches(file.parent)
        save(file, with_new(file))
        assert await listener.told(1) == [("new", "is new and runs beside smcp")]
        assert listener.watch.remarks == (f"new in {file} is new and runs beside smcp: smcp adopt cursor",)
        for _ in range(20):
            os.utime(file)
        save(file, file.read_bytes())
        save(file, with_new(file, "other"))
        # Neither the same content nor what was told before.
        assert [name for name, _ in await listener.told(2)] == ["new", "other"]
        machine.adopt()
        save(file, with_new(file, "third"))
        assert [name for name, _ in await listener.told(3)] == ["new", "other", "third"]


@bounded(LIMIT)
async def test_a_file_behind_a_link(tmp_path: Path, machine: Machine) -> None:
    real = machine.write("dotfiles/mcp.json", {"time": TIME})
    link = machine.home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    machine.adopt()
    async with watching(machine) as listener:
        await listener.watches(real.parent)
        renamed_over(real, with_new(real))
        assert [name for name, _ in await listener.told(1)] == ["new"]


@bounded(LIMIT)
async def test_a_broken_file_is_told_and_so_is_what_comes_after_it(tmp_path: Path, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    good = file.read_bytes()
    async with watching(machine) as listener:
        await listener.watches(file.parent)
        file.write_bytes(good[: len(good) // 2])
        assert await listener.told(1) == [("", "cannot be read")]
        file.write_bytes(good)
        while listener.watch.remarks:
            await anyio.sleep(0.01)
        file.write_text(json.dumps({"mcpServers": {"time": TIME}}))
        assert (await listener.told(2))[1] == ("time", "runs beside smcp again")
        assert listener.events[1].server == "time"


@bounded(LIMIT)
async def test_what_is_adopted_from_now_on_is_watched_too(tmp_path: Path, machine: Machine) -> None:
    Records.of(machine.paths).directory.mkdir(parents=True)
    async with watching(machine) as listener:
        await listener.watches(machine.paths.adoption_dir)
        file = machine.cursor(time=TIME)
        machine.adopt()
        await listener.watches(file.parent)
        in_place(file, with_new(file))
        assert [name for name, _ in await listener.told(1)] == ["new"]


@bounded(LIMIT)
async def test_nothing_is_watched_unless_it_is_wanted(tmp_path: Path, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    in_place(file, with_new(file))
    wanted = False
    async with watching(machine, lambda: wanted) as listener:
        with anyio.move_on_after(0.3):
            await listener.told(1)
        assert listener.events == []
        assert listener.watch._reloader._watched == frozenset()
        wanted = True
        listener.watch.wake()
        assert [name for name, _ in await listener.told(1)] == ["new"]


@bounded(LIMIT)
async def test_records_that_cannot_be_read_end_nothing(
    tmp_path: Path, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    records = machine.paths.adoption_dir / "records.json"
    good = records.read_bytes()
    records.write_text("{")
    async with watching(machine) as listener:
        while "cannot read what was adopted" not in caplog.text:
            await anyio.sleep(0.01)
        records.write_bytes(good)
        in_place(file, with_new(file))
        listener.watch.wake()
        assert [name for name, _ in await listener.told(1)] == ["new"]


def removed_and_made_anew(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def linked_elsewhere(file: Path, content: bytes) -> None:
    """Save as a volume of Kubernetes does: the directory of the version is a link that is swapped."""
    version = file.parent / f"..{len(list(file.parent.iterdir()))}"
    version.mkdir()
    (version / file.name).write_bytes(content)
    (file.parent / "..new").symlink_to(version.name)
    (file.parent / "..new").replace(file.parent / "..data")
    link = file.with_suffix(".link")
    link.symlink_to(f"..data/{file.name}")
    link.replace(file)


@pytest.mark.parametrize("save", [in_place, removed_and_made_anew, linked_elsewhere])
@bounded(LIMIT)
async def test_what_means_the_same_is_seen_and_not_told(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, bytes], None]
) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    data = json.loads(file.read_text())
    (entry,) = data["mcpServers"].values()
    turned = {"theme": "dark", "mcpServers": {"time": dict(reversed(entry.items()))}}
    seen: list[bytes] = []
    find = HostWatch._found

    def found(watch: HostWatch) -> Any:
        content = file.read_bytes()
        drift = find(watch)
        seen.append(content)
        return drift

    monkeypatch.setattr(HostWatch, "_found", found)
    same = (
        json.dumps(turned, indent=4).encode(),
        f"\ufeff// mine\r\n{json.dumps(data, indent=1)}".encode(),
        json.dumps(data)[:-1].encode() + b",}",
    )
    async with watching(machine) as listener:
        await listener.watches(file.parent)
        for content in same:
            save(file, content)
            while seen[-1:] != [content]:
                await anyio.sleep(0.01)
        assert listener.events == []
        data["mcpServers"]["new"] = {"command": "new-mcp"}
        save(file, json.dumps(data).encode())
        assert await listener.told(1) == [("new", "is new and runs beside smcp")]
