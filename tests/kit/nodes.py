"""The Nodes that tests run: the one of the system, and a newer one that is a package of npm."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

SYSTEM, NEWER = "that of the system", "node@24"


def node(which: str, place: Path) -> Path:
    """Return the program; a newer Node is installed below ``place``. Fail where there is none."""
    if which == SYSTEM:
        found = shutil.which("node", path="/usr/bin:/usr/local/bin") or shutil.which("node")
        assert found is not None, "Node is needed (apt-get install nodejs)"
        return Path(os.path.realpath(found))
    words = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(place), which]
    subprocess.run(words, check=True, capture_output=True, timeout=300)
    return Path(os.path.realpath(place / "node_modules" / "node" / "bin" / "node"))
