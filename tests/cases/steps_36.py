"""Case 36: every step of the set-up of a sandbox, each with a way to make it fail and what a person is told then."""

from __future__ import annotations

import base64
import copy
import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import anyio.lowlevel
import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import audit, handover, seccomp
from supervisord_mcp.runtimes.base import LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.egress.listeners import open_namespace
from supervisord_mcp.runtimes.egress.plan import Listener, Plan, plan
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.limits import DEFAULTS
from supervisord_mcp.runtimes.seccomp import Policy
from supervisord_mcp.runtimes.sources import Opened, open_sources
from tests.runtimes.test_handover import OPTIONS, PLAY, REPORT, UNFILTERED

#: Starts the real program under a filter, as a machine would that refuses what the filter refuses.
UNDER_A_FILTER = """#!/usr/bin/python3
import base64, ctypes, os, sys
program = base64.b64decode({program!r})
class Filter(ctypes.Structure): _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]
if "--help" not in sys.argv:
    ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
    assert ctypes.CDLL(None).prctl(22, 2, ctypes.byref(Filter(len(program) // 8, program))) == 0
os.execv({real!r}, ["bwrap", *sys.argv[1:]])
"""
REAL = shutil.which("bwrap") or ""


@dataclass
class Stage:
    """Where one step fails: what is launched, by which runtime, and what is changed for that."""

    folder: Path
    patch: pytest.MonkeyPatch
    groups: Groups | None
    kind: Literal["bwrap", "landlock"]
    spec: LaunchSpec
    identities: Identities | None = None
    program: str | None = None

    def runtime(self) -> Runtime:
        """Make the runtime."""
        if self.kind == "bwrap":
            return BwrapRuntime(self.program, self.groups, self.identities)
        return LandlockRuntime(str(self.folder / "private"), self.groups, self.identities)

    def stub(self, text: str, mode: int = 0o755) -> None:
        """Let a script be the bubblewrap."""
        place = self.folder / "bin"
        place.mkdir()
        (place / "bwrap").write_text(text)
        (place / "bwrap").chmod(mode)
        self.program = str(place)


Breaking = Callable[[Stage], None]


@dataclass(frozen=True)
class Step:
    """A step, how it fails, and words of what is told. One that is ``passing`` may go away, so it is tried again.

    ``only`` marks steps that there are under a daemon of root alone, ``grouped`` those that need cgroups.
    """

    name: str
    breaking: Breaking
    told: str
    code: Literal["isolation", "launch"] = "isolation"
    passing: bool = False
    only: Literal["", "root"] = ""
    grouped: bool = False


def _failing(target: str, error: BaseException) -> Breaking:
    def fail(*_: object, **__: object) -> None:
        raise copy.copy(error)

    return lambda stage: stage.patch.setattr(target, fail)


def _instead(target: str, answer: object) -> Breaking:
    return lambda stage: stage.patch.setattr(target, lambda *_, **__: answer)


def _number(target: str) -> Breaking:
    """Give a call a number that no kernel has: it is answered as by one that is too old."""
    return lambda stage: stage.patch.setattr(target, 100_000)


def _play(body: str) -> Breaking:
    return lambda stage: stage.stub(PLAY.format(options=OPTIONS, body=body))


def _says(text: str, when: str = "") -> Breaking:
    return _play(f"{when}print({text!r}, file=sys.stderr); sys.exit(1)")


def _refusing(policy: Policy) -> Breaking:
    program = base64.b64encode(seccomp.program(policy)).decode()
    return lambda stage: stage.stub(UNDER_A_FILTER.format(program=program, real=REAL))


def _changed(**changes: object) -> Breaking:
    def change(stage: Stage) -> None:
        stage.spec = replace(stage.spec, **changes)  # type: ignore[arg-type]

    return change


def _both(*breakings: Breaking) -> Breaking:
    def both(stage: Stage) -> None:
        for each in breakings:
            each(stage)

    return both


def _mounted(path: str, access: Literal["ro", "rw"] = "ro") -> Breaking:
    def mount(stage: Stage) -> None:
        place = str(stage.folder / path)
        stage.spec = replace(stage.spec, mounts=(*stage.spec.mounts, Mount(place, access)))

    return mount


