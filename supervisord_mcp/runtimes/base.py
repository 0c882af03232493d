"""The interface of every runtime: what is launched (`LaunchSpec`), what runs (`Child`), how it ended (`ExitStatus`)."""

from __future__ import annotations

import signal as signals
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.runtimes.identity import Identity
from supervisord_mcp.runtimes.limits import DEFAULTS, Available, Limits, plan
from supervisord_mcp.runtimes.reading import Meter
from supervisord_mcp.runtimes.seccomp import BASE, Policy

Access = Literal["ro", "rw"]
#: ``loopback`` is a network of its own with nothing in it but itself; so is ``none``, which may be narrower.
Network = Literal["none", "loopback", "host"]
#: What a person is told about the isolation of a running child.
Isolation = Literal["none", "reduced", "sandbox"]


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the machine that the child may see, at the same path unless ``target`` says otherwise.

    ``protected`` are paths below a writable directory that stay read-only, even where there is none yet;
    ``protected_if_there`` stay so only where they exist. A ``pinned`` mount is one of its own even where a parent shows
    the same: a mount point cannot be moved.
    """

    path: str
    access: Access = "ro"
    target: str | None = None
    protected: tuple[str, ...] = ()
    protected_if_there: tuple[str, ...] = ()
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class SecretFiles:
    """Secrets that a child reads from files: ``values`` are (variable that holds the path, content of the file).

    ``place`` is a directory of the daemon for runtimes that cannot give a child files of its own.
    """

    place: str = ""
    values: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Container:
    """What a container is made of, where one is launched.

    ``image`` is what the engine is given: the id of an image that is there, or a name with its digest. ``shown`` is
    what a person called it. ``engine`` is the engine that the entry names, if any, and ``user`` the user; without one
    it is that of the image, and nobody in particular where the image says root. ``volumes`` are those of the engine by
    name, with their places and how they may be used. ``oci_runtime`` is one that the engine knows (runsc). ``allow``
    are openings that the entry names: ``privileged``, ``host-network``, ``engine-socket``, ``cap:NAME``. With
    ``entrypoint`` the arguments go to what the image starts by itself.
    """

    image: str
    shown: str = ""
    engine: str = ""
    user: str = ""
    volumes: tuple[tuple[str, str, Access], ...] = ()
    oci_runtime: str = ""
    allow: frozenset[str] = frozenset()
    entrypoint: bool = False


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything a runtime needs to start one child; resolved, so that equal specs give equal children.

    ``argv[0]`` is absolute. ``env`` is the whole environment of the child. ``marker`` is the value of the environment
    variable ``SMCP_INSTANCE`` (the runtime adds it), by which every process of the tree can be found again.
    ``read_only`` are the directories that the command itself needs (interpreter, virtual environment, package cache).
    ``network`` may be an `Egress`: only what its rules name is reached then.
    ``seccomp`` is which system calls it may make, where the runtime can tell.
    ``secrets`` are files that only the child can read, gone when it ends; the runtime adds their variables.
    ``container`` is what only the runtime of that name reads: there ``argv`` is one of the image, and may be empty.
    """

    name: str
    argv: tuple[str, ...]
    cwd: str | None = None
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    marker: str = ""
    read_only: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    network: Network | Egress = "none"
    seccomp: Policy = BASE
    limits: Limits = DEFAULTS
    secrets: SecretFiles = SecretFiles()
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a child ended: an exit code, or the number of the signal that ended it (exactly one is set).

    ``cause`` names the limit that it exceeded ("memory limit 512M"), or why else the daemon ended it.
    """

    code: int | None = None
    signal: int | None = None
    cause: str = ""

    def __str__(self) -> str:
        return f"{self._end()} ({self.cause})" if self.cause else self._end()

    def _end(self) -> str:
        if self.signal is None:
            return f"exit {self.code}"
        if self.signal == signals.SIGSYS:
            return "killed by SIGSYS (blocked syscall)"
        try:
            return f"killed by {signals.Signals(self.signal).name}"
        except ValueError:
            return f"killed by signal {self.signal}"

    @property
    def success(self) -> bool:
        """Whether the child ended by itself with exit code 0."""
        return self.code == 0


@dataclass(frozen=True, slots=True)
class Lack:
    """Something this machine lacks for a runtime: what, the cause where known, and the remedy."""

    what: str
    cause: str
    remedy: str


class Child(ABC):
    """One running child and its whole tree.

    ``stdin``, ``stdout`` and ``stderr`` are the daemon's ends of the pipes: non-blocking file descriptors, read and
    written by the caller. The caller closes ``stdin`` through `close_stdin`; `aclose` closes whatever is left open.
    ``limits`` says what enforces each of its limits, as a person reads it, and ``user`` whom it runs as where
    the daemon is run by root. ``uncovered`` says what a reduced isolation does not hold it back from, a line each.
    """

    pid: int
    stdin: int
    stdout: int
    stderr: int
    limits: tuple[str, ...] = ()
    user: str = ""
    uncovered: tuple[str, ...] = ()

    @abstractmethod
    async def wait(self) -> ExitStatus:
        """Return how the leader ended, once no process of the tree is left.

        What a leader leaves behind is killed at once, unless the child was asked to end (`close_stdin`, `signal`): a
        wrapper often goes first, and the server behind it has until `kill`.
        """

    @abstractmethod
    def close_stdin(self) -> None:
        """Close the daemon's end of the child's stdin; the child sees end of file. Idempotent."""

    @abstractmethod
    def signal(self, number: int) -> None:
        """Send a signal to every process of the tree; a tree that is gone is no error."""

    @abstractmethod
    def kill(self) -> None:
        """End every process of the tree at once (SIGKILL); a tree that is gone is no error."""

    def refused(self) -> tuple[str, ...]:
        """Return the first places of the network that the child asked for and was refused."""
        return ()

    def meter(self) -> Meter | None:
        """Return what reads how much the tree uses; None where the runtime cannot tell."""
        return None

    def end(self, reason: str) -> None:
        """End the whole tree at once, and name a reason in how it ended where the runtime can; the first one counts."""
        self.kill()

    @abstractmethod
    async def aclose(self) -> None:
        """Kill what still runs, wait for it, and close every file descriptor. Idempotent."""


class Runtime(ABC):
    """A way to start a child. ``isolation`` is what it gives; ``name`` is its word in the configuration."""

    name: str
    isolation: Isolation

    @abstractmethod
    def check(self) -> tuple[Lack, ...]:
        """Return what this machine lacks for this runtime; empty when it can be used."""

    @abstractmethod
    def explain(self, spec: LaunchSpec) -> str:
        """Return a command line that a person can paste to start the same child; secrets are not in it."""

    def policy(self, spec: LaunchSpec) -> Policy | None:
        """Return which system calls a child may make, or None where they are not filtered."""
        return spec.seccomp

    def uncovered(self, spec: LaunchSpec) -> tuple[str, ...]:
        """Return what a reduced isolation does not hold a child back from, a line each, as a person reads it."""
        return ()

    def enforced(self, limits: Limits) -> tuple[str, ...]:
        """Return what would enforce each limit of a child, as a person reads it. Raise `IsolationError` as `launch`."""
        return plan(limits, self.available()).report

    def identity(self, name: str) -> Identity | None:
        """Return the user that a child of this name runs as; None where it is the daemon's own."""
        return None

    def available(self) -> Available:
        """Return the means for limits that this runtime has on this machine."""
        return Available()

    @abstractmethod
    async def launch(self, spec: LaunchSpec) -> Child:
        """Start the child. Raise `LaunchError` when it cannot start, `IsolationError` when isolation is impossible."""

    async def clean(self, marker: str) -> None:
        """End and remove what a daemon that was killed left, and no process table shows.

        ``marker`` is what the markers of all its children begin with.
        """
        return

    def rest(self) -> None:
        """Begin to release what the runtime holds for a launch that may come soon, unless one goes on."""
        return

    async def aclose(self) -> None:
        """Release what the runtime holds between two launches. It can be used again."""
        return
