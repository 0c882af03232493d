"""The same attempts in a container as Docker makes it by default, for comparison."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from pathlib import Path

from supervisord_mcp.probes import bait, trial
from supervisord_mcp.probes.inside.rights import ALONE
from tests.probes import columns

_IMAGE = "smcp-probes:local"


def in_docker(place: Path) -> columns.Results | None:
    """Return what comes of all attempts in a container, None where there is no engine to ask."""
    if shutil.which("docker") is None or shutil.which("debootstrap") is None:
        return None
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        return None
    _make_image(place / "root")
    base = place / "base"
    base.mkdir()
    base.chmod(0o777)
    try:
        with bait.laid(base, columns.LIMITS) as facts:
            trial.spec(facts, columns.python())
            facts["interpreter"] = "/usr/lib/python3"
            together = [name for name in trial.names() if name not in ALONE]
            found: columns.Results = {}
            for some in (together, *([name] for name in ALONE)):
                found |= _run(facts, some)
            return found
    finally:
        subprocess.run(["docker", "rmi", "-f", _IMAGE], capture_output=True, check=False)


def _make_image(root: Path) -> None:
    suite = ["debootstrap", "--variant=minbase", "--include=python3-minimal,libpython3-stdlib", "bookworm", str(root)]
    subprocess.run(suite, stdout=subprocess.DEVNULL, check=True)
    with subprocess.Popen(["tar", "-C", str(root), "-c", "."], stdout=subprocess.PIPE) as packed:
        subprocess.run(["docker", "import", "-", _IMAGE], stdin=packed.stdout, stdout=subprocess.DEVNULL, check=True)
    with contextlib.suppress(OSError):
        shutil.rmtree(root)


def _run(facts: trial.Facts, some: list[str]) -> columns.Results:
    mounts = [f"{facts['project']}:{facts['project']}", f"{facts['shown']}:{facts['shown']}:ro"]
    mounts.append(f"{trial.PACKAGE}:{trial.PACKAGE}:ro")
    words = ["docker", "run", "-i", "--rm", *(word for mount in mounts for word in ("-v", mount))]
    done = subprocess.run(
        [*words, "-w", facts["project"], _IMAGE, "/usr/bin/python3", "-I", "-S", "-B", "-c", trial.SCRIPT],
        input=json.dumps({**facts, "attempts": some}).encode() + b"\n",
        capture_output=True,
        timeout=600,
        check=False,
    )
    return trial.results(done.stdout, some, f"exit {done.returncode}", done.stderr.decode(errors="replace"))
