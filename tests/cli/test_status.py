"""``smcp status``, for people and for programs."""

from __future__ import annotations

import json

import msgspec
import pytest
from rich.text import Text

from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.control import DaemonStatus, InstanceStatus, ServerStatus, StatusResult
from supervisord_mcp.protocol.usage import ServerUsage, UsageResult
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines

STATUS = StatusResult(
    daemon=DaemonStatus(pid=7, version="0.1.0", uptime=7384.2, socket="/run/x/daemon.sock", sessions=3),
    servers=(
        ServerStatus(
            name="git",
            state="RUNNING",
            scope="global",
            runtime="bwrap",
            profile="node",
            beyond=("network", "mounts"),
            isolation="sandbox",
            start="on-demand",
            catalogue=True,
            sessions=3,
            instances=(
                InstanceStatus(
                    key="git/1", state="RUNNING", pid=42, generation=2, sessions=3, uptime=61, isolation="sandbox"
                ),
            ),
        ),
        ServerStatus(
            name="files",
            state="STARTING",
            scope="project",
            runtime="bare",
            profile="default",
            isolation="none",
            sessions=2,
            restarts=1,
            instances=(
                InstanceStatus(key="f/1", state="STARTING", phase="installing", project="/src/a"),
                InstanceStatus(key="f/2", state="RUNNING", pid=43, uptime=5, project="/src/b", sessions=2),
            ),
        ),
        ServerStatus(name="bad", state="FATAL", last_error="exit status 1\n\x1b[31mTraceback\x1b]0;x\x07"),
    ),
)


