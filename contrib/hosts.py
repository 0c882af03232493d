"""Installs real hosts into a folder, for the test that adopts them: ``python -m contrib.hosts``.

They are large (together above one gigabyte), so they are installed once and kept, and no test waits for them.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contrib.matrix.peers import Kit

#: Where they are installed unless told otherwise.
PLACE = Path.home() / ".cache" / "smcp-hosts"

KIT = Kit(
    "hosts",
    "javascript",
    (
        "@anthropic-ai/claude-code@2.1.197",
        "@openai/codex@0.171.0",
        "@google/gemini-cli@0.61.0",
        "opencode-ai@1.18.33",
    ),
    "hosts of npm",
)


def program(name: str, place: Path = PLACE) -> Path:
    """Return the program of a host, whether it is installed or not."""
    return KIT.folder(place) / "node_modules" / ".bin" / name


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.hosts", description=__doc__)
    parser.add_argument("--place", type=Path, default=PLACE, help=f"where to (default: {PLACE})")
    try:
        KIT.provide(parser.parse_args(words).place)
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"the hosts cannot be installed: {getattr(error, 'stderr', None) or error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