def _link(stage: Stage) -> None:
    (stage.folder / "link").symlink_to("/usr/share")


def _protected_link(stage: Stage) -> None:
    (stage.folder / "ran/.vscode").symlink_to("/tmp")
    stage.spec = replace(stage.spec, mounts=(Mount(str(stage.folder / "ran"), "rw", None, (".vscode",)),))


def _protected(stage: Stage) -> None:
    stage.spec = replace(stage.spec, mounts=(Mount(str(stage.folder / "ran"), "rw", None, (".vscode",)),))


def _shown(what: Literal["another", "writable", "missing"]) -> Breaking:
    def opened(stage: Stage) -> None:
        place = str(stage.folder / "ran")

        def wrong(*arguments: object, **options: object) -> object:
            steps, found = open_sources(*arguments, **options)  # type: ignore[arg-type]
            (one,) = [each for each in found if each.bound.target == place]
            match what:
                case "another":
                    return steps, [Opened(one.bound, one.device, one.inode + 1)]
                case "writable":
                    return steps, [Opened(replace(one.bound, access="ro"), one.device, one.inode)]
                case _:
                    return steps, [Opened(replace(one.bound, target="/not/there"), one.device, one.inode)]

        stage.patch.setattr("supervisord_mcp.runtimes.bwrap.open_sources", wrong)

    return opened


def _machine(stage: Stage) -> None:
    stage.patch.setattr(os, "uname", lambda: os.uname_result(("Linux", "mcp", "6.18", "#1", "riscv64")))
    seccomp.program.cache_clear()


def _none_left(stage: Stage) -> None:
    stage.identities = Identities(60706, 1)
    stage.identities.of("somebody")


def _foreign_network(stage: Stage) -> None:
    stage.patch.setattr(
        "supervisord_mcp.runtimes.egress.furnishing.open_namespace", lambda inner: open_namespace(os.getpid())
    )


def _unusable_address(stage: Stage) -> None:
    def wrong(egress: object) -> Plan:
        return replace(plan(egress), listeners=(Listener("203.0.113.1", 80),), routes=())  # type: ignore[arg-type]

    stage.patch.setattr("supervisord_mcp.runtimes.egress.furnishing.plan", wrong)


def _slow(stage: Stage) -> None:
    stage.patch.setattr("supervisord_mcp.runtimes.bwrap._SETUP_SECONDS", 0.3)
    _play(f"{REPORT}input()")(stage)


