"""Taking a change of a file back, also where the file was changed by others since."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from supervisord_mcp.config.source import KeyPath, written
from supervisord_mcp.errors import HostFileError
from supervisord_mcp.hosts.base import Dialect
from supervisord_mcp.hosts.edits import verify
from supervisord_mcp.hosts.entries import Found, find_entries
from supervisord_mcp.hosts.files import split_bom
from supervisord_mcp.hosts.syntax import (
    CannotEditError,
    Syntax,
    SyntaxFaultError,
    same,
    value_at,
    with_value,
    without_value,
)

#: More pairs of lines are not compared; the change is then taken back key by key.
_MOST_PAIRS = 4_000_000
#: The path of an entry, in a list with its name instead of its place.
Identity = KeyPath
#: Stands for a key that is not there.
_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Undo:
    """What was done to a file: its bytes before and after, and the paths of the entries that were changed."""

    dialect: Dialect
    before: bytes
    after: bytes
    paths: tuple[KeyPath, ...]

    @property
    def identities(self) -> frozenset[Identity]:
        """The entries that were changed, as they are known wherever they are moved in the file."""
        return frozenset(self._identity(path) for path in self.paths)

    def without(self, entries: Container[Identity]) -> Undo:
        """Return the change without some entries."""
        return replace(self, paths=tuple(path for path in self.paths if self._identity(path) not in entries))

    def _identity(self, path: KeyPath) -> Identity:
        if self.dialect.name is None:
            return path
        try:
            entry = value_at(self.dialect.syntax.load(split_bom(self.before)[1]), path)
        except (KeyError, SyntaxFaultError, UnicodeDecodeError):
            return path
        return (*path[:-1], entry[self.dialect.name])


class _ConflictError(ValueError):
    """Somebody else changed what we changed; ``path`` is inside of the entry."""

    def __init__(self, path: KeyPath) -> None:
        super().__init__(written(path))
        self.path = path


def undo(record: Undo, now: bytes) -> bytes:
    """Given a change and what the file holds now, return what it shall hold: the change taken back.

    If nothing happened since, that is what it held before, byte for byte. Else only our entries are given back, where
    they still are what we made of them; what others changed stays, and an entry that is gone stays away.
    Raise `HostFileError` where that cannot be done.
    """
    if now in (record.after, record.before):
        return record.before
    syntax = record.dialect.syntax
    try:
        bom, text = split_bom(now)
        before, after = (split_bom(content)[1] for content in (record.before, record.after))
        plan = _plan(record, syntax.load(before), syntax.load(after), syntax.load(text))
        for attempt in (_by_lines, partial(_by_keys, syntax, plan)):
            merged = attempt(before, after, text)
            if merged is not None and _fits(syntax, merged, plan.wanted):
                return bom + merged.encode()
    except UnicodeDecodeError:
        raise HostFileError("the file is no longer UTF-8; nothing was changed", remedy=_BY_HAND) from None
    except SyntaxFaultError as fault:
        where = f"line {fault.line}, column {fault.column}"
        raise HostFileError(
            f"the file is broken at {where}: {fault.message}; nothing was changed", remedy="mend it and try again"
        ) from None
    except KeyError:
        message = "the record of the change does not fit the file; nothing was changed"
        raise HostFileError(message, remedy=_BY_HAND) from None
    raise HostFileError(
        "the entries cannot be given back without touching others; nothing was changed", remedy=_BY_HAND
    )


_BY_HAND = "take the entries from the backup by hand"


@dataclass(frozen=True, slots=True)
class _Part:
    """One entry: where it was and where it is now, and for keys inside of it what they had before, if anything."""

    was: KeyPath
    here: KeyPath
    steps: tuple[tuple[KeyPath, Any], ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the file shall mean, and how it comes to that."""

    wanted: Any
    parts: tuple[_Part, ...]


