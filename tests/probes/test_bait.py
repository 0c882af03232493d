"""What is laid out for attempts, and that nothing of it is left."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from supervisord_mcp.probes import bait
from supervisord_mcp.runtimes.limits import DEFAULTS


def test_everything_is_there_and_then_gone(tmp_path: Path) -> None:
    before = dict(os.environ)
    with bait.laid(tmp_path, DEFAULTS) as facts:
        assert (tmp_path / "home/.ssh/id_ed25519").read_text() == "text\n"
        assert os.readlink(tmp_path / "project/link") == str(tmp_path / "home/.netrc")
        socket.create_connection(("127.0.0.1", facts["port"]), 5).close()
        with socket.socket(socket.AF_UNIX) as one:
            one.connect("\0" + facts["abstract"])
        assert facts["daemon_mark"].encode() in Path(f"/proc/{facts['daemon_pid']}/cmdline").read_bytes()
        assert os.environ[facts["secret_variable"]] == facts["secret"]
        assert facts["limits"]["memory"] == DEFAULTS.memory
        kept = dict(facts)
    assert dict(os.environ) == before
    assert not os.path.exists(f"/proc/{kept['daemon_pid']}")
    assert not any(os.path.exists(kept[name]) for name in ("temporary", "shared", "agent", "socket"))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", kept["port"]), 5)


def test_a_failure_in_between_leaves_nothing(tmp_path: Path) -> None:
    before = dict(os.environ)
    kept: dict[str, object] = {}

    def fail() -> None:
        with bait.laid(tmp_path, DEFAULTS) as facts:
            kept.update(facts)
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        fail()
    assert dict(os.environ) == before
    assert not os.path.exists(f"/proc/{kept['daemon_pid']}")
