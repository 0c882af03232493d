"""The commands, one file each; the only place that prints.

This file is imported for every command, also for each connection of a host and for the daemon itself, so it imports
nothing that costs time or memory.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Given the words after ``smcp``, run the command and return its exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    match words:
        case ["connect", *rest] if not _asks_for_help(rest):
            from supervisord_mcp import shim

            return shim.main(rest)
        case ["wrap", *rest] if not _asks_for_help(rest):
            from supervisord_mcp.cli import wrap

            return wrap.main(rest)
        case ["run"] | ["run", "--on-demand"]:
            from supervisord_mcp.cli import run

            return run.main(on_demand=len(words) > 1)
        case _:
            from supervisord_mcp.cli import app

            return app.run(words)


def _asks_for_help(words: list[str]) -> bool:
    own = words[: words.index("--")] if "--" in words else words
    return "--help" in own or "-h" in own