def _plan(record: Undo, before: Any, after: Any, now: Any) -> _Plan:
    parts: list[_Part] = []
    wanted = now
    for path in record.paths:
        here = _moved(record.dialect, path, after, now)
        if here is None or any(part.here == here for part in parts):
            continue
        try:
            steps = tuple(_merge(value_at(before, path), value_at(after, path), value_at(now, here), ()))
        except _ConflictError as conflict:
            raise HostFileError(
                f"{written((*here, *conflict.path))} was changed since; nothing was changed", remedy=_BY_HAND
            ) from None
        parts.append(_Part(path, here, steps))
        for inside, value in steps:
            place = (*here, *inside)
            wanted = without_value(wanted, place) if value is _ABSENT else with_value(wanted, place, value)
    return _Plan(wanted, tuple(parts))


def _moved(dialect: Dialect, path: KeyPath, after: Any, now: Any) -> KeyPath | None:
    """Return where the entry of a path is now, or None if it is gone. In a list it is known by its name."""
    ours = value_at(after, path)
    name = path[-1] if dialect.name is None else ours[dialect.name]
    beside = _beside(dialect, path, now)
    same_name = [found.path for found in beside if found.name == name]
    if same_name:
        return path if path in same_name else same_name[0]
    # One with a new name is still ours if it says what we wrote, and if that is clear.
    names = {found.name for found in _beside(dialect, path, after)}
    renamed = [
        found.path
        for found in beside
        if found.name not in names and same(_nameless(dialect, found.value), _nameless(dialect, ours))
    ]
    return renamed[0] if len(renamed) == 1 else None


def _beside(dialect: Dialect, path: KeyPath, data: Any) -> list[Found]:
    """Return the entries of the table or list in which a path is."""
    entries = (found for found in find_entries(dialect, data) if isinstance(found, Found))
    return [found for found in entries if found.path[:-1] == path[:-1]]


def _nameless(dialect: Dialect, entry: Any) -> Any:
    return {key: value for key, value in entry.items() if key != dialect.name} if isinstance(entry, dict) else entry


def _merge(before: Any, after: Any, now: Any, path: KeyPath) -> Iterator[tuple[KeyPath, Any]]:
    """Yield what must change for our change to be taken back. Raise `_ConflictError` where somebody else changed it."""
    if not isinstance(now, dict):
        raise _ConflictError(path)
    for key in dict.fromkeys((*before, *after)):
        was, ours, theirs = (side.get(key, _ABSENT) for side in (before, after, now))
        if _equal(was, ours) or _equal(theirs, was):
            continue
        # A host that writes its files anew adds what is empty.
        if _equal(theirs, ours) or (ours is _ABSENT and theirs in ({}, [], "", None)):
            yield (*path, key), was
        elif isinstance(was, dict) and isinstance(ours, dict) and isinstance(theirs, dict):
            yield from _merge(was, ours, theirs, (*path, key))
        else:
            raise _ConflictError((*path, key))


def _equal(one: Any, other: Any) -> bool:
    return one is other or (one is not _ABSENT and other is not _ABSENT and same(one, other))


def _by_lines(before: str, after: str, now: str) -> str | None:
    """Return the text of now with our lines put back, or None where they are not ours any more."""
    old, ours, theirs = (text.splitlines(keepends=True) for text in (before, after, now))
    ours_to_theirs = _blocks(ours, theirs)
    ours_to_old = _blocks(ours, old)
    if ours_to_theirs is None or ours_to_old is None:
        return None
    result = list(theirs)
    at, old_at = len(ours), len(old)
    for start, old_start, size in reversed(ours_to_old):
        first, last = start + size, at
        if (last, old_at) != (first, old_start + size):
            place = _place(ours_to_theirs, first, last, len(ours))
            if place is None:
                return None
            result[place : place + last - first] = old[old_start + size : old_at]
        at, old_at = start, old_start
    if (at, old_at) != (0, 0):
        place = _place(ours_to_theirs, 0, at, len(ours))
        if place is None:
            return None
        result[place : place + at] = old[:old_at]
    return "".join(result)


