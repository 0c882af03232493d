"""The lock and the socket of the daemon (case 17)."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.endpoint import LONGEST_PATH, Endpoint
from supervisord_mcp.errors import DaemonAliveError, SmcpError
from tests.kit import probe
from tests.kit.fdaemon import PATIENCE, Installation


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    with probe.LeakGuard():
        yield tmp_path / "run"


def connects(path: str | Path) -> bool:
    """Return whether somebody listens there."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
        return True


def test_a_socket_for_this_user_alone_and_nothing_left_of_it(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        assert endpoint.path == str(directory / "daemon.sock")
        assert not endpoint.socket.getblocking()
        assert connects(endpoint.path)
        assert (directory / "daemon.lock").read_text() == f"{os.getpid()}\n"
        endpoint.socket.accept()[0].close()
        with pytest.raises(BlockingIOError):
            endpoint.socket.accept()
    endpoint.close()
    assert sorted(entry.name for entry in directory.iterdir()) == ["daemon.lock"]
    Endpoint(directory).close()


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_modes_do_not_depend_on_the_umask(directory: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with Endpoint(directory / "deep") as endpoint:
            assert stat.S_IMODE(os.stat(endpoint.directory).st_mode) == 0o700
            assert stat.S_IMODE(os.stat(endpoint.path).st_mode) == 0o600
    finally:
        os.umask(before)


def test_a_wide_directory_is_closed(directory: Path) -> None:
    directory.mkdir(mode=0o755)
    with Endpoint(directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_second_one_is_refused(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        answering = threading.Thread(target=answer_once, args=(endpoint.socket,))
        answering.start()
        with pytest.raises(DaemonAliveError, match=f"daemon pid {os.getpid()} is alive and listens"):
            Endpoint(directory)
        answering.join(PATIENCE)
        assert connects(endpoint.path)


def answer_once(listening: socket.socket) -> None:
    """Hang up on one client, as a listener does on what is not a greeting."""
    listening.setblocking(True)
    listening.accept()[0].close()


def test_a_stopped_daemon_is_alive() -> None:
    with Installation() as place:
        place.run("echo")
        pid = place.daemon()
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(DaemonAliveError, match=f"daemon pid {pid} is alive but does not answer"):
            Endpoint(place.runtime)
        os.kill(pid, signal.SIGCONT)
        assert place.run("echo", data=b"word\n").stdout == b"word\n"


def test_of_twenty_who_come_after_a_kill_one_lives() -> None:
    with Installation() as place:
        place.run("echo")
        os.kill(place.daemon(), signal.SIGKILL)
        command = [str(place.python), "-I", "-m", "supervisord_mcp", "run"]
        options: dict[str, Any] = {
            "env": place.environ(),
            "cwd": place.work,
            "stderr": subprocess.PIPE,
            "stdout": subprocess.PIPE,
        }
        place.started += [subprocess.Popen(command, **options) for _ in range(20)]
        winner = place.wait_for("started", 2)[-1]["pid"]
        losers = [process for process in place.started[1:] if process.pid != winner]
        assert {process.wait(PATIENCE) for process in losers} == {1}
        assert len(losers) == 19
        assert place.run("echo", data=b"word\n").stdout == b"word\n"
        assert place.daemon() == winner


def test_a_stale_socket_is_replaced(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(directory / "daemon.sock"))
    with Endpoint(directory) as endpoint:
        assert connects(endpoint.path)


def test_an_owner_that_did_not_end_in_order_is_told(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        assert endpoint.crashed is None
    with Endpoint(directory) as endpoint:
        assert endpoint.crashed is None
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(directory / "daemon.sock"))
    with Endpoint(directory) as endpoint:
        assert endpoint.crashed == str(os.getpid())


@pytest.mark.parametrize("kind", ["a regular file", "a directory", "a symbolic link", "a fifo"])
def test_what_is_no_socket_is_refused_and_stays(directory: Path, kind: str) -> None:
    directory.mkdir(mode=0o700)
    path = directory / "daemon.sock"
    match kind:
        case "a regular file":
            path.write_text("precious")
        case "a directory":
            path.mkdir()
        case "a symbolic link":
            path.symlink_to("somewhere")
        case _:
            os.mkfifo(path)
    before = os.lstat(path)
    with pytest.raises(SmcpError, match=f"{path} is {kind}"):
        Endpoint(directory)
    assert os.lstat(path) == before


def test_the_longest_path(tmp_path: Path) -> None:
    room = LONGEST_PATH - len("/daemon.sock")
    base = Path("/tmp") / tmp_path.name
    fits, long = (Path(str(base).ljust(size, "x")) for size in (room, room + 1))
    try:
        with Endpoint(fits) as endpoint:
            assert len(endpoint.path) == LONGEST_PATH == 107
            assert connects(endpoint.path)
        with pytest.raises(SmcpError, match=f"is 108 bytes long, the limit is 107: {long}/daemon.sock"):
            Endpoint(long)
        assert not long.exists()
    finally:
        subprocess.run(["rm", "-rf", str(fits)], check=True)


def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(SmcpError, match="is a symbolic link of uid"):
        Endpoint(tmp_path / "link")
    (tmp_path / "file").touch()
    with pytest.raises(SmcpError, match="is a regular file of uid"):
        Endpoint(tmp_path / "file")
    with pytest.raises(SmcpError, match="cannot make the directory"):
        Endpoint(tmp_path / "file" / "below")
    assert list((tmp_path / "target").iterdir()) == []


def test_a_directory_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4321)
    with pytest.raises(SmcpError, match=r"not a directory of uid 4321"):
        Endpoint(tmp_path)


def test_the_node_of_a_successor_stays(directory: Path) -> None:
    first = Endpoint(directory)
    successor = socket.socket(socket.AF_UNIX)
    successor.bind(str(directory / "new"))
    successor.listen()
    (directory / "new").rename(first.path)
    assert not first.rebind_if_lost(), "somebody listens there"
    first.close()
    assert connects(directory / "daemon.sock")
    successor.close()


def test_a_deleted_socket_is_bound_again(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        assert not endpoint.rebind_if_lost()
        client = socket.socket(socket.AF_UNIX)
        client.connect(endpoint.path)
        served, _ = endpoint.socket.accept()
        before = endpoint.socket
        os.unlink(endpoint.path)
        assert endpoint.rebind_if_lost()
        assert endpoint.socket is not before
        assert before.fileno() == -1
        assert connects(endpoint.path)
        assert stat.S_IMODE(os.stat(endpoint.path).st_mode) == 0o600
        client.sendall(b"still here")
        assert served.recv(100) == b"still here"
        client.close()
        served.close()
        assert not endpoint.rebind_if_lost()


def test_a_dead_socket_in_its_place_is_replaced_and_a_file_is_not(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        os.unlink(endpoint.path)
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(endpoint.path)
        assert endpoint.rebind_if_lost()
        assert connects(endpoint.path)
        os.unlink(endpoint.path)
        Path(endpoint.path).write_text("precious")
        assert not endpoint.rebind_if_lost()
    assert (directory / "daemon.sock").read_text() == "precious"


def test_a_deleted_directory_is_made_again(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        subprocess.run(["rm", "-rf", str(directory)], check=True)
        assert endpoint.rebind_if_lost()
        assert connects(endpoint.path)
        with pytest.raises(DaemonAliveError):
            Endpoint(directory)


def test_after_its_lock_was_deleted_another_may_be_the_owner(directory: Path) -> None:
    with Endpoint(directory) as endpoint:
        (directory / "daemon.lock").unlink()
        assert not endpoint.rebind_if_lost()
        (directory / "daemon.lock").unlink()
        (directory / "daemon.sock").unlink()
        with Endpoint(directory) as other:
            with pytest.raises(DaemonAliveError):
                endpoint.rebind_if_lost()
            assert connects(other.path)
            endpoint.close_socket()
            assert connects(other.path)


def test_the_pointer_of_another_owner_of_the_same_directory_stays(directory: Path, tmp_path: Path) -> None:
    pointer = tmp_path / "state" / "runtime"
    with Endpoint(directory, pointer=pointer) as endpoint:
        subprocess.run(["rm", "-rf", str(directory)], check=True)
        with Endpoint(directory, pointer=pointer) as other:
            endpoint.close()
            assert pointer.read_text() == f"{directory}\n"
            assert connects(other.path)


def test_who_is_not_to_be_found_any_more_keeps_the_lock(directory: Path) -> None:
    endpoint = Endpoint(directory)
    endpoint.close_socket()
    assert not (directory / "daemon.sock").exists()
    assert not endpoint.rebind_if_lost()
    with pytest.raises(DaemonAliveError):
        Endpoint(directory)
    endpoint.close()
    Endpoint(directory).close()


def test_the_pointer(directory: Path, tmp_path: Path) -> None:
    pointer = tmp_path / "state" / "runtime"
    with Endpoint(directory, pointer=pointer) as endpoint:
        assert pointer.read_text() == f"{directory}\n"
        assert stat.S_IMODE(pointer.stat().st_mode) == 0o600
        assert endpoint.pointer_problem is None
    assert list(pointer.parent.iterdir()) == []
    with Endpoint(directory, pointer=pointer):
        pointer.write_text("/another\n")
    assert pointer.read_text() == "/another\n"
    with Endpoint(directory, pointer=pointer / "below") as endpoint:
        assert "Not a directory" in str(endpoint.pointer_problem) or "File exists" in str(endpoint.pointer_problem)
        assert connects(endpoint.path)
