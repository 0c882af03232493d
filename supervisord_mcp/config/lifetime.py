"""How often a server is started again, how long it waits before, and what is kept of what it wrote."""

from __future__ import annotations

from typing import Self

from pydantic import Field, StrictInt, model_validator

from supervisord_mcp.config.daemon import Table
from supervisord_mcp.config.fields import CountBound, Duration, Size


class Budget(Table):
    """How many restarts a server may have before it waits for a person."""

    restarts: StrictInt = Field(
        default=5, ge=0, le=1000, description="Restarts allowed within the period; the next one is fatal."
    )
    within: Duration = Field(default=60.0, gt=0, description="The period in which restarts are counted.")


class Backoff(Table):
    """How long a server waits before it is restarted; every wait is twice the one before."""

    first: Duration = Field(default=1.0, description="The wait before the first restart.")
    most: Duration = Field(default=30.0, description="The longest wait.")
    reset_after: Duration = Field(
        default=60.0, gt=0, description="A run at least this long makes the next wait the first again."
    )

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.first > self.most:
            raise ValueError("first must not be longer than most")
        return self


class Log(Table):
    """The files that hold what a server writes to stderr and what smcp says about it."""

    max_size: Size = Field(default=2 << 20, ge=1024, description="A log file is rotated before it grows beyond this.")
    keep: StrictInt = Field(
        default=5, ge=1, le=100, description="Log files kept for a server, the current one included."
    )
    rate: CountBound = Field(
        default=500,
        description="Lines a second of a server, taken over ten seconds; what is more is left out, and counted.",
    )
