"""The place for metrics is there exactly where the configuration says so, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from pathlib import Path

import pytest

from supervisord_mcp.config.daemon import Metrics
from supervisord_mcp.exporter import Exporter
from supervisord_mcp.metrics.exposition import Snapshot
from supervisord_mcp.protocol.usage import UsageResult
from tests.kit.bounded import bounded

LIMIT = 20


async def look() -> Snapshot:
    return Snapshot(UsageResult(at=0.0), "1", 7.0)


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port that nobody had a moment ago."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


async def answers(family: int, address: object) -> bool:
    """Return whether metrics are to be had there."""

    def ask() -> bool:
        with socket.socket(family) as asking:
            asking.settimeout(10)
            try:
                asking.connect(address)  # type: ignore[arg-type]
            except OSError:
                return False
            asking.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return b"smcp_daemon_start_time_seconds" in b"".join(iter(lambda: asking.recv(65536), b""))

    return await asyncio.to_thread(ask)


@bounded(LIMIT)
async def test_it_goes_where_the_configuration_says(tmp_path: Path) -> None:
    exporter = Exporter(look)
    exporter.configure(Metrics())
    assert exporter.trouble == ""
    port = free_port()
    exporter.configure(Metrics(listen=f"127.0.0.1:{port}"))
    assert await answers(socket.AF_INET, ("127.0.0.1", port))
    exporter.configure(Metrics(listen=f"127.0.0.1:{port}", calls=False))
    assert await answers(socket.AF_INET, ("127.0.0.1", port)), "it is left alone"
    path = tmp_path / "m"
    exporter.configure(Metrics(listen=f"unix:{path}"))
    assert not await answers(socket.AF_INET, ("127.0.0.1", port))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert await answers(socket.AF_UNIX, str(path))
    exporter.configure(Metrics(listen=f"[::1]:{port}"))
    assert not path.exists()
    assert await answers(socket.AF_INET6, ("::1", port))
    exporter.close()
    assert not await answers(socket.AF_INET6, ("::1", port))
    exporter.close()


@bounded(LIMIT)
async def test_what_is_in_the_way_is_told_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    exporter = Exporter(look)
    path = tmp_path / "m"
    path.write_text("mine")
    exporter.configure(Metrics(listen=f"unix:{path}"))
    trouble = f"metrics are not to be had on unix:{path}: something that is no socket is there"
    assert exporter.trouble == f"{trouble}; smcp reload tries again"
    assert path.read_text() == "mine"
    path.unlink()
    exporter.configure(Metrics(listen=f"unix:{path}"))
    assert exporter.trouble == ""
    other = Exporter(look)
    other.configure(Metrics(listen=f"unix:{path}"))
    assert other.trouble.endswith("Address already in use; smcp reload tries again")
    other.close()
    assert await answers(socket.AF_UNIX, str(path)), "the first one goes on"
    exporter.configure(Metrics(listen=f"unix:{tmp_path}/no/m"))
    assert exporter.trouble.endswith("No such file or directory; smcp reload tries again")
    assert not path.exists()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    exporter.configure(Metrics(listen=f"unix:{path}"))
    assert await answers(socket.AF_UNIX, str(path)), "what a dead daemon left is replaced"
    os.unlink(path)
    path.write_text("new")
    exporter.close()
    assert path.read_text() == "new", "only its own socket goes with it"
    assert [record.levelname for record in caplog.records if record.levelname == "ERROR"] == ["ERROR"] * 3


def test_who_wants_no_metrics_does_not_pay_for_them() -> None:
    import subprocess

    program = "import sys, supervisord_mcp.daemon; print([name for name in sys.modules if 'prometheus' in name])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"
