"""The kernel's part of a filter, written from its documentation: what it accepts, and how it runs it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Call:
    """A system call as a filter sees it."""

    architecture: int
    number: int
    arguments: tuple[int, ...] = (0,) * 6

    def data(self) -> bytes:
        """Return struct seccomp_data."""
        return struct.pack("<IIQ6Q", self.number, self.architecture, 0xDEAD, *self.arguments)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a filter answered, after how many steps, and which parts of the call it looked at (their offsets)."""

    value: int
    steps: int
    seen: frozenset[int]

    @property
    def always(self) -> bool:
        """Whether it did not depend on the arguments; the kernel runs no filter for a call that is always allowed."""
        return self.seen <= {0, 4}


Instruction = tuple[int, int, int, int]


def load(program: bytes) -> list[Instruction]:
    """Return the instructions of a program that the kernel would accept; fail for any other."""
    instructions = list(struct.iter_unpack("<HBBI", program))
    assert 0 < len(instructions) <= 4096
    for at, (code, yes, no, value) in enumerate(instructions):
        match code:
            case 0x20:
                assert value % 4 == 0
                assert value < 64
            case 0x05:
                assert at + 1 + value < len(instructions)
            case 0x15 | 0x25 | 0x35 | 0x45:
                assert at + 1 + max(yes, no) < len(instructions)
            case 0x54 | 0x06:
                pass
            case _:
                raise AssertionError(f"instruction {code:#x}")
    assert instructions[-1][0] == 0x06
    return instructions


def run(instructions: Sequence[Instruction], call: Call) -> Outcome:
    """Run a program for a call."""
    data, accumulator, at, steps = call.data(), 0, 0, 0
    seen: set[int] = set()
    while True:
        code, yes, no, value = instructions[at]
        at += 1
        steps += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
                seen.add(value)
            case 0x54:
                accumulator &= value
            case 0x05:
                at += value
            case 0x15:
                at += yes if accumulator == value else no
            case 0x25:
                at += yes if accumulator > value else no
            case 0x35:
                at += yes if accumulator >= value else no
            case 0x45:
                at += yes if accumulator & value else no
            case _:
                return Outcome(value, steps, frozenset(seen))
