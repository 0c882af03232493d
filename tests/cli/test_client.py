"""The client of the control socket: what it sends, what it waits for, and every way a daemon can disappoint it."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from supervisord_mcp import shim
from supervisord_mcp.cli.client import Client, connected, reload_daemon
from supervisord_mcp.errors import (
    ConfigError,
    FatalServerError,
    FramingError,
    NoDaemonError,
    Problem,
    SmcpError,
    UnknownServerError,
)
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.news import LogLine
from tests.cli.daemon import FakeDaemon, HangUp, Silence, Stream, raw


def test_greets_and_asks(daemon: FakeDaemon) -> None:
    with connected() as client:
        result = client.ask_for(control.Version(), control.VersionResult)
    assert result.pid == os.getpid()
    assert daemon.hellos[0].role == "control"
    assert daemon.hellos[0].pid == os.getpid()
    assert not daemon.hellos[0].environ


def test_only_what_may_start_a_server_takes_the_environment_along(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    monkeypatch.setenv("TOKEN", "mine")
    with connected(as_host=True) as client:
        client.ask(control.Version())
    (said,) = daemon.hellos
    assert (said.role, said.environ["TOKEN"], said.cwd) == ("control", "mine", str(home))


def test_several_requests_on_one_connection(daemon: FakeDaemon) -> None:
    daemon.answers[control.Stop] = None
    with connected() as client:
        assert bytes(client.ask(control.Stop(all=True))) == b"null"
        assert client.ask_for(control.Version(), control.VersionResult).version == "0.1.0"
    assert daemon.asked == [control.Stop(all=True), control.Version()]


def test_an_accepting_greeting_is_passed_over(home: Path) -> None:
    fake = FakeDaemon(home, greeting=b"ok token\n")
    with connected() as client:
        assert client.ask_for(control.Version(), control.VersionResult).pid == os.getpid()
    fake.close()


def test_a_refusing_greeting_is_an_error(home: Path) -> None:
    fake = FakeDaemon(home, greeting="no 3 too many\u2028come back\n".encode())
    with connected() as client, pytest.raises(SmcpError) as caught:
        client.ask(control.Version())
    assert caught.value.message == "too many\ncome back"
    assert caught.value.exit_status == 3
    fake.close()


def test_error_of_the_daemon_keeps_code_and_status(daemon: FakeDaemon) -> None:
    daemon.answers[control.Start] = UnknownServerError("no server x", remedy="smcp list")
    with connected() as client:
        with pytest.raises(SmcpError, match="no server x") as caught:
            client.ask(control.Start(names=("x",)))
        assert (caught.value.code, caught.value.exit_status) == ("unknown-server", 4)
        # One refused request does not spoil the connection.
        client.ask(control.Version())


def test_error_for_no_request_in_particular_is_raised(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = control.error_line(0, FatalServerError("out of order"))
    with connected() as client, pytest.raises(SmcpError, match="out of order"):
        client.ask(control.Status())


def test_replies_to_others_are_passed_over(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = control.result_line(99, "old") + control.result_line(1, "new")
    with connected() as client:
        assert bytes(client.ask(control.Status())) == b'"new"'


def test_stream(daemon: FakeDaemon) -> None:
    daemon.answers[control.Logs] = Stream([LogLine(line="a"), LogLine(line="b")])
    with connected() as client:
        lines = [control.parse_result(item, LogLine).line for item in client.stream(control.Logs(name="x"))]
        assert lines == ["a", "b"]
        client.ask(control.Version())


def test_stream_that_breaks_off(daemon: FakeDaemon) -> None:
    answer = Stream([LogLine(line="a")])
    answer.cut = True
    daemon.answers[control.Logs] = answer
    with connected() as client:
        stream = client.stream(control.Logs(name="x", follow=True))
        assert control.parse_result(next(stream), LogLine).line == "a"
        with pytest.raises(NoDaemonError, match="ended"):
            next(stream)


def test_a_long_answer_arrives_whole(daemon: FakeDaemon) -> None:
    daemon.answers[control.Call] = raw("x" * 3_000_000)
    with connected() as client:
        assert len(bytes(client.ask(control.Call(name="a", tool="t")))) == 3_000_002


def test_a_stream_where_an_answer_belongs(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = Stream([1])
    with connected() as client, pytest.raises(FramingError, match="upgrade"):
        client.ask(control.Status())


def test_garbage_is_an_error(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = b"garbage\n"
    with connected() as client, pytest.raises(FramingError):
        client.ask(control.Status())


def test_a_silent_daemon_is_named(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = Silence()
    with connected() as client, pytest.raises(SmcpError, match=rf"pid {os.getpid()} is alive.*0\.05 s") as caught:
        client.ask(control.Status(), timeout=0.05)
    assert (caught.value.code, caught.value.exit_status) == ("no-answer", 3)


def test_a_daemon_that_hangs_up(daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = HangUp()
    with connected() as client, pytest.raises(NoDaemonError, match="before it answered"):
        client.ask(control.Status())


def test_a_daemon_that_does_not_even_read(home: Path) -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with Client(ours) as client, pytest.raises(NoDaemonError):
        client.ask(control.Status())


def test_no_daemon(home: Path) -> None:
    with pytest.raises(NoDaemonError, match="no daemon runs") as caught, connected():
        pass
    assert str(home / "run" / "daemon.sock") in caught.value.message
    assert "smcp up" in caught.value.remedy
    assert caught.value.exit_status == 3


def test_a_stale_socket_is_no_daemon(home: Path) -> None:
    (home / "run").mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "run" / "daemon.sock"))
    with pytest.raises(NoDaemonError), connected():
        pass


def test_start_on_demand_is_the_shim_s(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def reach(environ: object, uid: int) -> socket.socket:
        started.append(uid)
        fake = FakeDaemon(home)
        fakes.append(fake)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(fake.path)
        return connection

    fakes: list[FakeDaemon] = []
    monkeypatch.setattr(shim, "reach_daemon", reach)
    with connected(start=True) as client:
        client.ask(control.Version())
    assert started == [os.getuid()]
    fakes[0].close()


def test_what_the_shim_cannot_do_is_no_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(environ: object, uid: int) -> socket.socket:
        raise shim.ShimError(3, "the daemon cannot start:\n  no memory")

    monkeypatch.setattr(shim, "reach_daemon", reach)
    with pytest.raises(NoDaemonError, match="no memory"), connected(start=True):
        pass


def test_a_configuration_that_lets_no_daemon_start_is_told_in_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reach(environ: object, uid: int) -> socket.socket:
        raise shim.ShimError(3, "the daemon cannot start:\n  the last lines", final=False)

    monkeypatch.setattr(shim, "reach_daemon", reach)
    with pytest.raises(NoDaemonError, match="the last lines"), connected(start=True):
        pass
    file = home / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text("".join(f"[servers.s{number}]\ncomand = 'x'\n" for number in range(20)))
    with pytest.raises(ConfigError) as caught, connected(start=True):
        pass
    assert (len(caught.value.problems), caught.value.exit_status) == (20, 2)


def test_reload_of_whatever_runs(home: Path) -> None:
    reload_daemon()
    fake = FakeDaemon(home)
    reload_daemon()
    assert fake.asked == [control.Reload()]
    fake.answers[control.Reload] = HangUp()
    reload_daemon()
    fake.answers[control.Reload] = ConfigError((Problem("/c", 1, "", "bad"),))
    with pytest.raises(SmcpError, match="bad"):
        reload_daemon()
    fake.close()


def test_a_daemon_that_does_not_reload_is_named(daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answers[control.Reload] = Silence()
    monkeypatch.setattr("supervisord_mcp.cli.client.SLOW", 0.05)
    with pytest.raises(SmcpError, match="is alive"):
        reload_daemon()


def test_wait_closed(daemon: FakeDaemon) -> None:
    daemon.answers[control.Down] = None
    with connected() as client:
        client.ask(control.Down())
        assert not client.wait_closed(0.05)
        threading.Timer(0.05, daemon._connections[0].shutdown, (socket.SHUT_RDWR,)).start()
        assert client.wait_closed(5)
