"""Starting the daemon: once, detached, by the service manager where there is a unit, and what is said if it fails."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.starter import LOCK_NAME, UNIT_NAME, daemon_pid
from tests.kit import probe
from tests.kit.fdaemon import PATIENCE, Installation


@pytest.fixture
def place() -> Iterator[Installation]:
    with probe.LeakGuard(), Installation() as installation:
        yield installation


def results(processes: list[subprocess.Popen[bytes]]) -> list[tuple[int, bytes, bytes]]:
    """Let every host say one word and end; return what came of each."""
    found = []
    for process in processes:
        out, err = process.communicate(b"word\n", timeout=PATIENCE)
        found.append((process.returncode, out, err))
    return found


GOOD = (0, b"word\n", b"")


def test_the_daemon_has_nothing_of_the_shim(place: Installation) -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        ignore = ("/bin/sh", "-c", 'trap "" TERM INT QUIT PIPE USR1; exec "$@"', "sh")
        env = place.environ(NOTIFY_SOCKET="@x", LISTEN_FDS="1", LISTEN_PID="1", INVOCATION_ID="i", OTHER="secret")
        host = place.host("echo", env=env, prefix=ignore, pass_fds=(extra,))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(extra)
    assert results([host]) == [GOOD]
    launched, started = place.events("launched")[0], place.events("started")[0]
    assert launched["ignored"] == [signal.SIGPIPE, signal.SIGXFSZ], "which Python itself ignores"
    assert launched["fds"] == [0, 1, 2, 3], "the last is that of the listing"
    assert started["fds"] == {"0": "/dev/null", "1": str(place.log), "2": str(place.log)}
    assert (started["sid"], started["cwd"]) == (started["pid"], "/")
    assert int(started["blocked"], 16) == 0
    assert started["argv"][1:] == ["run", "--on-demand"]
    assert "OTHER" not in started["environ"], "it may be a secret of this host"
    assert not {"NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "INVOCATION_ID"} & set(started["environ"])
    parent = probe.look(started["pid"])
    assert parent is not None
    assert parent.ppid not in (host.pid, os.getpid())


@pytest.mark.parametrize("run", range(3))
def test_ten_cold_shims_start_one_daemon(place: Installation, run: int) -> None:
    assert results([place.host("echo") for _ in range(10)]) == [GOOD] * 10
    assert len(place.events("launched")) == 1, run


def test_a_slow_start_is_waited_for(place: Installation) -> None:
    env = place.environ({"delay": 1.5})
    assert results([place.host("echo", env=env) for _ in range(3)]) == [GOOD] * 3
    assert len(place.events("launched")) == 1


def test_connecting_while_the_daemon_leaves(place: Installation) -> None:
    env = place.environ({"idle": 0.1})
    for number in range(20):
        assert results([place.host("echo", env=env), place.host("echo", env=env)]) == [GOOD] * 2
        time.sleep(0.04 + 0.004 * number)


def test_a_daemon_that_leaves_at_once_is_started_once_more(place: Installation) -> None:
    assert place.run("leaving", data=b"word\n", env=place.environ({"leavings": 1})).stdout == b"word\n"
    assert len(place.events("launched")) == 2


def test_a_daemon_that_fails_after_it_listened(place: Installation) -> None:
    done = place.run("leaving", data=b"", env=place.environ({"leavings": 9, "words": "the reason"}))
    assert done.returncode == 3
    assert b"the daemon cannot start:\n  the reason\n" in done.stderr
    assert len(place.events("launched")) == 2


def test_an_error_of_the_daemon_is_told_as_a_whole(place: Installation) -> None:
    faults = [f"/config.toml:{number}: servers.s{number}: bad" for number in range(12)]
    env = place.environ({"fail": "\n".join(["some line before", "error[config]:", *faults])})
    done = place.run("echo", env=env)
    told = done.stderr.decode().splitlines()
    assert told[0] == "smcp: the daemon cannot start:"
    assert [line.strip() for line in told[1:14]] == ["error[config]:", *faults]


def test_those_who_waited_for_a_start_in_vain_do_not_try_again(place: Installation) -> None:
    env = place.environ({"delay": 1.0, "fail": "no such thing"})
    found = results([place.host("echo", env=env) for _ in range(4)])
    assert {status for status, _, _ in found} == {3}
    assert all(b"no such thing" in err for _, _, err in found)
    assert len(place.events("launched")) == 1
    assert results([place.host("echo")]) == [GOOD], "a new try is a new start"


def test_a_daemon_that_still_puts_away_is_waited_for(place: Installation) -> None:
    place.runtime.mkdir(parents=True)
    with (place.runtime / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        host = place.changed("echo", "_PATIENCE = 0.4")
        _, err = host.communicate(timeout=PATIENCE)
        assert (host.returncode, place.events()) == (3, [])
        assert b"the daemon with pid unknown is alive but does not answer" in err
        host = place.host("echo")
        fcntl.flock(lock, fcntl.LOCK_UN)
    assert results([host]) == [GOOD]


def test_a_daemon_that_does_not_come_up(place: Installation) -> None:
    host = place.changed("echo", "_PATIENCE = 0.4", place.environ({"delay": 30}))
    _, err = host.communicate(timeout=PATIENCE)
    assert host.returncode == 3
    assert b"the daemon did not come up (waited 0 s); its log: " in err


def test_an_interpreter_that_is_gone(place: Installation) -> None:
    host = place.changed("echo", "sys.executable = '/no/python'")
    _, err = host.communicate(timeout=PATIENCE)
    assert host.returncode == 3
    assert b"the daemon cannot start:\n  /no/python: No such file or directory" in err


def test_a_directory_that_cannot_be_made(place: Installation) -> None:
    done = place.run("echo", env=place.environ(SMCP_HOME="/proc/1/nowhere"))
    assert done.returncode == 3
    assert b"cannot use the directory /proc/1/nowhere/run: No such file or directory\n" in done.stderr


def test_what_the_daemon_says_gets_through_where_its_log_cannot_be_written(place: Installation) -> None:
    place.log.parent.parent.mkdir(parents=True)
    place.log.parent.write_text("a file in the place of the directory")
    done = place.run("echo", env=place.environ({"fail": "the reason"}))
    log = place.runtime / "daemon.log"
    assert done.stderr.decode() == f"smcp: the daemon cannot start:\n  the reason\n  (its log: {log})\n"
    assert log.read_bytes() == b"the reason\n"


def test_a_long_log_is_put_aside(place: Installation) -> None:
    place.log.parent.mkdir(parents=True)
    place.log.write_bytes(b"x" * (1 << 20) + b"\n")
    done = place.run("echo", env=place.environ({"fail": "the reason"}))
    assert done.stderr.startswith(b"smcp: the daemon cannot start:\n  the reason\n")
    assert place.log.read_bytes() == b"the reason\n"
    assert place.log.with_name("daemon.log.1").stat().st_size > 1 << 20


# The service manager

SYSTEMCTL = """#!/bin/sh
echo "$@" >> {calls}
{then}
"""


def with_unit(place: Installation, then: str) -> dict[str, str]:
    """Install a unit file and a service manager; return the environment of a host without SMCP_HOME."""
    unit = place.user / ".config" / "systemd" / "user" / UNIT_NAME
    unit.parent.mkdir(parents=True)
    unit.touch()
    commands = place.root / "bin"
    commands.mkdir()
    (commands / "systemctl").write_text(SYSTEMCTL.format(calls=place.root / "calls", then=then))
    (commands / "systemctl").chmod(0o755)
    runtime = place.root / "runtime"
    runtime.mkdir()
    env = place.environ(XDG_RUNTIME_DIR=str(runtime), PATH=f"{commands}:/usr/bin:/bin")
    del env["SMCP_HOME"]
    return env


def test_a_unit_is_started_by_the_service_manager(place: Installation) -> None:
    env = with_unit(place, f"setsid {place.python} -I -m supervisord_mcp run </dev/null >/dev/null 2>&1 &")
    assert results([place.host("echo", env=env)]) == [GOOD]
    assert (place.root / "calls").read_text() == f"--user start {UNIT_NAME}\n"
    assert place.events("started")[0]["argv"][1:] == ["run"]


def test_without_a_working_service_manager_the_daemon_starts_all_the_same(place: Installation) -> None:
    env = with_unit(place, "echo Failed to connect to bus >&2; exit 1")
    assert results([place.host("echo", env=env)]) == [GOOD]
    assert place.events("started")[0]["argv"][1:] == ["run", "--on-demand"]


def test_a_service_manager_that_hangs_costs_the_start_and_nothing_else(place: Installation) -> None:
    env = with_unit(place, "exec sleep 100")
    host = place.changed("echo", "_PATIENCE = 1.0", env)
    out, _ = host.communicate(b"word\n", timeout=PATIENCE)
    assert out in (b"", b"word\n")
    assert [line for line in map(cmdline, place.living()) if "sleep" in line] == []


def test_a_daemon_of_its_own_is_not_the_unit(place: Installation) -> None:
    env = with_unit(place, "exit 0")
    assert results([place.host("echo", env=env | {"SMCP_HOME": str(place.home)})]) == [GOOD]
    assert not (place.root / "calls").exists()


def cmdline(pid: int) -> str:
    """Return the command of a process, empty if it is gone."""
    found = probe.look(pid)
    return "" if found is None else found.cmdline


# Who owns the directory


def test_the_owner_is_who_holds_the_lock(tmp_path: Path) -> None:
    assert daemon_pid(str(tmp_path)) is None
    (tmp_path / LOCK_NAME).write_text("123\n")
    assert daemon_pid(str(tmp_path)) is None
    with (tmp_path / LOCK_NAME).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert daemon_pid(str(tmp_path)) == "123"
    assert daemon_pid(str(tmp_path)) is None
