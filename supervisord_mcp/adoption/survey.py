"""What hosts have, which of it runs through smcp, what they have twice, and what changed since it was adopted."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from supervisord_mcp.adoption.importing import Rules
from supervisord_mcp.adoption.records import Record
from supervisord_mcp.adoption.shims import gone_program, through
from supervisord_mcp.adoption.specs import fingerprint
from supervisord_mcp.adoption.tokens import has_token, secret_words, secrets_in
from supervisord_mcp.config.source import KeyPath, written
from supervisord_mcp.hosts.entry import HostEntry, literal
from supervisord_mcp.hosts.files import Change as FileChange
from supervisord_mcp.hosts.files import Reading, preview, read_content


class Way(StrEnum):
    """How a host reaches a server."""

    THROUGH = "through smcp"
    DIRECT = "direct"
    URL = "by its address"


class Change(StrEnum):
    """What happened to an entry since its file was adopted."""

    DIRECT = "runs beside smcp again"
    EDITED = "was changed"
    BROKEN = "names a smcp that is not there any more"
    UNKNOWN = "names a server that smcp does not have any more"
    NEW = "is new and runs beside smcp"
    GONE = "is gone"
    UNREADABLE = "cannot be read"


@dataclass(frozen=True, slots=True)
class Drift:
    """One entry of an adopted file that is not as it was written; without a name it is the whole file."""

    host: str
    file: Path
    name: str
    change: Change
    server: str = ""
    project: str | None = None

    @property
    def text(self) -> str:
        """What happened, in words."""
        return f"{self.name or 'the file'} in {self.file} {self.change.value}"

    @property
    def remedy(self) -> str:
        """What to do about it; empty where that may well be meant."""
        match self.change:
            case Change.DIRECT | Change.NEW | Change.BROKEN:
                # Of files of projects only those of one project are looked at.
                where = "" if self.project is None else f" --project {shlex.quote(self.project)}"
                return f"smcp adopt {self.host}{where}"
            case Change.UNKNOWN:
                return f"smcp release {self.host}, or bring '{self.server}' back: smcp add"
            case Change.UNREADABLE:
                return "correct it in the host, or with an editor"
            case Change.EDITED | Change.GONE:
                return ""


def way(entry: HostEntry) -> tuple[Way, str]:
    """Return how a host reaches an entry, and the server of ours behind it where that is known."""
    if not entry.stdio:
        return Way.URL, ""
    found = through(entry.words)
    return (Way.DIRECT, "") if found is None else (Way.THROUGH, found.server)


def tokens(entry: HostEntry) -> list[str]:
    """Return where in an entry secrets stand in the open. What the host itself asks for, or keeps, does not."""
    kept = {part.field for part in entry.unresolved}
    plain = {name: value for name, text in entry.env.items() if (value := literal(text)) is not None}
    found = [f"env.{name}" for name in secrets_in(plain) if f"env.{name}" not in kept or has_token(plain[name])]
    found += [f"args[{number - 1}]" for number in secret_words(entry.words) if number]
    if entry.url is not None and has_token(entry.url):
        found.append("url")
    return found


def shown_change(change: FileChange, secrets: Iterable[str] = ()) -> str:
    """Return how a file changes, for a person, without ``secrets`` and without those in commands."""
    found = set(secrets)
    for content in (change.before, change.after):
        for entry in read_content(change.file, content).entries:
            found.update(entry.words[number] for number in secret_words(entry.words))
    return preview(change, found)


def duplicates(entries: Iterable[HostEntry], rules: Rules) -> list[tuple[HostEntry, ...]]:
    """Return the groups of direct entries, of more than one file, that start the same."""
    groups: dict[str, list[HostEntry]] = {}
    for entry in entries:
        if way(entry)[0] is Way.DIRECT and not entry.unresolved:
            groups.setdefault(fingerprint(entry, rules.at(entry)), []).append(entry)
    return [tuple(group) for group in groups.values() if len({entry.file for entry in group}) > 1]


def drift(
    records: Sequence[Record], readings: Mapping[Path, Reading], servers: Collection[str] | None = None
) -> list[Drift]:
    """Given the records and their files as they are now, return what is not as it was left.

    A file that is not in ``readings`` is gone, and with it all that could differ. ``servers`` are those that smcp has,
    if that is known.
    """
    found: list[Drift] = []
    seen: dict[Path, dict[KeyPath, str]] = {}
    left: dict[Path, set[KeyPath]] = {}
    for record in records:
        # What a later adoption wrote counts.
        seen.setdefault(record.path, {}).update({one.path: one.server for one in record.replaced})
        left.setdefault(record.path, set()).update(record.left)
    hosts = {record.path: (record.host, record.project) for record in records}
    for path, ours in seen.items():
        if (reading := readings.get(path)) is None:
            continue
        host, project = hosts[path]
        if reading.problems and not reading.entries:
            found.append(Drift(host, path, "", Change.UNREADABLE, project=project))
            continue
        now = {entry.path: entry for entry in reading.entries}
        for keys, server in ours.items():
            if (change := _change(now.get(keys), server, servers)) is not None:
                found.append(Drift(host, path, str(keys[-1]), change, server, project))
        found += (
            Drift(host, path, entry.name, Change.NEW, project=project)
            for keys, entry in now.items()
            if keys not in ours and keys not in left[path] and way(entry)[0] is Way.DIRECT and not entry.disabled
        )
    return found


def _change(entry: HostEntry | None, server: str, servers: Collection[str] | None) -> Change | None:
    if entry is None:
        return Change.GONE
    if not entry.stdio:
        return Change.EDITED
    argv = entry.words
    found = through(argv)
    if found is None:
        return Change.DIRECT
    if found.server != server:
        return Change.EDITED
    if servers is not None and server not in servers:
        return Change.UNKNOWN
    return Change.BROKEN if gone_program(argv) else None


def place_of(entry: HostEntry) -> str:
    """Return the file, line and key of an entry."""
    return f"{entry.file}:{entry.line}: {written(entry.path)}"
