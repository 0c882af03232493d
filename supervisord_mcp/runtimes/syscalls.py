"""The system calls of every architecture that can be filtered, by name and number."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from supervisord_mcp.errors import IsolationError

#: By the name that uname gives, what the kernel tells a filter (AUDIT_ARCH_*). All are little endian with 64 bits.
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_TABLE = Path(__file__).with_name("syscalls.txt")


@dataclass(frozen=True, slots=True, eq=False)
class Architecture:
    """An architecture that system calls can be filtered for; there is one object for each."""

    name: str
    audit: int
    numbers: Mapping[str, int] = field(repr=False)

    def name_of(self, number: int) -> str:
        """Return what a person calls a system call; one that is not known has only its number."""
        return next((name for name, own in self.numbers.items() if own == number), f"system call {number}")


@functools.cache
def architectures() -> Mapping[str, Architecture]:
    """Return every architecture that can be filtered, by the name that uname gives."""
    names, *rows = (line.lstrip("# ").split() for line in _lines())
    return {
        name: Architecture(name, _AUDIT[name], {row[0]: int(row[at]) for row in rows if row[at] != "-"})
        for at, name in enumerate(names)
        if name in _AUDIT
    }


def native() -> Architecture:
    """Return the architecture of this machine. Raise `IsolationError` where it cannot be filtered."""
    machine = os.uname().machine
    try:
        return architectures()[machine]
    except KeyError:
        raise IsolationError(
            f"system calls cannot be filtered on this machine: its type is {machine}, known are {', '.join(_AUDIT)}",
            remedy='Run the server on another machine, or without isolation, if you trust it: runtime = "bare".',
        ) from None


def known(name: str) -> bool:
    """Return whether there is a system call of that name on any architecture."""
    return any(name in architecture.numbers for architecture in architectures().values())


def _lines() -> list[str]:
    """Return the lines of the table from the one that names its columns."""
    lines = _TABLE.read_text(encoding="ascii").splitlines()
    return lines[next(at for at, line in enumerate(lines) if line.startswith("# name ")) :]
