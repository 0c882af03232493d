"""The command that speaks with an engine behind ssh; `test_stream` has a server there."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.container.bridge import Bridge, command, remedy
from supervisord_mcp.runtimes.container.engine import Engine, EngineError
from tests.kit.required import need


def test_it_is_that_of_docker_and_asks_nobody() -> None:
    words = command("ssh://me@there:2222")
    assert words[words.index("-l") + 1] == "me"
    assert words[words.index("-p") + 1] == "2222"
    assert words[-5:] == ["--", "there", "docker", "system", "dial-stdio"]
    assert "BatchMode=yes" in words


def test_it_names_the_socket_and_the_machine_as_they_are_written() -> None:
    words = command("ssh://BuildBox/run/user/1000/my docker.sock")
    assert words[words.index("--") :] == [
        *("--", "BuildBox", "docker", "--host", "'unix:///run/user/1000/my docker.sock'", "system", "dial-stdio")
    ]
    assert command("ssh://me%40corp@[::1]:22")[-6:] == ["22", "--", "::1", "docker", "system", "dial-stdio"]


def test_bytes_pass_both_ways_and_so_does_their_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, "exec cat")
    bridge = Bridge("ssh://there")
    try:
        with bridge.open() as made:
            made.settimeout(10)
            made.sendall(b"hello")
            made.shutdown(socket.SHUT_WR)
            assert made.recv(100) == b"hello"
            assert made.recv(100) == b""
        assert bridge.give_up() == ""
    finally:
        bridge.close()


def test_what_goes_on_is_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, "exec cat")
    bridge = Bridge("ssh://there")
    with bridge.open() as made:
        made.settimeout(10)
        bridge.close()
        assert made.recv(100) == b""


def test_what_ssh_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ssh(tmp_path, monkeypatch, "echo 'Permission denied (publickey).' >&2; exit 255")
    engine = Engine("ssh://there", {})
    with pytest.raises(EngineError, match=r"Permission denied \(publickey\)") as caught:
        engine.do(lambda client: client.ping())
    assert "Try it: ssh -o BatchMode=yes -- there true" in caught.value.remedy


def test_a_machine_that_takes_a_connection_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    need(shutil.which("ssh"), "ssh (Debian: openssh-client)")
    monkeypatch.setattr("supervisord_mcp.runtimes.container.bridge.CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        engine = Engine(f"ssh://127.0.0.1:{silent.getsockname()[1]}", {})
        with pytest.raises(EngineError, match="banner") as caught:
            engine.do(lambda client: client.ping())
    assert "Try it: ssh -T" in caught.value.remedy
    engine.close()


def test_a_machine_without_ssh_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineError, match="there is no ssh here") as caught:
        Engine("ssh://there", {}).do(lambda client: client.ping())
    assert "openssh-client" in caught.value.remedy


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Host key verification failed.", "by hand: ssh -l me -p 2222 -- there"),
        ("me@there: Permission denied (publickey).", "SSH_AUTH_SOCK"),
        ("sh: 1: docker: not found", "Install the command docker on there"),
        ("bash: docker: command not found", "Install the command docker on there"),
        ("ssh: connect to host there port 2222: Connection refused", "Try it: ssh -T"),
    ],
)
def test_what_ssh_says_leads_to_what_to_do(said: str, expected: str) -> None:
    assert expected in remedy("ssh://me@there:2222", said)


def _ssh(place: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (place / "ssh").write_text(f"#!/bin/sh\n{script}\n")
    (place / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(place), prepend=":")
