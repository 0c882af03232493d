"""How much memory processes use."""

from __future__ import annotations

import os
import subprocess
import sys

from supervisord_mcp.runtimes.footprint import memory

HOLD = "import sys; held = bytearray(b'm') * (int(sys.argv[1]) << 20); print('ready', flush=True); sys.stdin.read()"
NEST = (
    "import subprocess, sys; "
    "inner = subprocess.Popen([sys.executable, '-c', sys.argv[1], '40'], stdout=1); inner.wait()"
)


def test_the_memory_of_a_tree_is_that_of_all_its_processes() -> None:
    with subprocess.Popen([sys.executable, "-c", NEST, HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as outer:
        assert outer.stdout is not None
        assert outer.stdin is not None
        assert outer.stdout.readline() == b"ready\n"
        assert 40 << 20 < memory(outer.pid) < 200 << 20
        outer.stdin.close()
    assert memory(outer.pid) == 0


def test_a_process_that_is_not_there_uses_nothing() -> None:
    assert memory(1 << 30) == 0
    assert memory(os.getpid()) > 0
