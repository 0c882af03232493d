"""The command that speaks with an engine behind ssh; `test_stream` has a server there."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.container.bridge import Bridge, command
from supervisord_mcp.runtimes.container.engine import Engine, EngineError


def test_it_is_that_of_docker_and_asks_nobody() -> None:
    words = command("ssh://me@there:2222")
    assert words[words.index("-l") + 1] == "me"
    assert words[words.index("-p") + 1] == "2222"
    assert words[-5:] == ["--", "there", "docker", "system", "dial-stdio"]
    assert "BatchMode=yes" in words


def test_bytes_pass_both_ways_and_so_does_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, "exec cat")
    bridge = Bridge("ssh://there")
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(10)
            made.connect(bridge.path)
            made.sendall(b"hello")
            made.shutdown(socket.SHUT_WR)
            assert made.recv(100) == b"hello"
            assert made.recv(100) == b""
    finally:
        bridge.close()
    assert not Path(bridge.path).parent.exists()


def test_what_ssh_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, "echo 'Permission denied (publickey).' >&2; exit 255")
    engine = Engine("ssh://there", {})
    with pytest.raises(EngineError, match=r"Permission denied \(publickey\)") as caught:
        engine.do(lambda client: client.ping())
    assert "ssh -T" in caught.value.remedy


def _ssh(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (place / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (place / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")
