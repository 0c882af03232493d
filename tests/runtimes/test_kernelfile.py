"""Files of the kernel are read to their end, however long they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.kernelfile import content


def test_a_list_that_takes_more_than_a_page_is_whole() -> None:
    # The list of children comes a page at a time: 1500 pids are more than that, at three digits at least.
    program = (
        "import os, sys\n"
        "for _ in range(1500):\n"
        "    if os.fork() == 0:\n"
        "        sys.stdin.read()\n"
        "        os._exit(0)\n"
        "print(flush=True)\n"
        "sys.stdin.read()\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-ISc", program], stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        path = f"/proc/{process.pid}/task/{process.pid}/children"
        descriptor = os.open(path, os.O_RDONLY)
        page = os.read(descriptor, 1 << 20)
        os.close(descriptor)
        found = content(path)
        process.communicate()
    assert len(found.split()) == 1500
    assert len(page) < len(found), "one read is not enough"


def test_the_end_of_a_file_is_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for size in (0, 1, 1 << 16, (1 << 17) + 3):
        file.write_bytes(b"x" * size)
        assert content(str(file)) == b"x" * size


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        content("/proc/self/none")
