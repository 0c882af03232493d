"""Points in time that a person names: how long ago, or when."""

from __future__ import annotations

import datetime
import time
from typing import Annotated, Final

import typer

from supervisord_mcp.errors import UsageError

Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="From then on: 10m or 6h ago, or a time in UTC, 10:30 or 2026-11-30T08:15."
    ),
]
_DAY: Final = 86400.0


def moment(text: str) -> float:
    """Given how long ago or when, return it in seconds since the epoch. Raise `UsageError` if it is neither."""
    from supervisord_mcp.config.values import parse_duration

    if (found := _when(text)) is not None:
        return found
    try:
        return time.time() - parse_duration(text)
    except ValueError:
        remedy = "give a length of time, like 10m or 6h, or a time in UTC, like 10:30 or 2026-11-30T08:15"
        raise UsageError(f"--since {text}: not a time", remedy=remedy) from None


def until_now(text: str) -> str:
    """Given what `moment` takes, return what lies between it and now, in words."""
    return f"last {text}" if _when(text) is None else f"since {text}"


def _when(text: str) -> float | None:
    """Return a time that is not told by how long ago it is; one without a date is the last one that there was."""
    try:
        return _in_utc(datetime.datetime.fromisoformat(text)).timestamp()
    except ValueError:
        pass
    try:
        clock = datetime.time.fromisoformat(text) if ":" in text else None
    except ValueError:
        clock = None
    if clock is None:
        return None
    now = time.time()
    day = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
    return now - (now - _in_utc(datetime.datetime.combine(day, clock)).timestamp()) % _DAY


def _in_utc(found: datetime.datetime) -> datetime.datetime:
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)