def _place(blocks: Sequence[tuple[int, int, int]], first: int, last: int, length: int) -> int | None:
    """Return where lines of ours stand unchanged in theirs; of no lines, where those around them still are."""
    low, high = (first, last) if first < last else (max(first - 1, 0), min(last + 1, length))
    for start, other, size in blocks:
        if start <= low and high <= start + size:
            return other + first - start
    return None


def _blocks(one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int, int]] | None:
    """Return the runs of equal lines of two texts, or None where it would take too long to find them."""
    shorter = min(len(one), len(other))
    head = next((n for n in range(shorter) if one[n] != other[n]), shorter)
    tail = next((n for n in range(shorter - head) if one[-1 - n] != other[-1 - n]), shorter - head)
    middle, others = one[head : len(one) - tail], other[head : len(other) - tail]
    if len(middle) * len(others) > _MOST_PAIRS:
        return None
    matcher = difflib.SequenceMatcher(None, middle, others, autojunk=False)
    inner = [(head + a, head + b, size) for a, b, size in matcher.get_matching_blocks() if size]
    found = [(0, 0, head), *inner, (len(one) - tail, len(other) - tail, tail)]
    joined: list[tuple[int, int, int]] = []
    for start, there, size in found:
        if joined and (last := joined[-1])[0] + last[2] == start and last[1] + last[2] == there:
            joined[-1] = (last[0], last[1], last[2] + size)
        elif size:
            joined.append((start, there, size))
    return joined


def _by_keys(syntax: Syntax, plan: _Plan, before: str, after: str, now: str) -> str | None:
    """Return the text of now with our entries put back as they were written, whole or key by key.

    Return None where the text does not allow it.
    """
    text = now
    # One text after the other, for what was read of it is kept for a while only.
    olds = [syntax.extract(before, part.was) for part in plan.parts]
    ours_of = [syntax.extract(after, part.was) for part in plan.parts]
    places = [syntax.extract(now, part.here) for part in plan.parts]
    entries = sorted(zip(places, olds, ours_of, plan.parts, strict=True), key=lambda one: one[0].start, reverse=True)
    try:
        # From the end to the start, so that those to come stay where they are.
        for place, old, ours, part in entries:
            # Where the part is the whole text, the one before has changed it.
            end = place.end if place.path == () else len(text)
            theirs, was = text[place.start : end], before[old.start : old.end]
            if place.path == () and theirs == after[ours.start : ours.end]:
                theirs = was
            else:
                for inside, value in part.steps:
                    origin = _Origin(was, (*old.path, *inside), value)
                    theirs = _put_back(syntax, theirs, (*place.path, *inside), origin)
            text = text[: place.start] + theirs + text[end:]
    except (CannotEditError, SyntaxFaultError):
        return None
    return text


@dataclass(frozen=True, slots=True)
class _Origin:
    """What a key had before: the text that has it, its path in it, and its value, which may be absent."""

    text: str
    path: KeyPath
    value: Any


def _put_back(syntax: Syntax, text: str, path: KeyPath, origin: _Origin) -> str:
    if origin.value is _ABSENT:
        return syntax.cut(text, path)
    beside = _neighbour(syntax.load(text), path)
    source = syntax.source(origin.text, origin.path)
    if source is None:
        return syntax.put(text, path, origin.value, beside)
    return syntax.put_source(text, path, source, beside)


def _neighbour(data: Any, path: KeyPath) -> KeyPath:
    """Return a key beside the given one, behind which it can be put."""
    beside = [key for key in value_at(data, path[:-1]) if key != path[-1]]
    likely = [key for key in beside if key in ("args", "command", "cmd", "path")]
    return (*path[:-1], (likely or beside or [path[-1]])[0])


def _fits(syntax: Syntax, text: str, wanted: Any) -> bool:
    try:
        verify(syntax, text, wanted)
    except CannotEditError:
        return False
    return True
