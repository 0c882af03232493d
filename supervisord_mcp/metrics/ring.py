"""A series of points in a fixed number of slots, each as long as the others; old ones make room. No clock, no I/O.

Times are in seconds since the epoch; the slot of a time is its number of steps since then, so that a gap (nothing ran,
the machine slept) is seen as missing numbers. Several points of one slot become one. The columns are arrays that grow
as they are filled: a server that never ran holds nothing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from typing import Any

#: Sizes are kept in KiB: four bytes are enough for 4 TiB.
_KIB = 10
_MOST = (1 << 32) - 1
_MOST_SMALL = (1 << 16) - 1


@dataclass(frozen=True, slots=True)
class Point:
    """What a server used in one slot.

    ``cpu`` is in seconds spent, over ``seconds`` that were watched. ``memory`` (PSS) and ``resident`` are the largest
    values seen, in bytes, ``processes``, ``threads`` and ``files`` too. ``read``, ``written``, ``sent`` and
    ``received`` are bytes moved. ``starts`` is how many children became ready in it.
    """

    at: float
    seconds: float = 0.0
    cpu: float = 0.0
    memory: int = 0
    resident: int = 0
    processes: int = 0
    threads: int = 0
    files: int = 0
    read: int = 0
    written: int = 0
    sent: int = 0
    received: int = 0
    starts: int = 0

    @property
    def load(self) -> float:
        """How many processors were busy, on average."""
        return self.cpu / self.seconds if self.seconds > 0 else 0.0

    def joined(self, other: Point) -> Point:
        """Return one point for this one and a later one of the same slot."""
        return replace(
            self,
            seconds=self.seconds + other.seconds,
            cpu=self.cpu + other.cpu,
            memory=max(self.memory, other.memory),
            resident=max(self.resident, other.resident),
            processes=max(self.processes, other.processes),
            threads=max(self.threads, other.threads),
            files=max(self.files, other.files),
            read=self.read + other.read,
            written=self.written + other.written,
            sent=self.sent + other.sent,
            received=self.received + other.received,
            starts=self.starts + other.starts,
        )


#: The columns: the name of the field, the type of its array, how far its values are shifted.
_COLUMNS = (
    ("seconds", "f", 0),
    ("cpu", "f", 0),
    ("memory", "I", _KIB),
    ("resident", "I", _KIB),
    ("processes", "H", 0),
    ("threads", "H", 0),
    ("files", "I", 0),
    ("read", "I", _KIB),
    ("written", "I", _KIB),
    ("sent", "I", _KIB),
    ("received", "I", _KIB),
    ("starts", "H", 0),
)
_LIMITS = {"I": _MOST, "H": _MOST_SMALL}


class Ring:
    """The last points of one series: at most ``size`` of them, none older than ``size`` steps before the newest."""

    def __init__(self, step: float, size: int) -> None:
        """``step`` is the length of a slot in seconds."""
        self.step = step
        self.size = size
        self._slots = array("q")
        self._columns: tuple[array[Any], ...] = tuple(array(code) for _, code, _ in _COLUMNS)
        #: Where the next point goes once the ring is full, which is where the oldest one is.
        self._next = 0
        # The newest slot is kept as it came: what is joined would lose its fractions of a KiB each time.
        self._newest: Point | None = None

    def __len__(self) -> int:
        return len(self._slots) + (self._newest is not None)

    def add(self, point: Point) -> None:
        """Add a point; one of the past counts for the newest slot, as where a clock was set back.

        Where it was set back by all that the ring spans, what is there is of a time that was never: it begins anew.
        """
        newest = self._newest
        if newest is not None and self._slot(newest.at) - self._slot(point.at) >= self.size:
            self._slots, self._columns, self._next = array("q"), tuple(array(code) for _, code, _ in _COLUMNS), 0
            newest = None
        if newest is None:
            self._newest = point
        elif self._slot(point.at) <= self._slot(newest.at):
            self._newest = newest.joined(point)
        else:
            self._store(newest)
            self._newest = point

    def since(self, time: float) -> Iterator[Point]:
        """Yield the points of the slots that end after a time, oldest first; each is at the beginning of its slot."""
        if self._newest is None:
            return
        last = self._slot(self._newest.at)
        first = max(self._slot(time), last - self.size + 1)
        order = [*range(self._next, len(self._slots)), *range(self._next)]
        for place in order[bisect_left(order, first, key=self._slots.__getitem__) :]:
            yield self._load(place)
        if last >= first:
            yield replace(self._newest, at=last * self.step)

    @property
    def newest(self) -> float:
        """When the newest slot began, minus infinity if there is none."""
        return -inf if self._newest is None else self._slot(self._newest.at) * self.step

    def pack(self) -> list[bytes]:
        """Return the numbers of the slots and then each column, oldest first, for `unpack`."""
        first = self._next
        slots, *columns = (part[first:] + part[:first] for part in (self._slots, *self._columns))
        if (newest := self._newest) is not None:
            slots.append(self._slot(newest.at))
            for column, (name, code, shift) in zip(columns, _COLUMNS, strict=True):
                column.append(self._packed(newest, name, code, shift))
        return [part.tobytes() for part in (slots, *columns)]

    def unpack(self, parts: Sequence[bytes]) -> None:
        """Hold exactly what was packed. Raise `ValueError` if it is nothing that a ring of this size packs."""
        if len(parts) != 1 + len(_COLUMNS):
            raise ValueError("other columns")
        slots = array("q")
        slots.frombytes(parts[0])
        columns = tuple(array(code) for _, code, _ in _COLUMNS)
        for column, part in zip(columns, parts[1:], strict=True):
            column.frombytes(part)
        if len(slots) > self.size or any(len(column) != len(slots) for column in columns):
            raise ValueError("columns of another length")
        if any(one >= other for one, other in pairwise(slots)):
            raise ValueError("slots out of order")
        self._slots, self._columns, self._next, self._newest = slots, columns, 0, None
        if slots:
            newest = self._load(len(slots) - 1)
            for values in (slots, *columns):
                values.pop()
            self._newest = newest

    def _slot(self, time: float) -> int:
        return int(time // self.step)

    def _store(self, point: Point) -> None:
        values = [self._packed(point, name, code, shift) for name, code, shift in _COLUMNS]
        # One less than the size: the newest is kept beside them.
        if len(self._slots) < self.size - 1:
            self._slots.append(self._slot(point.at))
            for column, value in zip(self._columns, values, strict=True):
                column.append(value)
            return
        self._slots[self._next] = self._slot(point.at)
        for column, value in zip(self._columns, values, strict=True):
            column[self._next] = value
        self._next = (self._next + 1) % len(self._slots)

    @staticmethod
    def _packed(point: Point, name: str, code: str, shift: int) -> float:
        value = getattr(point, name)
        if code == "f":
            return float(value)
        return int(min((value + (1 << shift) - 1) >> shift, _LIMITS[code]))

    def _load(self, place: int) -> Point:
        values = {
            name: column[place] << shift if code != "f" else column[place]
            for (name, code, shift), column in zip(_COLUMNS, self._columns, strict=True)
        }
        return Point(self._slots[place] * self.step, **values)


class History:
    """What one server used: the last hour in steps of five seconds, the last day in steps of a minute."""

    FINE, COARSE = (5.0, 720), (60.0, 1440)

    def __init__(self) -> None:
        self._fine, self._coarse = Ring(*self.FINE), Ring(*self.COARSE)

    def add(self, point: Point) -> None:
        """Add a point to both series."""
        self._fine.add(point)
        self._coarse.add(point)

    @property
    def newest(self) -> float:
        """When the newest slot began, minus infinity if there is none."""
        return self._fine.newest

    def pack(self) -> list[list[bytes]]:
        """Return both series, for `unpack`."""
        return [self._fine.pack(), self._coarse.pack()]

    def unpack(self, series: Sequence[Sequence[bytes]]) -> None:
        """Hold exactly what was packed. Raise `ValueError` if it is something else."""
        if len(series) != 2:
            raise ValueError("not two series")
        self._fine.unpack(series[0])
        self._coarse.unpack(series[1])

    def since(self, time: float, now: float) -> tuple[float, list[Point]]:
        """Return the length of a slot and the points since a time, as fine as they are kept for so long."""
        step, size = self.FINE
        # Who asks for exactly as long as the fine ones reach asked a moment ago.
        ring = self._fine if now - time < step * (size + 1) else self._coarse
        return ring.step, list(ring.since(time))
