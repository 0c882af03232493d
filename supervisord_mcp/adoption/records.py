"""What is kept of the files that were adopted: how each was before and after, so that it can be given back.

Below the state directory, for the person alone: a file of a host may hold secrets, and its backup does then too. A
file that is adopted again, because something new came into it, has several records; they are undone newest first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from supervisord_mcp.config.files import locked, read_file, replace_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts.entry import Scope

#: Keys from the top of a file to the entry.
Keys = tuple[str | int, ...]


class Replaced(msgspec.Struct, frozen=True):
    """One entry that names a server of ours since then; ``again`` if it did before, by a program that was gone."""

    path: Keys
    server: str
    again: bool = False


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One adoption of one file. ``backup`` and ``written`` are the files that hold how it was before and after.

    ``left`` are the entries that were left alone.
    """

    host: str
    file: str
    scope: Scope
    project: str | None
    since: str
    backup: str
    written: str
    replaced: tuple[Replaced, ...]
    left: tuple[Keys, ...] = ()

    @property
    def path(self) -> Path:
        """The file of the host."""
        return Path(self.file)


class _Kept(msgspec.Struct, frozen=True):
    adopted: tuple[Record, ...] = ()
    imported: dict[str, str] = {}


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a person. Every method reads and writes the file anew. They raise `SmcpError`."""

    directory: Path
    lock: Path

    @classmethod
    def of(cls, paths: Paths) -> Records:
        """Return the records of a person."""
        return cls(paths.adoption_dir, paths.adoption_dir / "lock")

    def adopted(self) -> tuple[Record, ...]:
        """Return what was adopted and not given back, the oldest first."""
        return self._read().adopted

    def imported(self) -> Mapping[str, str]:
        """Return the servers by the fingerprint of the entry that they were made of."""
        return self._read().imported

    def note_imported(self, servers: Mapping[str, str]) -> None:
        """Note further servers by their fingerprints."""
        if servers:
            with locked(self.lock):
                kept = self._read()
                self._write(_Kept(kept.adopted, {**kept.imported, **servers}))

    def note_made(self, fingerprint: str, name: str) -> Mapping[str, str]:
        """Note a server that is about to be made; return the notes that went, for what had that name before."""
        with locked(self.lock):
            kept = self._read()
            gone = {other: known for other, known in kept.imported.items() if known == name or other == fingerprint}
            others = {other: known for other, known in kept.imported.items() if other not in gone}
            self._write(_Kept(kept.adopted, {**others, fingerprint: name}))
        return gone

    def forget_made(self, fingerprint: str, gone: Mapping[str, str]) -> None:
        """Drop the note of a server that was not made, and bring back those that went for it."""
        with locked(self.lock):
            kept = self._read()
            others = {other: name for other, name in kept.imported.items() if other != fingerprint}
            self._write(_Kept(kept.adopted, {**gone, **others}))

    def note_adopted(self, record: Record, before: bytes, after: bytes) -> None:
        """Keep how a file was and will be; called before it is changed."""
        with locked(self.lock):
            kept = self._read()
            self._sweep(kept)
            try:
                # In this order, so that a backup that was never noted has the other file beside it.
                for name, content in ((record.written, after), (record.backup, before)):
                    self._put(self.directory / name, content)
                self._write(_Kept((*kept.adopted, record), kept.imported))
            except BaseException:
                # Nothing would ever remove what no record names, and there may be secrets in it.
                self._remove(record.backup, record.written)
                raise

    def forget(self, records: Sequence[Record], *, backups: bool = True) -> None:
        """Drop records, with their ``backups`` unless these are all that is left of a file."""
        with locked(self.lock):
            kept = self._read()
            self._write(_Kept(tuple(one for one in kept.adopted if one not in records), kept.imported))
            for record in records:
                self._remove(*((record.backup,) if backups else ()), record.written)
            self._sweep(self._read())

    def sweep(self) -> None:
        """Remove what a command left that was killed: backups, with the secrets in them, that no record names."""
        with locked(self.lock):
            self._sweep(self._read())

    def before(self, record: Record) -> bytes:
        """Return how a file was before it was adopted."""
        return self._content(record.backup)

    def after(self, record: Record) -> bytes:
        """Return how a file was written when it was adopted."""
        return self._content(record.written)

    def _content(self, name: str) -> bytes:
        try:
            return read_file(self.directory / name)
        except OSError as error:
            raise SmcpError(
                f"a backup cannot be read: {self.directory / name}: {error.strerror}",
                remedy="put the entries of the host back by hand",
            ) from error

    def _sweep(self, kept: _Kept) -> None:
        """Remove what a process left that was killed; called with the lock held.

        A backup that stays without a record, as its file is gone, has nothing beside it.
        """
        noted = {record.written for record in kept.adopted}
        for file in self.directory.glob("*.after"):
            if file.name not in noted:
                self._remove(file.with_suffix(".before").name, file.name)
        for file in self.directory.glob(".*.tmp"):
            self._remove(file.name)

    def _remove(self, *names: str) -> None:
        for name in names:
            with suppress(OSError):
                (self.directory / name).unlink()

    @property
    def _file(self) -> Path:
        return self.directory / "records.json"

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(read_file(self._file), type=_Kept)
        except FileNotFoundError:
            return _Kept()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SmcpError(
                f"cannot read what was adopted: {self._file}: {error}",
                remedy=f"the files as they were are beside it, in {self.directory}",
            ) from error

    def _write(self, kept: _Kept) -> None:
        try:
            content = msgspec.json.format(msgspec.json.encode(kept), indent=1)
        except UnicodeEncodeError:
            raise SmcpError(
                "cannot keep how a file was whose path is not UTF-8; nothing was changed",
                remedy="change the entry by hand: its command becomes smcp connect NAME",
            ) from None
        self._put(self._file, content)

    def _put(self, file: Path, content: bytes) -> None:
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(file, content)
        except OSError as error:
            raise SmcpError(
                f"cannot keep how the files of hosts were: {file}: {error}; nothing was changed",
                remedy="check its permissions and the disk",
            ) from error


def backup_names(directory: Path, host: str, file: Path) -> tuple[str, str]:
    """Return names for how a file was before and after, with the time; no other record has them."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    base = f"{stamp}-{host}-{re.sub(r'[^A-Za-z0-9._-]+', '-', file.name).lstrip('.-') or 'file'}"
    name, number = base, 1
    while os.path.lexists(directory / f"{name}.before"):
        number += 1
        name = f"{base}-{number}"
    return f"{name}.before", f"{name}.after"


def now() -> str:
    """Return the time as it is noted."""
    return datetime.now(UTC).isoformat(timespec="seconds")
