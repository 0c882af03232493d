"""Servers without namespaces: what they can still reach, and that none runs where less is held back than promised."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import IsolationError, LaunchError, SmcpError
from supervisord_mcp.runtimes import audit, seccomp, tree
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock import ruleset
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import ended, python, read, running, shell

pytestmark = pytest.mark.usefixtures("subreaper")

#: Runs each named expression and tells what came of it.
_TRY = """
import json, os, socket, sys, signal, ctypes
outcome = {}
for name, text in json.loads(sys.argv[1]).items():
    try:
        exec(text)
        outcome[name] = "open"
    except OSError as error:
        outcome[name] = error.strerror
print(json.dumps(outcome))
"""


def _made(tmp_path: Path) -> LandlockRuntime:
    # Tests may run as root, for whom no server may be root as well.
    return LandlockRuntime(str(tmp_path / "private"), None, Identities())


async def _tried(made: LandlockRuntime, attempts: dict[str, str], **changes: Any) -> dict[str, str]:
    """Return what comes of some statements of Python in a server."""
    spec = python(_TRY)
    spec = replace(spec, argv=(*spec.argv, json.dumps(attempts)), **changes)
    async with running(made, spec) as child:
        output = await read(child.stdout)
        assert output, (await read(child.stderr)).decode()
        outcome: dict[str, str] = json.loads(output)
        return outcome


@bounded(60)
async def test_nothing_is_read_or_written_but_what_is_granted(tmp_path: Path) -> None:
    for name in ("ro", "rw", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(0o777)
        (tmp_path / name / "file").write_text("text")
        (tmp_path / name / "file").chmod(0o666)
    attempts = {
        f"{what} {name}": f"open({str(tmp_path / name / 'file')!r}, {mode!r})"
        for name in ("ro", "rw", "other")
        for what, mode in (("read", "r"), ("append", "a"), ("empty", "w"))
    }
    attempts |= {f"create in {name}": f"open({str(tmp_path / name / 'new')!r}, 'x')" for name in ("ro", "rw", "other")}
    attempts |= {
        "truncate": f"os.truncate({str(tmp_path / 'other/file')!r}, 0)",
        "list a home": "os.listdir('/root')",
        "list the root": "os.listdir('/')",
        "secrets of the machine": "open('/etc/shadow')",
        "list processes": "os.listdir('/proc')",
        "memory of others": "open('/proc/1/environ')",
        "shared memory": "open('/dev/shm/x', 'x')",
        "own home": "open(os.environ['HOME'] + '/x', 'x')",
        "own temporary files": "open(os.environ['TMPDIR'] + '/x', 'x')",
        "temporary files of all": "open('/tmp/x', 'x')",
        "facts of the machine": "open('/proc/meminfo').read()",
        "a link out": f"os.link({str(tmp_path / 'ro/file')!r}, os.environ['HOME'] + '/link')",
    }
    mounts = (Mount(str(tmp_path / "ro")), Mount(str(tmp_path / "rw"), "rw"))
    outcome = await _tried(_made(tmp_path), attempts, mounts=mounts)
    assert {name for name, result in outcome.items() if result == "open"} == {
        *("read ro", "read rw", "append rw", "empty rw", "create in rw"),
        *("own home", "own temporary files", "facts of the machine"),
    }
    assert (tmp_path / "other" / "file").read_text() == "text"


@bounded(60)
async def test_without_network_there_are_no_sockets(tmp_path: Path) -> None:
    attempts = {
        "tcp": "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "tcp 6": "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
        "unix": "socket.socket(socket.AF_UNIX)",
        "netlink": "socket.socket(16, socket.SOCK_RAW, 0)",
        "a pair": "socket.socketpair()",
    }
    outcome = await _tried(_made(tmp_path), attempts)
    assert {name for name, result in outcome.items() if result == "open"} == {"a pair"}


@bounded(60)
async def test_with_the_network_of_the_machine_a_server_is_reached(tmp_path: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as server:
        attempts = {"connect": f"socket.create_connection({server.getsockname()!r}, 5)", "unix": "socket.socket(1)"}
        outcome = await _tried(_made(tmp_path), attempts, network="host")
    assert outcome["connect"] == "open"
    assert outcome["unix"] != "open"


@bounded(60)
async def test_processes_outside_are_out_of_reach(tmp_path: Path) -> None:
    attempts = {
        "signal": f"os.kill({os.getpid()}, 0)",
        "signal to the parent": "os.kill(os.getppid(), 0)",
        "namespaces": "assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0 or (_ for _ in ()).throw("
        "OSError(ctypes.get_errno(), 'refused'))",
        "its own": "os.kill(os.getpid(), 0)",
    }
    outcome = await _tried(_made(tmp_path), attempts)
    assert {name for name, result in outcome.items() if result == "open"} == {"its own"}


@bounded(60)
async def test_its_private_places_are_gone_with_it(tmp_path: Path) -> None:
    made = _made(tmp_path)
    async with running(made, shell('touch "$HOME/x" "$TMPDIR/y"; pwd; cat')) as child:
        place = (await read(child.stdout, b"\n")).decode().strip()
        assert place.endswith("/home")
        assert os.listdir(os.path.dirname(place))
        assert child.uncovered
    assert os.listdir(tmp_path / "private") == []


@bounded(60)
async def test_a_home_that_the_entry_names_is_kept(tmp_path: Path) -> None:
    async with running(_made(tmp_path), shell('echo "$HOME"', HOME="/nowhere")) as child:
        assert await read(child.stdout) == b"/nowhere\n"


@as_root
@bounded(60)
async def test_a_server_of_root_has_a_user_of_its_own(tmp_path: Path) -> None:
    made = _made(tmp_path)
    async with running(made, shell("id -u")) as child:
        assert (await read(child.stdout)).decode().strip() == child.user
        assert child.user not in ("", "0")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"network": Egress(parse_rules(["example.com:443"]))}, "no network or that of the machine"),
        ({"network": "loopback"}, "no network or that of the machine"),
        ({"mounts": (Mount("/usr/share", "ro", "/data"),)}, "every path is where it is"),
        ({"mounts": (Mount("/srv", "rw"), Mount("/srv/x"))}, "only adds rights"),
        ({"mounts": (Mount("/nowhere/at/all"),)}, "/nowhere/at/all"),
    ],
)
@bounded(60)
async def test_what_cannot_be_kept_is_refused(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    spec = replace(shell("cat"), **change)
    with pytest.raises(IsolationError, match=text):
        await _made(tmp_path).launch(spec)
    assert tree.marked(spec.marker) == []


@bounded(60)
async def test_nothing_runs_as_root(tmp_path: Path) -> None:
    async with running(LandlockRuntime(str(tmp_path)), shell("id -u")) as child:
        assert int(await read(child.stdout)) > 0


def _refuse(*_: object, **__: object) -> None:
    raise OSError(1, "not now")


def _nothing(*_: object, **__: object) -> None:
    return


def _without_rules(_: int) -> None:
    # A filter needs this much; it is what is left of the step when the kernel does not keep its word.
    ctypes.CDLL(None).prctl(38, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


@pytest.mark.parametrize(
    ("place", "instead", "text"),
    [
        ((ruleset, "_create"), _refuse, "not now"),
        ((ruleset, "_allow"), _refuse, "not now"),
        ((ruleset, "restrict_this_thread"), _refuse, "not now"),
        ((ruleset, "restrict_this_thread"), _without_rules, "could read what it must not"),
        ((ruleset, "version"), lambda: 0, "no Landlock"),
        ((audit, "install"), _refuse, "not now"),
        ((audit, "install"), _nothing, "not filtered"),
    ],
)
@bounded(60)
async def test_no_server_runs_when_a_step_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[object, str], instead: object, text: str
) -> None:
    ran = tmp_path / "ran"
    ran.mkdir()
    ran.chmod(0o777)
    monkeypatch.setattr(*place, instead)
    spec = replace(shell(f"touch {ran}/it"), mounts=(Mount(str(ran), "rw"),))
    with pytest.raises(SmcpError, match=text):
        await _made(tmp_path).launch(spec)
    assert tree.marked(spec.marker) == []
    assert os.listdir(ran) == []
    assert not (tmp_path / "private").exists() or os.listdir(tmp_path / "private") == []


@bounded(60)
async def test_a_program_that_no_grant_shows_is_named(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    spec = LaunchSpec("test", (str(program),), env=(("PATH", "/usr/bin:/bin"),), marker="t-invisible")
    with pytest.raises(LaunchError, match="not visible") as raised:
        await _made(tmp_path).launch(spec)
    assert str(tmp_path) in raised.value.remedy


@bounded(60)
async def test_limits_hold(tmp_path: Path) -> None:
    spec = shell("ulimit -n; ulimit -c")
    async with running(_made(tmp_path), replace(spec, limits=replace(spec.limits, nofile=77))) as child:
        assert await read(child.stdout) == b"77\n0\n"
        assert any(line.startswith("nofile 77 by") for line in child.limits)


@bounded(60)
async def test_a_filtered_call_is_answered_and_its_own_policy_counts(tmp_path: Path) -> None:
    spec = replace(shell("exec mkdir x; echo no"), seccomp=seccomp.Policy(deny=frozenset({"mkdir", "mkdirat"})))
    async with running(_made(tmp_path), spec) as child:
        assert not (await ended(child)).success


def test_what_it_explains_can_be_read(tmp_path: Path) -> None:
    spec = replace(shell("cat", TOKEN="s3cret"), mounts=(Mount("/usr/share", "rw"),))
    text = _made(tmp_path).explain(spec)
    assert "/bin/sh -c cat" in text
    assert "# reads and writes: /usr/share" in text
    assert "s3cret" not in text


def test_the_thread_that_starts_it_is_the_only_one_confined(tmp_path: Path) -> None:
    before = threading.active_count()

    @bounded(60)
    async def start() -> None:
        async with running(_made(tmp_path), shell("cat")):
            (tmp_path / "written").write_text("by the daemon")

    start()
    assert threading.active_count() <= before + 1  # anyio keeps a worker for a while
    assert (tmp_path / "written").exists()
