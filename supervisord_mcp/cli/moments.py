"""Points in time that a person names: how long ago, or when."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from supervisord_mcp.errors import UsageError

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="From then on: 10m or 6h ago, or a time in UTC, 2026-11-30T08:15."),
]


def moment(text: str) -> float:
    """Given how long ago or when, return it in seconds since the epoch. Raise `UsageError` if it is neither."""
    from supervisord_mcp.config.values import parse_duration

    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return time.time() - parse_duration(text)
        except ValueError:
            remedy = "give a length of time, like 10m or 6h, or a time in UTC, like 2026-11-30T08:15"
            raise UsageError(f"--since {text}: not a time", remedy=remedy) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
