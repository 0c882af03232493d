"""The runtime that isolates with Landlock alone, for machines whose kernel lets nobody make user namespaces.

A weaker level than a sandbox, and used only where the configuration names it. The daemon makes the set of rules, and a
thread of its own takes the rights from itself before it starts the server: no stage runs in between. The server begins
as a gate that says whether it can read what it must not, and becomes the server after a word; until then its limits
are set. Whatever cannot be kept is refused, and what no rule can keep is said (`abi.uncovered`).
"""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace

import anyio

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import audit, sandbox, seccomp, syscalls
from supervisord_mcp.runtimes.audit import Auditor, Report, ignore, spawn_audited
from supervisord_mcp.runtimes.base import Child, Lack, LaunchSpec, Runtime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.child import ProcessChild, with_marker
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.handover import TRIAL, pass_trial
from supervisord_mcp.runtimes.identity import Identities, Identity
from supervisord_mcp.runtimes.landlock import abi, ruleset
from supervisord_mcp.runtimes.landlock.abi import READ, WRITE, Right
from supervisord_mcp.runtimes.landlock.places import Places
from supervisord_mcp.runtimes.lending import as_borrower, lend
from supervisord_mcp.runtimes.limits import Available
from supervisord_mcp.runtimes.passage import way
from supervisord_mcp.runtimes.process import Program, check_program, spawn
from supervisord_mcp.runtimes.restraint import Restraint, means
from supervisord_mcp.runtimes.shown import environment_words

_START_SECONDS = 20.0
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
#: Facts of the machine that interpreters ask for at their start; nothing below a process is among them.
_FACTS = ("cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/kernel", "sys/vm")
_USERS = ("/etc/passwd", "/etc/group", "/etc/nsswitch.conf")
_NAMES = ("/etc/hosts", "/etc/resolv.conf")
_PROCESSORS = "/sys/devices/system/cpu"
#: Memory and queues of System V have no path that a rule could name, so there are none.
_SHARED = frozenset({"shmget", "shmat", "shmctl", "msgget", "semget", "mq_open"})


