"""Durations, sizes and frozen tables: how a person writes them, and what the program counts with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Generic, TypeVar

#: The word for a duration that never ends.
OFF = "off"
#: A longer duration is a mistake in the unit, and larger numbers overflow timers of the system.
LONGEST = 365 * 86400.0

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_DURATION = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,30})?) ?(ms|s|m|h|d)?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,20}) ?([KMGT]?)", re.ASCII)
_UIDS = re.compile(r"([0-9]{1,10})-([0-9]{1,10})", re.ASCII)

V = TypeVar("V")


def parse_duration(value: object) -> float:
    """Given "90s", "10m", "500ms", "2h", "1d" or a number of seconds, return seconds. Raise `ValueError` otherwise."""
    seconds = _seconds(value)
    if seconds is None:
        forms = '"500ms", "90s", "10m", "2h", "1d" or a number of seconds'
        raise ValueError(f"{_shown(value)} is not a duration; write {forms}")
    if not 0 <= seconds <= LONGEST:
        raise ValueError(f"{_shown(value)} is out of range; a duration is between 0 and 365d")
    # A finer part means nothing to any timer, and keeps the text of a duration short.
    return round(seconds, 6)


def parse_limit(value: object) -> float | None:
    """Given a duration or "off", return seconds or None. Raise `ValueError` otherwise."""
    if value is None or value == OFF:
        return None
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ValueError(f'{error}, or "off" for never') from None


def format_duration(seconds: float | None) -> str:
    """Given seconds or None, return the shortest text that `parse_limit` reads back as exactly the same value."""
    if seconds is None:
        return OFF
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % _SECONDS[unit] == 0:
            return f"{int(seconds / _SECONDS[unit])}{unit}"
    millis = round(seconds * 1000)
    if millis and millis / 1000 == seconds:
        return f"{millis}ms"
    return f"{Decimal(repr(float(seconds))).normalize():f}s"


def parse_size(value: object) -> int:
    """Given "512K", "64M", "1G" (powers of 1024) or a number of bytes, return bytes. Raise `ValueError` otherwise."""
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := _SIZE.fullmatch(value)):
        size = int(match[1]) * _BYTES[match[2]]
    else:
        raise ValueError(f'{_shown(value)} is not a size; write "512K", "64M", "1G" or a number of bytes')
    if not 0 <= size <= _BYTES["T"]:
        raise ValueError(f"{_shown(value)} is out of range; a size is between 0 and 1T")
    return size


def parse_bound(value: object) -> object:
    """Given "off", return None; return anything else as it is."""
    return None if value == OFF else value


def parse_size_bound(value: object) -> int | None:
    """Given a size or "off", return bytes or None. Raise `ValueError` otherwise."""
    if value is None or value == OFF:
        return None
    try:
        return parse_size(value)
    except ValueError as error:
        raise ValueError(f'{error}, or "off" for no limit') from None


def parse_uids(value: object) -> range:
    """Given "FIRST-LAST", return the user ids. Raise `ValueError` otherwise."""
    if isinstance(value, range):
        return value
    if value == OFF:
        raise ValueError("user ids for servers cannot be off: a sandbox of root would not hold; leave the line out")
    match = _UIDS.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{_shown(value)} is no range of user ids; write "60706-61183"')
    first, last = int(match[1]), int(match[2])
    if not 0 < first <= last < (1 << 32) - 1:
        raise ValueError("a range of user ids goes up, and neither 0 (root) nor 4294967295 is in it")
    return range(first, last + 1)


def format_uids(uids: range) -> str:
    """Given user ids, return the text that `parse_uids` reads back as the same."""
    return f"{uids.start}-{uids.stop - 1}"


def format_bound(number: float | None) -> float | str:
    """Given a number or None, return the value that `parse_bound` reads back as the same."""
    return OFF if number is None else number


def format_size_bound(size: int | None) -> str:
    """Given bytes or None, return the text that `parse_size_bound` reads back as the same."""
    return OFF if size is None else format_size(size)


def format_size(size: int) -> str:
    """Given bytes, return the shortest text that `parse_size` reads back as the same number."""
    for unit in ("T", "G", "M", "K"):
        if size and size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # An integer of thousands of digits is legal TOML; converting it would raise OverflowError.
        return math.inf if isinstance(value, int) and abs(value) > LONGEST else float(value)
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        number, unit = match[1], match[2] or "s"
        # Dividing keeps 7ms == 0.007; multiplying by 0.001 does not.
        return float(number) / 1000 if unit == "ms" else float(number) * _SECONDS[unit]
    return None


def _shown(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str() if len(value) <= 40:
            return f'"{value}"'
        case float():
            return repr(value)
        case int() if abs(value) < 1 << 64:
            return str(value)
        case _:
            return "this value"


class FrozenTable(Mapping[str, V], Generic[V]):
    """A table that never changes: equal by content, whatever the order of its keys, and hashable."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V] | None = None) -> None:
        self._items: dict[str, V] = dict(items or {})

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)
