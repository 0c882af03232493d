"""What streams of the control socket are made of: the lines of logs."""

from __future__ import annotations

import msgspec


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a log, without its end: as it is in the file (``line``), and its parts.

    ``time`` is in seconds since the epoch. ``source`` is ``stderr``, ``smcp``, or ``message`` for what the server said
    with ``notifications/message``. ``instance`` is what tells an instance from others, empty where nothing needs to;
    ``session`` is 0 for what belongs to none. With ``repeated`` the line came again so many times since ``since``.
    """

    line: str
    server: str = ""
    time: float = 0.0
    source: str = ""
    instance: str = ""
    session: int = 0
    text: str = ""
    repeated: int = 0
    since: float = 0.0


class LogMark(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log ends: its newest file, which was the one with this inode, at that length in bytes."""

    path: str
    inode: int = 0
    size: int = 0