def test_status_fits_80_columns(smcp: Smcp, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    git, *_ = STATUS.servers
    running = msgspec.structs.replace(git.instances[0], pid=1234567, uptime=7384)
    server = msgspec.structs.replace(git, name="filesystem", profile="python-net", instances=(running,))
    daemon.answers[control.Status] = msgspec.structs.replace(STATUS, servers=(server,))
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    _, head, line = [Text.from_ansi(line).plain for line in smcp("status").out.splitlines()]
    assert len(line) <= 80
    assert head.split() == ["SERVER", "STATE", "PID", "UPTIME", "SESSIONS", "RESTARTS", "PROFILE", "RUNTIME"]


def test_status(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    ran = smcp("status")
    assert ran.status == 0
    assert clean_lines(ran.out) == [
        "daemon pid 7, version 0.1.0, up 2h 3m, 3 sessions, /run/x/daemon.sock",
        "SERVER   STATE     PID  UPTIME  SESSIONS  SCOPE    RESTARTS  PROFILE  RUNTIME",
        "git      RUNNING   42   1m 1s   3         global   0         node+    bwrap (sandbox)",
        "files    STARTING  -    -       2         project  1         default  bare (none)",
        "  files  STARTING  -    -       0                  0",
        "    project /src/a",
        "    installing",
        "  files  RUNNING   43   5s      2                  0",
        "    project /src/b",
        "bad      FATAL     -    -       0                  0",
        "    last error: exit status 1 …",
    ]
    assert "\x1b" not in ran.out


def test_status_of_one_server_has_its_whole_error(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    ran = smcp("status", "bad")
    assert ran.status == 0
    assert "daemon pid" not in ran.out
    assert clean_lines(ran.out)[-2:] == ["    last error: exit status 1", "      Traceback\\x1b]0;x\\x07"]


def test_status_of_one_server_says_what_it_has_beyond_its_profile(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    note = "    profile node, and beyond it by its entry: network, mounts"
    assert note in clean_lines(smcp("status", "git").out)
    assert note not in clean_lines(smcp("status").out)


def test_status_of_an_unknown_server(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    ran = smcp("status", "gti")
    assert ran.status == 4
    assert ran.err.startswith("error[unknown-server]: no server 'gti' in the configuration (known: ")


def test_status_json_is_the_object_of_the_daemon(smcp: Smcp, daemon: FakeDaemon) -> None:
    answer = {**json.loads(msgspec.json.encode(STATUS)), "new": {"big": 12345678901234567890123}}
    daemon.answers[control.Status] = msgspec.Raw(json.dumps(answer).encode())
    assert json.loads(smcp("status", "--json").out) == answer


def test_status_json_of_one_server(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    found = json.loads(smcp("status", "git", "--json").out)
    assert list(found) == ["daemon", "servers"]
    assert [server["name"] for server in found["servers"]] == ["git"]
    assert found["servers"][0]["instances"][0]["pid"] == 42


def test_status_of_several_servers(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = STATUS
    rows = [line for line in clean_lines(smcp("status", "bad", "git", "bad").out) if not line.startswith(" ")]
    assert [row.split()[0] for row in rows] == ["SERVER", "bad", "git"]
    found = json.loads(smcp("status", "bad", "git", "--json").out)
    assert [server["name"] for server in found["servers"]] == ["bad", "git"]
    assert smcp("status", "bad", "gti").status == 4
    usage = UsageResult(at=1.0, servers=tuple(ServerUsage(name=name) for name in ("git", "files", "bad")))
    daemon.answers[control.Usage] = usage
    found = json.loads(smcp("status", "bad", "git", "--usage", "--json").out)
    assert [server["name"] for server in found["usage"]["servers"]] == ["bad", "git"]
    assert daemon.asked[-1] == control.Usage(fresh=True)


def test_status_shows_problems(smcp: Smcp, daemon: FakeDaemon) -> None:
    sick = DaemonStatus(
        pid=1,
        version="1",
        uptime=1,
        socket="/s",
        problems=("/c:1: bad",),
        logging="degraded: full",
        audit="/a: full",
        hosts=("x",),
    )
    daemon.answers[control.Status] = StatusResult(daemon=sick)
    ran = smcp("status")
    assert clean_lines(ran.out)[1:] == [
        "problem: /c:1: bad",
        "hosts: x",
        "logging: degraded: full",
        "audit: /a: full",
        "no servers are configured; add one with: smcp add NAME -- COMMAND",
    ]


def test_status_tells_several_of_the_same_apart(smcp: Smcp, daemon: FakeDaemon) -> None:
    here = InstanceStatus(key="a/1", state="RUNNING", differs=("program /bin/uvx", "variables A, B"))
    there = InstanceStatus(key="a/2", state="FATAL", differs=("program uvx (not found)", "variables A, B"))
    servers = (ServerStatus(name="a", state="FATAL", instances=(here, there)),)
    daemon.answers[control.Status] = StatusResult(daemon=STATUS.daemon, servers=servers)
    assert [line.strip() for line in clean_lines(smcp("status").out) if "differs" in line] == [
        "differs from the others in: program /bin/uvx; variables A, B",
        "differs from the others in: program uvx (not found); variables A, B",
    ]


def test_status_shows_the_last_line_of_stderr_where_there_is_room_for_one(smcp: Smcp, daemon: FakeDaemon) -> None:
    error = "exit 1; last lines of stderr:\nTraceback\n  no such table"
    here = InstanceStatus(key="a/1", state="FATAL", last_error=error)
    servers = (ServerStatus(name="a", state="FATAL", last_error=error, instances=(here,)),)
    daemon.answers[control.Status] = StatusResult(daemon=STATUS.daemon, servers=servers)
    assert clean_lines(smcp("status").out)[-1] == "    last error: exit 1; stderr: no such table"
    assert "last lines of stderr:" in smcp("status", "a").out


def test_status_tells_what_was_dropped(smcp: Smcp, daemon: FakeDaemon) -> None:
    usual = InstanceStatus(key="a/1", state="RUNNING", dropped={"late": 4})
    faulty = InstanceStatus(key="b/1", state="RUNNING", dropped={"late": 1, "noise": 2, "unknown": 3, "new": 9})
    daemon.answers[control.Status] = StatusResult(
        daemon=STATUS.daemon,
        servers=(
            ServerStatus(name="a", state="RUNNING", instances=(usual,)),
            ServerStatus(name="b", state="RUNNING", instances=(faulty,)),
        ),
    )
    notes = [line.strip() for line in clean_lines(smcp("status").out) if "dropped" in line]
    more = "smcp logs has the first of each run"
    assert notes == [f"dropped: 2 of noise (no messages), 3 answers to what nobody asked; {more}"]
    assert f"dropped: 4 answers that came too late; {more}" in smcp("status", "a").out
    assert json.loads(smcp("status", "a", "--json").out)["servers"][0]["instances"][0]["dropped"] == {"late": 4}


def test_status_tells_what_a_person_stopped(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Status] = StatusResult(
        daemon=STATUS.daemon,
        servers=(
            ServerStatus(name="a", state="STOPPED"),
            ServerStatus(name="b", state="STOPPED", held=True),
            ServerStatus(name="c", state="RUNNING", held=True, held_except=("/src",)),
            ServerStatus(name="d", state="RUNNING", held_except=("/src", "/web")),
        ),
    )
    notes = [line.strip() for line in clean_lines(smcp("status").out) if "by hand" in line]
    assert notes == [
        "stopped by hand; started again with: smcp start b",
        "stopped by hand, except in /src; started again with: smcp start c",
        "stopped by hand in /src, /web",
    ]


def test_status_of_one_server_tells_what_it_reaches(smcp: Smcp, daemon: FakeDaemon) -> None:
    instance = InstanceStatus(key="a/1", state="RUNNING", mounts=("/src:rw", "/etc/x:ro"))
    server = ServerStatus(
        name="a", state="RUNNING", network="loopback", credentials=("T from vault:x",), instances=(instance,)
    )
    daemon.answers[control.Status] = StatusResult(daemon=STATUS.daemon, servers=(server,))
    assert [line.strip() for line in clean_lines(smcp("status", "a").out)[2:]] == [
        "network loopback",
        "credential T from vault:x",
        "mount /src:rw",
        "mount /etc/x:ro",
    ]
    assert "network" not in smcp("status").out
