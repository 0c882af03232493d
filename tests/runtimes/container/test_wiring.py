"""Connections of the library: they can be cut from outside, whatever they wait for."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import docker
import pytest
import requests

from supervisord_mcp.runtimes.container.bridge import Bridge
from supervisord_mcp.runtimes.container.wiring import Cut, through


def test_what_waits_for_the_first_byte_of_an_answer_is_cut(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent, contextlib.closing(_client(f"unix://{tmp_path}/s")) as client:
        silent.bind(f"{tmp_path}/s")
        silent.listen()
        cut = Cut(client)
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                client.ping()
            except requests.RequestException as error:
                ended.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        asked, _ = silent.accept()
        with asked:
            assert asked.recv(1)
            cut.now()
            asking.join(10)
        assert not asking.is_alive()
        assert ended


def test_nothing_begins_after_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as silent, contextlib.closing(_client(f"unix://{tmp_path}/s")) as client:
        silent.bind(f"{tmp_path}/s")
        silent.listen()
        cut = Cut(client)
        cut.now()
        assert cut.done
        with pytest.raises(requests.RequestException):
            client.ping()


def test_a_client_asks_through_a_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = r"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nOK"
    (tmp_path / "ssh").write_text(f"#!/bin/sh\nread line\nprintf '{answer}'\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    bridge = Bridge("ssh://there")
    with contextlib.closing(through(_client("tcp://there:1"), bridge)) as client:
        assert client.ping() is True
    bridge.close()


def _client(url: str) -> docker.APIClient:
    return docker.APIClient(url, version="1.40", timeout=None)  # type: ignore[arg-type]
