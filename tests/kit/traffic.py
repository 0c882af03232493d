"""What was said on the connections of one daemon, judged as a whole once it is over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
