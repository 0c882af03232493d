"""Case 23 (d): the daemon is away for ten minutes of virtual time, and the shim is there as soon as it is back."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from supervisord_mcp import shim
from supervisord_mcp.starter import StartError

AWAY = 600.0


class Absence:
    """The clock of a shim, and a daemon that cannot be started before it comes back."""

    def __init__(self, path: Path) -> None:
        self.now = 5000.0
        self.back_at = self.now + AWAY
        self.starts: list[float] = []
        self.greetings: list[bytes] = []
        self._listening = socket.socket(socket.AF_UNIX)
        self._path = path
        self._thread = threading.Thread(target=self._serve)
        self._there = False

    def sleep(self, *arguments: Any) -> tuple[list[Any], list[Any], list[Any]]:
        """What `select.select` does with nothing but a time-out."""
        self.now += arguments[-1]
        if self.now >= self.back_at and not self._there:
            self._there = True
            self._listening.bind(str(self._path))
            self._listening.listen()
            self._thread.start()
        return [], [], []

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            data, fds, _, _ = socket.recv_fds(connection, 1 << 16, 2)
            self.greetings.append(data)
            for fd in fds:
                socket.close(fd)
            connection.sendall(b"ok the-token\n")
            connection.recv(1)

    def start(self, *_: Any) -> Any:
        """What takes the place of a start: it fails at once, as where the configuration is broken."""

        def wait(*_: Any) -> Any:
            self.starts.append(self.now)
            raise StartError("the daemon cannot start: config.toml:3: unknown key")

        return SimpleNamespace(wait=wait, close=lambda: None)

    def close(self) -> None:
        if self._there:
            self._thread.join(10)
        self._listening.close()


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Absence]:
    monkeypatch.setenv("SMCP_HOME", str(tmp_path))
    monkeypatch.setenv("SMCP_RESUME", "the-token 0 0")
    directory = tmp_path / "run"
    directory.mkdir()
    absence = Absence(directory / shim.SOCKET_NAME)
    monkeypatch.setattr(shim, "_now", lambda: absence.now)
    monkeypatch.setattr(shim, "_new_start", absence.start)
    monkeypatch.setattr(shim, "_host_left", lambda: False)
    monkeypatch.setattr(shim, "select", SimpleNamespace(select=absence.sleep))
    yield absence
    absence.close()


def test_after_ten_minutes_it_is_back_within_five_seconds(away: Absence) -> None:
    session = shim.Session(["s"])
    with shim.open_session(session, [0, 1]):
        assert away.now - away.back_at <= 5.0
        assert session.token == "the-token"
        assert b'"resume":"the-token"' in away.greetings[0]
        assert away.starts[1] - away.starts[0] < 5, "soon at first"
        gaps = [after - before for before, after in itertools.pairwise(away.starts)]
        assert gaps[-1] >= 30, "and seldom later: what fails for minutes is not tried twice a second"
        assert len(away.starts) < 30


def test_after_fifteen_minutes_it_gives_up_and_says_why(away: Absence) -> None:
    away.back_at = float("inf")
    begin = away.now
    with pytest.raises(shim.ShimError, match=r"config\.toml:3: unknown key"):
        shim.open_session(shim.Session(["s"]), [0, 1])
    assert 900 <= away.now - begin < 960


def test_a_host_that_leaves_meanwhile_ends_the_waiting(away: Absence, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim, "_host_left", lambda: away.now > 5060)
    with pytest.raises(shim.ShimError):
        shim.open_session(shim.Session(["s"]), [0, 1])
    assert away.now < 5065
