"""Decisions about a system call, and the program in the kernel's classic BPF that takes them.

A filter sees the number of a call, the architecture that it was made for and the arguments, never what these point
to. Jumps lead only forward and, if they depend on something, at most 255 instructions far. So a program is written from
its end: the target of a jump is there when the jump is written, and where it is too far away, a step in between is put
down.

The kernel runs the filter at every call, except where it has found by itself that a call is always allowed (5.11). For
that, and to be quick elsewhere, the number alone is looked at first, in a balanced tree of comparisons.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: More is refused by the kernel.
MOST_INSTRUCTIONS = 4096

_LOAD, _AND, _ANSWER = 0x20, 0x54, 0x06
_JUMP, _IF_EQUAL, _IF_NOT_LESS = 0x05, 0x15, 0x35
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_REACH = 255
_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Answer:
    """What the kernel is told: one of its SECCOMP_RET_* values."""

    value: int


@dataclass(frozen=True, slots=True)
class Switch:
    """A look at an argument: what is decided for some values of it, and what for every other one.

    The kernel reads flags, commands and families as 32 bits, so the upper half is never looked at: a call must not get
    through by setting bits there (CVE-2019-10063).
    """

    argument: int
    cases: tuple[tuple[int, Decision], ...]
    otherwise: Decision
    mask: int = _WORD


Decision = Answer | Switch


@dataclass(frozen=True, slots=True)
class Table:
    """Decisions for every system call: by number, for numbers that have none, and for any other architecture."""

    architecture: int
    calls: Mapping[int, Decision]
    unknown: Answer
    foreign: Answer


def decide(decision: Decision, arguments: Sequence[int]) -> Answer:
    """Return what a decision comes to for the arguments of a call."""
    while isinstance(decision, Switch):
        value = arguments[decision.argument] & decision.mask
        decision = dict(decision.cases).get(value, decision.otherwise)
    return decision


def assemble(table: Table) -> bytes:
    """Return the program that takes the decisions of a table. Raise `ValueError` if it would be too long."""
    return _Assembler().program(table)


class _Assembler:
    """A program that grows from its end. A place is the number of an instruction, counted from the end."""

    def __init__(self) -> None:
        self._written: list[tuple[int, int, int, int]] = []
        self._places: dict[Decision, int] = {}
        #: The last stand-in for a place that was too far away from somewhere.
        self._nearest: dict[int, int] = {}

    def program(self, table: Table) -> bytes:
        # What is jumped to from everywhere comes last in the program, close to where it is needed.
        foreign = self._decision(table.foreign)
        ranges = _ranges(table)
        for _, decision in ranges:
            self._decision(decision)
        self._load(_NUMBER, self._search(ranges))
        number = len(self._written) - 1
        self._load(_ARCHITECTURE, self._if(_IF_EQUAL, table.architecture, number, foreign))
        if len(self._written) > MOST_INSTRUCTIONS:
            raise ValueError(f"a filter of {len(self._written)} instructions is too long for the kernel")
        return b"".join(struct.pack("=HBBI", *instruction) for instruction in reversed(self._written))

    def _search(self, ranges: Sequence[tuple[int, Decision]]) -> int:
        """Write what finds the range that the number is in; return where it begins."""
        if len(ranges) == 1:
            return self._decision(ranges[0][1])
        middle = len(ranges) // 2
        upper = self._search(ranges[middle:])
        lower = self._search(ranges[:middle])
        return self._if(_IF_NOT_LESS, ranges[middle][0], upper, lower)

    def _decision(self, decision: Decision) -> int:
        """Write a decision, once; return where it begins."""
        place = self._places.get(decision)
        if place is None:
            if isinstance(decision, Answer):
                place = self._write(_ANSWER, decision.value)
            else:
                place = self._switch(decision)
            self._places[decision] = place
        return place

    def _switch(self, switch: Switch) -> int:
        place = self._decision(switch.otherwise)
        cases = [(value, self._decision(decision)) for value, decision in switch.cases]
        for value, target in reversed(cases):
            place = self._if(_IF_EQUAL, value, target, place)
        if switch.mask != _WORD:
            self._next(place)
            place = self._write(_AND, switch.mask)
        return self._load(_ARGUMENTS + 8 * switch.argument, place)

    def _load(self, offset: int, then: int) -> int:
        self._next(then)
        return self._write(_LOAD, offset)

    def _if(self, condition: int, value: int, yes: int, no: int) -> int:
        # A stand-in for the second may push the first one instruction further away.
        yes = self._near(yes, _REACH - 1)
        no = self._near(no, _REACH)
        return self._write(condition, value, self._distance(yes), self._distance(no))

    def _next(self, place: int) -> None:
        """See to it that a place comes right after what is written next."""
        self._near(place, 0)

    def _near(self, place: int, reach: int) -> int:
        """Return a place within reach of what is written next that does the same as another one."""
        near = self._nearest.get(place, place)
        if self._distance(near) > reach:
            code, *_, value = self._written[place]
            near = self._write(_ANSWER, value) if code == _ANSWER else self._write(_JUMP, self._distance(place))
            self._nearest[place] = near
        return near

    def _distance(self, place: int) -> int:
        return len(self._written) - 1 - place

    def _write(self, code: int, value: int, yes: int = 0, no: int = 0) -> int:
        self._written.append((code, yes, no, value))
        return len(self._written) - 1


def _ranges(table: Table) -> list[tuple[int, Decision]]:
    """Return from which number on which decision holds, up to the next such number."""
    changes: dict[int, Decision] = {0: table.unknown}
    for number, decision in sorted(table.calls.items()):
        changes[number] = decision
        changes[number + 1] = table.unknown
    ranges: list[tuple[int, Decision]] = []
    for number, decision in changes.items():
        if not ranges or ranges[-1][1] != decision:
            ranges.append((number, decision))
    return ranges
