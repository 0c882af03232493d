"""Servers that take more than they may; each of them stops by itself before it hurts the machine."""

from __future__ import annotations

import uuid

from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.limits import Limits

#: The Python of the system: a sandbox shows it to any user.
PYTHON = "/usr/bin/python3"

#: Takes memory bit by bit, at most 600 MB, and keeps it.
MEMORY = """
import sys
kept = []
for number in range(75):
    kept.append(b"x" * (8 << 20))
print("all", flush=True)
sys.stdin.read()
"""
#: Takes memory in a process of its own, so that the server itself is not what gets too big.
CHILD_MEMORY = f"""
import subprocess, sys
subprocess.run([sys.executable, "-I", "-c", {MEMORY!r}], stdin=subprocess.DEVNULL)
print("alive", flush=True)
sys.stdin.read()
"""
#: Forks until it is refused, at most 300 times; says how often it worked, and fails at the next line.
FORKS = """
import os, sys, time
done = 0
try:
    while done < 300:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        done += 1
except OSError as error:
    print("refused", done, flush=True)
    sys.stdin.readline()
    sys.exit(3)
print("all", done, flush=True)
sys.stdin.readline()
"""


def hog(script: str, limits: Limits, name: str = "hog") -> LaunchSpec:
    """Return a spec that runs a script of Python within limits."""
    argv = (PYTHON, "-I", "-S", "-c", script)
    return LaunchSpec(name, argv, env=(("PATH", "/usr/bin:/bin"),), marker=f"t-{uuid.uuid4()}", limits=limits)