class LandlockRuntime(Runtime):
    """Starts commands with the rights that their entry names, without namespaces. One object serves a whole daemon."""

    name = "landlock"
    isolation = "reduced"

    def __init__(
        self,
        base: str,
        groups: Groups | None = None,
        identities: Identities | None = None,
        denied: Report = ignore,
    ) -> None:
        """``base`` is the directory for the private places of servers; the rest is as for bwrap."""
        self._denied = denied
        self._base = base
        self._groups = groups
        self._identities = (identities or Identities()) if os.geteuid() == 0 else None

    def check(self) -> tuple[Lack, ...]:
        """Return what this machine lacks for this runtime."""
        lacks = []
        if ruleset.version() == 0:
            lacks.append(
                Lack(
                    "Landlock",
                    "the kernel has none (it came with Linux 5.13), or it is switched off",
                    "Add landlock to the kernel's parameter lsm=, or use a container.",
                )
            )
        try:
            syscalls.native()
        except IsolationError as error:
            lacks.append(Lack("a filter for system calls", error.message, error.remedy))
        return tuple(lacks)

    def explain(self, spec: LaunchSpec) -> str:
        """Return the command with its environment, and what it may touch; no tool of the system can do the rest."""
        self._check(spec)
        env = environment_words(spec.env)
        lines = [" ".join(["env", "-i", *env, *map(shlex.quote, spec.argv)])]
        if spec.cwd is not None:
            lines.insert(0, f"cd {shlex.quote(spec.cwd)}")
        lines += [f"# {_words(rights)}: {path}" for path, rights in _granted(spec, None)]
        return "\n".join(lines)

    def policy(self, spec: LaunchSpec) -> seccomp.Policy | None:
        """Return which system calls a child may make: those of its spec without what only namespaces make harmless."""
        return _policy(spec)

    def uncovered(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return what the kernel's version of Landlock does not hold a child back from."""
        own_user = self._identities is not None
        protected = any(mount.access == "rw" and mount.protected for mount in spec.mounts)
        below = ("hooks and settings in what it may write, which other programs run",) if protected else ()
        return (*abi.uncovered(ruleset.version(), network=spec.network == "host", own_user=own_user), *below)

    def identity(self, name: str) -> Identity | None:
        """Return the user that a child of this name runs as; None where it is the daemon's own."""
        return None if self._identities is None else self._identities.of(name)

    def available(self) -> Available:
        """Return the means for limits that there are without a namespace."""
        return means(self._groups)

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the child. Raise `LaunchError` when it cannot start, `IsolationError` when isolation is impossible."""
        self._check(spec)
        identity = self.identity(spec.name)
        with Descriptors() as descriptors:
            loans = lend(spec, identity, descriptors)
            return await self._launch(as_borrower(spec, loans), identity, loans)

    async def _launch(self, spec: LaunchSpec, identity: Identity | None, loans: Mapping[str, int]) -> Child:
        restraint = Restraint(spec, self.available(), self._groups, identity)
        auditor = (
            Auditor(spec.name, _policy(spec), self._denied, sandbox.shown_paths(spec)) if spec.seccomp.audit else None
        )
        places = Places(self._base, spec.name, identity, spec.secrets)
        try:
            paths = (*spec.read_only, *(mount.path for mount in spec.mounts), *places.roots)
            child = self._spawn(spec, places, auditor, way(paths, identity, loans))
        except BaseException:
            with anyio.CancelScope(shield=True):
                await places.aclose()
                if auditor is not None:
                    await auditor.aclose()
            raise
        child.attach(places)
        if auditor is not None:
            child.attach(auditor)
        child.uncovered = self.uncovered(spec)
        child.user = "" if identity is None else str(identity.uid)
        try:
            with anyio.fail_after(_START_SECONDS):
                await pass_trial(child, restraint, spec, auditor.enforce if auditor is not None else None)
        except TimeoutError:
            await _end(child)
            raise LaunchError(f"server {spec.name} did not start within {_START_SECONDS:.0f} s") from None
        except BaseException:
            await _end(child)
            raise
        return child

    def _spawn(
        self, spec: LaunchSpec, places: Places, auditor: Auditor | None, entrance: AbstractContextManager[None]
    ) -> ProcessChild:
        program = Program(spec.argv, with_marker(_environment(spec, places), spec.marker), cwd=spec.cwd or places.home)
        check_program(program)
        argv = ("/bin/sh", "-c", TRIAL, "smcp", places.canary, *spec.argv)
        network = spec.network == "host"
        try:
            with (
                ruleset.made(abi.coverage(ruleset.version(), network=network), _granted(spec, places)) as rules,
                entrance,
            ):
                program = replace(program, argv=argv, identity=self.identity(spec.name))
                restrict = functools.partial(ruleset.restrict_this_thread, rules)
                if auditor is not None:
                    spawned = spawn_audited(replace(program, confine=restrict), auditor)
                else:
                    spawned = spawn(replace(program, confine=_Confinement(restrict, seccomp.program(_policy(spec)))))
        except OSError as error:
            raise IsolationError(
                f"server {spec.name} was not started: Landlock cannot hold it to its rules: {error}",
                remedy="Check that every mount exists; smcp doctor tells what this kernel can do.",
            ) from error
        return ProcessChild(spawned, spec.marker)

    def _check(self, spec: LaunchSpec) -> None:
        """Raise `IsolationError` for what was promised and cannot be kept without namespaces."""
        for lack in self.check():
            raise IsolationError(
                f"server {spec.name} was not started: no {lack.what}: {lack.cause}", remedy=lack.remedy
            )
        if isinstance(spec.network, Egress) or spec.network == "loopback":
            raise IsolationError(
                f'server {spec.name} was not started: runtime "landlock" gives no network or that of the machine',
                remedy='Use runtime = "bwrap" for rules, or network = "none" or "host".',
            )
        writable = [mount.path for mount in spec.mounts if mount.access == "rw"]
        for mount in spec.mounts:
            if mount.target not in (None, mount.path):
                raise IsolationError(
                    f"mount of {mount.path} at {mount.target}: without namespaces every path is where it is",
                    remedy='Leave the target away, or use runtime = "bwrap".',
                )
            above = next((path for path in writable if mount.path.startswith(path.rstrip("/") + "/")), None)
            if mount.access == "ro" and above is not None:
                raise IsolationError(
                    f"mount of {mount.path}: it lies in {above}, which is writable, and Landlock only adds rights",
                    remedy='Make both "ro" or both "rw", or use runtime = "bwrap".',
                )


class _Confinement:
    """What a thread takes from itself before it starts a server."""

    def __init__(self, restrict: Callable[[], None], program: bytes) -> None:
        self._restrict = restrict
        self._program = program

    def __call__(self) -> None:
        self._restrict()
        audit.install(self._program)


def _policy(spec: LaunchSpec) -> seccomp.Policy:
    """Return what a server may ask of the kernel: its own policy without what only namespaces make harmless."""
    families = spec.seccomp.families
    if ruleset.version() < 9:
        families -= {"unix"}
    if spec.network != "host":
        families -= {"inet", "inet6", "netlink-route"}
    denied = spec.seccomp.deny | _SHARED
    if ruleset.version() < 3:
        denied |= {"truncate"}
    # Its home is on the disk of the machine, where others could run what it leaves.
    return replace(spec.seccomp, families=families, deny=denied, userns=False, lent=True)


def _granted(spec: LaunchSpec, places: Places | None) -> Iterator[tuple[str, Right]]:
    for path in (*sandbox.visible_paths(), *spec.read_only, *_USERS):
        if os.path.exists(path):
            yield path, READ
    for path in (*(f"/proc/{name}" for name in _FACTS), _PROCESSORS, *(_NAMES if spec.network == "host" else ())):
        if os.path.exists(path):
            yield path, Right.READ_FILE | Right.READ_DIR
    for path in _DEVICES:
        yield path, Right.READ_FILE | Right.WRITE_FILE
    for mount in spec.mounts:
        yield mount.path, WRITE if mount.access == "rw" else READ
    if places is not None:
        yield places.home, WRITE
        yield places.tmp, WRITE
        if places.delivery.directory:
            yield places.delivery.directory, Right.READ_FILE | Right.READ_DIR


def _environment(spec: LaunchSpec, places: Places) -> tuple[tuple[str, str], ...]:
    """Return the environment with the private places where the sandbox's own would be named."""
    given = {"HOME": sandbox.HOME, "TMPDIR": "/tmp", **dict(spec.env)}
    moved = {"HOME": (sandbox.HOME, places.home), "TMPDIR": ("/tmp", places.tmp)}
    for name, (usual, place) in moved.items():
        if given[name] == usual:
            given[name] = place
    return (*given.items(), *places.delivery.variables)


def _words(rights: Right) -> str:
    if Right.MAKE_REG in rights:
        return "reads and writes"
    return "reads and runs" if Right.EXECUTE in rights else "reads"


async def _end(child: Child) -> None:
    with anyio.CancelScope(shield=True):
        await child.aclose()