def _unlimited_by_rules(_: int) -> None:
    # A filter needs this much; it is what is left of the step when the kernel does not keep its word.
    ctypes.CDLL(None).prctl(38, ctypes.c_ulong(1), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _audited(stage: Stage) -> None:
    stage.spec = replace(stage.spec, seccomp=Policy(audit=True))


def _closed(stage: Stage) -> None:
    (stage.folder / "closed").mkdir(mode=0o700)


def _above(stage: Stage) -> None:
    (stage.folder / "ran/part").mkdir()


def _setuid(stage: Stage) -> None:
    stage.stub("#!/bin/sh\n", 0o4755)


def _gate(instead: str) -> Breaking:
    return lambda stage: stage.patch.setattr("supervisord_mcp.runtimes.bwrap.GATE", instead)


def _trial(instead: str) -> Breaking:
    return lambda stage: stage.patch.setattr("supervisord_mcp.runtimes.landlock.runtime.TRIAL", instead)


def _unfiltered(stage: Stage) -> None:
    stage.patch.setattr(handover, "_FILTER_SECONDS", 0.2)
    _play(UNFILTERED)(stage)


def _unsized(stage: Stage) -> None:
    # A control group for memory would bound what is kept there too.
    stage.groups = None
    stage.stub(f'#!/bin/sh\nif [ "$1" = --help ]; then {REAL} --help | grep -v "size "; else exec {REAL} "$@"; fi\n')


def _no_process(stage: Stage) -> None:
    real = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> object:
        if options.get("start_new_session"):
            raise OSError(errno.EAGAIN, "no process")
        return real(*arguments, **options)

    stage.patch.setattr(subprocess, "Popen", start)


def _program_of_another(text: str) -> Breaking:
    return lambda stage: stage.stub(text)


_R, _L, _A = "supervisord_mcp.runtimes", "supervisord_mcp.runtimes.landlock", "supervisord_mcp.runtimes.audit"
_FULL = OSError(errno.EMFILE, "Too many open files")
_NO = OSError(errno.EPERM, "Operation not permitted")

#: Steps that both runtimes have.
COMMON = (
    Step("a filter for this kind of machine", _machine, "riscv64"),
    Step("a user that is free", _none_left, "user ids from 60706 are taken", only="root"),
    Step("the user's rights", _failing(f"{_R}.identity._become", IsolationError("no", remedy="x")), "no", only="root"),
    Step(
        "a way to what is closed",
        _both(_closed, _mounted("closed"), _failing(f"{_R}.passage._build", _NO)),
        "no way can be made to",
        only="root",
    ),
    Step(
        "what is lent",
        _both(_closed, _mounted("closed"), _number(f"{_R}.lending._MOUNT_SETATTR")),
        "cannot be lent: Function not implemented",
        "launch",
        only="root",
    ),
    Step(
        "a user namespace for what is lent",
        _both(_closed, _mounted("closed"), _failing(f"{_R}.lending._exchange", _NO)),
        "cannot be lent: Operation not permitted",
        "launch",
        only="root",
    ),
    Step("an rlimit", _failing(f"{_R}.rlimits.resource.prlimit", _NO), "limit "),
    Step("the oom score", _failing(f"{_R}.restraint.raise_oom_score", IsolationError("oom", remedy="x")), "oom"),
    Step("a cgroup", _failing(f"{_R}.cgroup._make", IsolationError("cgroup x", remedy="x")), "cgroup x", grouped=True),
    Step(
        "a value in a cgroup",
        _failing(f"{_R}.cgroup._put", OSError(errno.ENOSPC, "No space left")),
        "cgroup",
        grouped=True,
    ),
    Step("the attachment to a cgroup", _instead(f"{_R}.cgroup.processes", []), "is not in it", grouped=True),
    Step("its process", _no_process, "no process", "launch", passing=True),
    Step("a descriptor of it", _failing(f"{_R}.process.os.pidfd_open", _FULL), "Too many open files", "launch", True),
    Step("its pipes", _failing(f"{_R}.process.os.pipe2", _FULL), "Too many open files", "launch", True),
    Step("what listens to an audited filter", _both(_audited, _failing(f"{_A}.install", _NO)), "not permitted"),
    Step("a command that is there", _changed(argv=("/nowhere/server",)), "/nowhere/server", "launch"),
)
BWRAP = (
    *COMMON,
    Step("bubblewrap is there", lambda stage: setattr(stage, "program", str(stage.folder)), "not installed"),
    Step("it is new enough", _program_of_another("#!/bin/sh\necho --args --info-fd\n"), "too old: it has no"),
    Step("it is not setuid", _setuid, "setuid"),
    Step("it runs", _program_of_another("#!/bin/sh\necho libcap.so: missing >&2; exit 127\n"), "libcap.so"),
    Step("a user namespace", _refusing(Policy()), "does not let|forbids user namespaces"),
    Step("mounts", _refusing(Policy(userns=True)), "sandbox cannot be set up"),
    Step("another root", _refusing(Policy(userns=True, deny=frozenset({"setsid"}))), "sandbox cannot be set up"),
    Step("a map of users", _says("bwrap: setting up uid map: Permission denied"), "AppArmor"),
    Step("its loopback", _says("bwrap: loopback: Failed RTM_NEWADDR"), "AppArmor"),
    Step("its processes", _says("bwrap: Can't mount proc on /newroot/proc: not permitted", REPORT), "container"),
    Step("its filter is one", _instead(f"{_R}.seccomp.program", b"\xff" * 8), "filter system calls"),
    Step("its filter is used", _unfiltered, "did not filter the system calls"),
    Step("its namespaces are used", _play(f"{REPORT}os.execv(command[0], command)"), "shared its user"),
    Step("its report", _play("os.write(info, b'{}'); os.close(info); input()"), "sandbox cannot be set up"),
    Step("its end", _play(f"{REPORT}sys.exit(3)"), "without a word"),
    Step("its time", _slow, "no sandbox after"),
    Step("arguments by descriptor", _failing(f"{_R}.descriptors.os.memfd_create", _FULL), "Too many", "launch", True),
    Step("pipes to it", _failing(f"{_R}.descriptors.os.pipe2", _FULL), "Too many", "launch", True),
    Step("paths without links", _number(f"{_R}.openat2._NUMBER"), "openat2"),
    Step("a source that exists", _mounted("nowhere"), "no such file", "launch"),
    Step("a source that is no link", _both(_link, _mounted("link")), "symbolic link", "launch"),
    Step("the source that was opened", _shown("another"), "something else at"),
    Step("a source that is shown", _shown("missing"), "does not show"),
    Step("what is read-only", _shown("writable"), "lets the server write"),
    Step("what is protected is no link", _protected_link, "symbolic link", "launch"),
    Step(
        "something to mount what protects on",
        _both(_protected, _failing(f"{_R}.placeholders._create", OSError(errno.ENOSPC, "No space left"))),
        "is to be protected and cannot be made",
        "launch",
    ),
    Step(
        "who watches what protects",
        _both(_protected, _failing(f"{_R}.sentry.Sentry._watch", IsolationError("watch no more", remedy="x"))),
        "watch no more",
    ),
    Step("a working directory", _changed(cwd="/nowhere"), "working directory /nowhere", "launch"),
    Step("the bounds of its places", _unsized, "limit tmp"),
    Step("the gate is reached", _gate("exit 5"), "without a word"),
    Step("the gate says what it should", _gate("echo fine; read -r word; exec $@"), "without a word"),
)
EGRESS = (
    Step("the agent for networks", _failing(f"{_R}.egress.listeners.spawn", IsolationError("no", remedy="x")), "no"),
    Step("the network of the sandbox", _foreign_network, "has the network of the machine"),
    Step("its listeners", _unusable_address, "203.0.113.1 80"),
    Step("the right listeners", _failing(f"{_R}.egress.listeners._compare", OSError(0, "another one")), "another one"),
    Step("an answer in time", lambda s: s.patch.setattr(f"{_R}.egress.listeners._ANSWER_SECONDS", 0.0), "in time"),
)
HOST = (
    Step("a fence", _failing(f"{_L}.ruleset.restrict_this_thread", _NO), "cannot keep it from abstract sockets"),
    Step("its process", _no_process, "no process", "launch", passing=True),
)
LANDLOCK = (
    *COMMON,
    Step("Landlock is there", _instead(f"{_L}.ruleset.version", 0), "no Landlock"),
    Step("a set of rules", _failing(f"{_L}.ruleset._create", _NO), "cannot hold it to its rules"),
    Step("a rule", _failing(f"{_L}.ruleset._allow", _NO), "cannot hold it to its rules"),
    Step("rules for the server", _failing(f"{_L}.ruleset.restrict_this_thread", _NO), "cannot hold it to its rules"),
    Step(
        "rules that hold",
        lambda s: s.patch.setattr(f"{_L}.ruleset.restrict_this_thread", _unlimited_by_rules),
        "could read what it must not",
    ),
    Step("its filter", _failing(f"{_A}.install", _NO), "cannot hold it to its rules"),
    Step("its filter is used", lambda s: s.patch.setattr(audit, "install", lambda *_: None), "not filtered"),
    Step("its private places", _failing(f"{_L}.places.os.mkdir", _NO), "private"),
    Step("a source that exists", _mounted("nowhere"), "nowhere"),
    Step("what is read-only", _both(_above, _mounted("ran/part")), "Landlock only adds rights"),
    Step("no rules for the network", _changed(network="loopback"), "no network or that of the machine"),
    Step("the gate is reached", _trial("exit 5"), "ended before it began", "launch", passing=True),
)


def at_the_last_moment(stage: Stage, calls: Callable[[], None]) -> None:
    """Let something happen right before the server is let go."""
    real = handover._say_go

    async def late(*arguments: object) -> None:
        calls()
        await anyio.lowlevel.checkpoint()
        await real(*arguments)  # type: ignore[arg-type]

    stage.patch.setattr(handover, "_say_go", late)


LIMITS = replace(DEFAULTS, memory=1 << 29, pids=64)
