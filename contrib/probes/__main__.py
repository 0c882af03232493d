"""Put the table of what each isolation holds back into README.md; run as ``python -m contrib.probes``, by root.

The column of Docker needs an engine and debootstrap: an image with a Python is made of packages of the distribution.
Without them the column is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from contrib.probes.docker import in_docker
from contrib.probes.table import Column, with_table
from supervisord_mcp.probes.expected import Situation
from tests.probes import columns

README = Path(__file__).parents[2] / "README.md"


def main(words: Sequence[str] | None = None) -> None:
    """Make all attempts in all isolations, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="also write every result there")
    given = parser.parse_args(words)
    if os.geteuid() != 0:
        parser.error("run it as root: two columns are those of a daemon of root")
    sandbox, reduced = Situation(), Situation(reduced=True)
    found = [
        Column("none", columns.nothing(), None),
        Column("sandbox", columns.as_person(lambda: columns.sandboxed(columns.bwrap)), sandbox),
        Column("sandbox, daemon of root", columns.sandboxed(columns.bwrap), sandbox),
        Column("Landlock", columns.as_person(lambda: columns.sandboxed(columns.landlock)), reduced),
        Column("Landlock, daemon of root", columns.sandboxed(columns.landlock), reduced),
    ]
    with tempfile.TemporaryDirectory(prefix="smcp-probes-", dir="/var/tmp") as place:
        docker = in_docker(Path(place))
    if docker is not None:
        found.append(Column("Docker's default", docker, None))
    heading = f"{datetime.now(UTC):%Y-%m-%d}, Linux {platform.release()}, {_bubblewrap()}"
    README.write_text(with_table(README.read_text(encoding="utf-8"), found, heading), encoding="utf-8")
    if given.json:
        every = {column.title: {n: [r.outcome, r.detail] for n, r in column.results.items()} for column in found}
        Path(given.json).write_text(json.dumps(every, indent=1), encoding="utf-8")


def _bubblewrap() -> str:
    return subprocess.run(["bwrap", "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
