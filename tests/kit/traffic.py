"""What was said on the connections of one daemon, judged as a whole once it is over."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.referee import Referee
from tests.kit.wire import Side, Wire

#: How many lines of a connection are kept, and how long one may be: a test under load says more than can be checked.
LINES = 500
LENGTH = 8192


@dataclass(slots=True)
class Connection:
    """One connection of smcp, which is its ``smcp`` end; ``limit`` is how many lines are kept (None: all)."""

    name: str
    smcp: Side
    lines: list[tuple[Side, bytes]] = field(default_factory=list)
    limit: int | None = LINES

    def add(self, side: Side, line: bytes) -> None:
        """Keep a line that one side said."""
        if (self.limit is None or len(self.lines) < self.limit) and len(line) <= LENGTH:
            self.lines.append((side, line))


def tapped(folder: Path, name: str, command: Sequence[str]) -> list[str]:
    """Return a command that does the same and records what is said through its pipes in a file of the folder."""
    file = folder / f"{name}-{uuid.uuid4().hex}"
    return [sys.executable, "-I", "-S", str(Path(__file__).with_name("tap.py")), str(file), *command]


def recorded(folder: Path, smcp: Side) -> list[Connection]:
    """Return what was said on every connection recorded in a folder, where smcp was that end of each."""
    found = []
    for file in sorted(folder.iterdir()):
        connection = Connection(file.name, smcp, limit=None)
        for record in map(json.loads, file.read_text().splitlines()):
            connection.add(record["side"], record["line"].encode("latin-1"))
        found.append(connection)
    return found


def judge(connections: Iterable[Connection]) -> list[str]:
    """Return what smcp said that fits no schema and that nobody told it.

    Nothing is known of the order of two connections, so all peers are heard first.
    """
    referee = Referee()
    doubtful: list[tuple[str, bytes]] = []
    for connection in connections:
        wire = Wire()
        for side, line in connection.lines:
            if side != connection.smcp:
                referee.peer_says(wire, side, line)
            elif (fault := referee.judge(wire, side, line)) is not None:
                doubtful.append((f"to {connection.name}: {fault}", line))
    return [
        f"smcp said {text}: {line[:300].decode(errors='replace')}"
        for text, line in doubtful
        if not referee.excuses(line)
    ]
