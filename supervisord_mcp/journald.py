"""Lines of logs on their way into the journal of systemd, with fields to look them up by.

``journalctl SMCP_SERVER=git`` shows a server; ``SMCP_INSTANCE``, ``SMCP_SESSION`` and ``SMCP_SOURCE`` are the parts
that a line has in its file. The journal is written to in a thread of its own: it may keep a writer waiting.
"""

from __future__ import annotations

from collections.abc import Callable

from supervisord_mcp import systemd
from supervisord_mcp.loglines import MESSAGE, printable, repetition
from supervisord_mcp.observer import Observers
from supervisord_mcp.protocol import mcp
from supervisord_mcp.protocol.news import LogLine

#: Sends an entry, given as fields ``NAME=value``.
Send = Callable[..., object]

_INFO, _DEBUG = 6, 7


class Journald:
    """Whether lines go to the journal."""

    def __init__(self, observers: Observers, find: Callable[[], Send | None] = systemd.journal) -> None:
        """``find`` returns what sends entries, or None where there is no journal or no library for it."""
        self._observers = observers
        self._find = find
        self._end: Callable[[], None] | None = None

    def configure(self, wanted: bool) -> None:
        """Send what is logged from now on, or send nothing more."""
        if not wanted and self._end is not None:
            self._end()
            self._end = None
        elif wanted and self._end is None and (send := self._find()) is not None:
            self._end = self._observers.lines.add(lambda line: send(*fields(line)), "journal", apart=True)


def fields(line: LogLine) -> list[str]:
    """Given a line of a log, return the fields of its entry (systemd.journal-fields(7))."""
    text = f"{line.text} ({repetition(line.repeated, line.since)})" if line.repeated else line.text
    found = [
        f"MESSAGE={text}",
        f"PRIORITY={_priority(line)}",
        "SYSLOG_IDENTIFIER=smcp",
        f"SMCP_SERVER={line.server}",
        f"SMCP_SOURCE={line.source}",
    ]
    if line.instance:
        found.append(f"SMCP_INSTANCE={printable(line.instance)}")
    if line.session:
        found.append(f"SMCP_SESSION={line.session}")
    return found


def _priority(line: LogLine) -> int:
    """Return the priority of syslog, by which levels of MCP are named: 0 is an emergency, 7 is for debugging."""
    if line.source != MESSAGE:
        return _INFO
    rank = mcp.LEVELS.get(line.text.split(" ", 1)[0].rstrip(":"))
    return _INFO if rank is None else _DEBUG - rank
