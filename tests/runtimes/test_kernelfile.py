"""Files of the kernel are read to their end, however long they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.kernelfile import content


def test_what_comes_in_pieces_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    # The kernel gives a list a page at a time, whatever is asked for.
    whole = Path("/proc/version").read_bytes()
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, most: read(descriptor, min(most, 7)))
    assert content("/proc/version") == whole


def test_the_end_of_a_file_is_its_end(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for size in (0, 1, 1 << 16, (1 << 17) + 3):
        file.write_bytes(b"x" * size)
        assert content(str(file)) == b"x" * size


def test_what_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        content("/proc/self/none")
