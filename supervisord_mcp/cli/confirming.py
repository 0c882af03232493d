"""Asks a person before something of theirs is changed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from supervisord_mcp.cli.output import printable
from supervisord_mcp.errors import SmcpError, UsageError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Show what would be done, and change nothing.")]


def check_answerable(*, yes: bool, dry_run: bool = False, look: str = "look with --dry-run") -> None:
    """Raise `UsageError` where a question will have to be asked and nobody can answer.

    For commands that show much before: what was shown must not look like what was done. ``look`` says how to see it.
    """
    if not (yes or dry_run or sys.stdin.isatty()):
        raise UsageError("nobody can be asked here; nothing was changed", remedy=f"{look}, then give --yes")


def confirm(question: str, *, yes: bool, look: str = "look with --dry-run") -> None:
    """Ask, unless ``yes``. Raise `SmcpError` where the answer is no, and `UsageError` where nobody can answer."""
    if yes:
        return
    check_answerable(yes=yes, look=look)
    sys.stderr.write(f"{printable(question)} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise SmcpError("nothing was changed")
