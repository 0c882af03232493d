"""What is kept of adopted files: for the person alone, under names with the time, and dropped when it is not needed."""

from __future__ import annotations

import stat
from functools import partial
from pathlib import Path

import msgspec
import pytest

from supervisord_mcp.adoption.records import Record, Records, Replaced, backup_names
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts.entry import Scope
from tests.kit.required import as_person


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path / "hosts", tmp_path / "hosts" / "lock")


def record(records: Records, host: str = "cursor") -> Record:
    backup, written = backup_names(records.directory, host, Path("/h/.cursor/mcp.json"))
    return Record(
        host=host,
        file="/h/.cursor/mcp.json",
        scope=Scope.USER,
        project=None,
        since="2026-11-30T00:00:00+00:00",
        backup=backup,
        written=written,
        replaced=(Replaced(("mcpServers", "a"), "a"), Replaced(("servers", 0), "b")),
    )


def test_what_is_noted_is_found_again(records: Records) -> None:
    assert (records.adopted(), records.imported()) == ((), {})
    one = record(records)
    records.note_adopted(one, b"before", b"after")
    records.note_imported({"f": "a"})
    records.note_imported({})
    records.note_imported({"g": "b"})
    assert records.adopted() == (one,)
    assert records.imported() == {"f": "a", "g": "b"}
    assert (records.before(one), records.after(one)) == (b"before", b"after")
    assert one.path == Path("/h/.cursor/mcp.json")


def test_backups_have_the_time_in_their_names_and_never_the_same(records: Records) -> None:
    one = record(records)
    assert one.backup.endswith("Z-cursor-mcp.json.before")
    assert one.backup.removesuffix(".before") == one.written.removesuffix(".after")
    records.note_adopted(one, b"1", b"2")
    other = record(records)
    records.note_adopted(other, b"3", b"4")
    assert records.before(one) == b"1"
    assert records.before(other) == b"3"


def test_what_is_kept_is_for_the_person_alone(records: Records) -> None:
    records.note_adopted(record(records), b"a secret", b"")
    for path in (records.directory, *records.directory.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_a_record_goes_with_its_files_or_leaves_the_backup(records: Records) -> None:
    one, other = record(records), record(records, "codex")
    records.note_adopted(one, b"1", b"2")
    records.note_adopted(other, b"3", b"4")
    records.forget([one])
    assert records.adopted() == (other,)
    records.forget([other], backups=False)
    assert records.adopted() == ()
    assert {path.name for path in records.directory.iterdir()} == {other.backup, "records.json", "lock"}


def test_what_cannot_be_read_is_told_and_kept(records: Records) -> None:
    one = record(records)
    records.note_adopted(one, b"1", b"2")
    (records.directory / one.backup).unlink()
    with pytest.raises(SmcpError, match="a backup cannot be read"):
        records.before(one)
    file = records.directory / "records.json"
    file.write_text("{")
    for action in (records.adopted, lambda: records.note_imported({"f": "a"})):
        with pytest.raises(SmcpError, match="cannot read what was adopted"):
            action()
    assert file.read_text() == "{"


@as_person
def test_where_nothing_can_be_kept_nothing_is_changed(records: Records) -> None:
    records.note_imported({"f": "a"})
    records.directory.chmod(0o500)
    with pytest.raises(SmcpError, match="nothing was changed"):
        records.note_adopted(record(records), b"1", b"2")
    records.directory.chmod(0o700)
    assert records.adopted() == ()


def test_a_name_stands_for_the_server_that_was_made_last(records: Records) -> None:
    records.note_imported({"f": "a", "g": "b"})
    gone = records.note_made("h", "a")
    assert records.imported() == {"g": "b", "h": "a"}
    # Another process was first: the name stands for what that one made.
    records.forget_made("h", gone)
    assert records.imported() == {"f": "a", "g": "b"}
    records.forget_made("f", records.note_made("f", "a"))
    assert records.imported() == {"f": "a", "g": "b"}


def test_a_backup_without_a_record_does_not_stay(records: Records) -> None:
    one = record(records)
    (records.directory / one.written).mkdir(parents=True)
    with pytest.raises(SmcpError, match="nothing was changed"):
        records.note_adopted(one, b"a secret", b"")
    assert not (records.directory / one.backup).exists()


def test_what_a_killed_process_left_goes_with_the_next_one(records: Records) -> None:
    kept, gone, killed = record(records), record(records, "zed"), record(records, "kiro")
    records.note_adopted(kept, b"1", b"2")
    records.note_adopted(gone, b"3", b"4")
    records.forget([gone], backups=False)
    records.note_adopted(killed, b"a secret", b"")
    file = records.directory / "records.json"
    noted = file.read_bytes()
    next_one = partial(records.note_adopted, record(records, "amp"), b"5", b"6")
    for action in (next_one, partial(records.forget, [])):
        (records.directory / killed.written).write_bytes(b"")
        (records.directory / killed.backup).write_bytes(b"a secret")
        (records.directory / ".records.json.x1.tmp").write_bytes(noted)
        file.write_bytes(msgspec.json.encode({"adopted": [kept]}))
        action()
        left = {one.name for one in records.directory.iterdir()}
        assert {kept.backup, kept.written, gone.backup} <= left
        assert left.isdisjoint({killed.backup, killed.written, ".records.json.x1.tmp"})
