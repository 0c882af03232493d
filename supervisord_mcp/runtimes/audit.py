"""Which system calls a server was refused, told by the kernel as they are made (seccomp_unotify(2)).

A filter alone refuses in silence. In audit mode it asks instead, and this answers what the filter would have answered
and says so. The filter is installed by the thread that starts the sandbox, so its listener stays in the daemon and
nothing of this runs inside. Until the server itself is let go what builds the sandbox is let through; a daemon that
dies leaves nobody to answer, and the kernel then says that there is no such call.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import seccomp, syscalls
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.bpf import Answer, Switch, decide
from supervisord_mcp.runtimes.process import Program, Spawned, give_up_new_rights, spawn
from supervisord_mcp.runtimes.sandbox import shown_paths

_SET_FILTER, _NEW_LISTENER = 1, 1 << 3
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_QUESTION = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
_CONTINUE = 1
_ERRNO, _ERRNO_MASK = 0x00050000, 0xFFFF0000
_LOOK_EVERY_MS = 500
#: What every sandbox has of its own, so that nothing of the machine is missed there.
_OWN = (
    *("/proc", "/dev", "/sys", "/tmp", "/run", "/home/mcp"),
    *(f"/etc/{name}" for name in ("hosts", "passwd", "group", "nsswitch.conf", "resolv.conf", "localtime")),
)
_LONGEST = 4096
#: The documented switch of `subprocess` against the use of vfork.
_VFORK = "_USE_VFORK"
_MOST_MISSED = 1000


@dataclass(frozen=True, slots=True)
class Denial:
    """A system call that a server was refused: with what it was told, and how often it made that call by now."""

    server: str
    call: str
    answer: str
    count: int


@dataclass(frozen=True, slots=True)
class Missed:
    """A file of the machine that a server looked for and that its sandbox does not show, and whether it would write."""

    server: str
    path: str
    writes: bool


Notice = Denial | Missed
Report = Callable[[Notice], None]


def ignore(notice: Notice) -> None:
    """Tell nobody."""


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(program: bytes, *, listen: bool = False) -> int:
    """Filter the system calls of this thread and of all that it will start; it gets no new rights from now on.

    With ``listen`` return the descriptor on which the kernel asks, else -1. Raise `OSError`, and `IsolationError` where
    the machine is of a kind that cannot be filtered.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    give_up_new_rights()
    wanted = _Filter(len(program) // 8, program)
    flags = ctypes.c_uint32(_NEW_LISTENER if listen else 0)
    number = syscalls.native().numbers["seccomp"]
    result = int(libc.syscall(number, ctypes.c_uint32(_SET_FILTER), flags, ctypes.byref(wanted)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no filter for system calls: {os.strerror(code)}")
    return result if listen else -1


class Auditor:
    """Answers for the filter of one child. Made in the event loop, where ``report`` is called; a `Companion`.

    Its thread begins with it: one that began inside of a `passage` would stay there.
    """

    def __init__(self, server: str, policy: seccomp.Policy, report: Report, shown: Iterable[str] = ()) -> None:
        """``shown`` are the paths of the machine that the server may read or more: what lies below was not missed."""
        self._server = server
        self._architecture = syscalls.native()
        self._program = seccomp.program(policy)
        self._table = seccomp.table(policy, self._architecture)
        self._report = report
        numbers = self._architecture.numbers
        self._opening = {numbers[name]: places for name, places in seccomp.OPENING.items() if name in numbers}
        self._shown = tuple(f"{path.rstrip('/')}/" for path in (*shown, *_OWN))
        self._missed: set[tuple[str, bool]] = set()
        self._counts: Counter[str] = Counter()
        self._loop = asyncio.get_running_loop()
        self._listener = -1
        self._enforcing = False
        self._closing = threading.Event()
        self._installed, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._listen, name="audit", daemon=True).start()

    def install(self) -> None:
        """Filter this thread and what it starts, and listen. Raise `IsolationError` where that cannot be."""
        try:
            self._listener = install(self._program, listen=True)
        except OSError as error:
            raise IsolationError(
                f"server {self._server} was not started: its system calls cannot be audited: {error.strerror}",
                remedy="Leave `audit` of its `seccomp` off, or run Linux 5.5 or newer with CONFIG_SECCOMP_FILTER.",
            ) from error
        self._installed.set()

    def enforce(self) -> None:
        """From now on refuse what the policy refuses: the next thing that runs is the server."""
        self._enforcing = True

    def close(self) -> None:
        """Begin to end. Idempotent."""
        self._closing.set()

    async def aclose(self) -> None:
        """End, and wait until nothing is left. Idempotent."""
        self.close()
        if self._listener >= 0:
            await asyncio.to_thread(self._over.wait, 2 * _LOOK_EVERY_MS / 1000)

    def stay(self) -> None:
        """Wait for the end, in the thread that started the child: a sandbox dies with that."""
        self._over.wait()

    def _listen(self) -> None:
        # A thread, for the kernel may let the one that receives wait, if who asked was killed meanwhile; and not the
        # one that is filtered, which would ask itself.
        while not self._installed.wait(_LOOK_EVERY_MS / 1000):
            if self._closing.is_set():
                return
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        try:
            while not self._closing.is_set():
                for _, event in poll.poll(_LOOK_EVERY_MS):
                    if event & select.POLLIN:
                        self._serve()
                    elif event & (select.POLLHUP | select.POLLERR):
                        return  # nobody is left who could ask
        finally:
            os.close(self._listener)
            self._over.set()

    def _serve(self) -> None:
        question = bytearray(_QUESTION.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, question)
        except OSError:
            return  # who asked is gone
        identity, pid, _, number, _, _, *arguments = _QUESTION.unpack(question)
        if number in self._opening and self._enforcing:
            self._look(pid, number, arguments)
        code = self._judge(number, arguments) if self._enforcing else 0
        reply = (identity, 0, -code, 0) if code else (identity, 0, 0, _CONTINUE)
        with contextlib.suppress(OSError):
            fcntl.ioctl(self._listener, _SEND, bytearray(_REPLY.pack(*reply)))

    def _judge(self, number: int, arguments: Sequence[int]) -> int:
        """Return the error for a call, 0 where it is allowed, and report the first time and then ever more rarely."""
        decision = self._table.calls.get(number, self._table.unknown)
        code = error_of(decide(decision, arguments))
        if code:
            call = self._architecture.name_of(number)
            if isinstance(decision, Switch):
                call += f" (argument {decision.argument + 1}: {arguments[decision.argument] & 0xFFFFFFFF:#x})"
            self._counts[call] += 1
            if worth_telling(self._counts[call]):
                self._tell(Denial(self._server, call, errno.errorcode.get(code, str(code)), self._counts[call]))
        return code

    def _look(self, pid: int, number: int, arguments: Sequence[int]) -> None:
        """Note a file that is there on the machine and not in the sandbox.

        The name may be another one by the time that the kernel reads it. That is of no use to anybody: nothing is
        allowed because of what is seen here.
        """
        name, flags = self._opening[number]
        path = _text(pid, arguments[name])
        if not path.startswith("/") or path.startswith(self._shown) or f"{path}/" in self._shown:
            return
        writes = arguments[flags] & os.O_ACCMODE != os.O_RDONLY
        there = os.path.exists(path) or (writes and os.path.isdir(os.path.dirname(path)))
        if there and (path, writes) not in self._missed and len(self._missed) < _MOST_MISSED:
            self._missed.add((path, writes))
            self._tell(Missed(self._server, path, writes))

    def _tell(self, notice: Notice) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._report, notice)


def _text(pid: int, address: int) -> str:
    """Return the text at an address of another process, as far as it can be read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            # A page at a time: the next one may not be there.
            first = _LONGEST - address % _LONGEST
            content = os.pread(memory.fileno(), first, address)
            if b"\0" not in content:
                with contextlib.suppress(OSError):
                    content += os.pread(memory.fileno(), _LONGEST, address + first)
    except (OSError, OverflowError):
        return ""
    return os.fsdecode(content.partition(b"\0")[0])


def auditor_of(spec: LaunchSpec, policy: seccomp.Policy, report: Report) -> Auditor | None:
    """Return who answers for the filter of a child with this policy; None where it is not audited."""
    return Auditor(spec.name, policy, report, shown_paths(spec)) if policy.audit else None


def spawn_audited(program: Program, auditor: Auditor) -> Spawned:
    """Start a program whose calls an auditor answers for. Raise as `spawn`, and `IsolationError` without a filter."""

    def confine() -> None:
        if program.confine is not None:
            program.confine()
        auditor.install()

    # A parent that waits for a vfork holds the interpreter's lock, and nobody could answer what its child asks for.
    before = getattr(subprocess, _VFORK)
    setattr(subprocess, _VFORK, False)
    try:
        return spawn(replace(program, confine=confine, afterwards=auditor.stay))
    except BaseException:
        auditor.close()
        raise
    finally:
        setattr(subprocess, _VFORK, before)


def error_of(answer: Answer) -> int:
    """Return the error number that a filter answers with, 0 where it allows the call, EPERM for anything else."""
    if answer == seccomp.ALLOW:
        return 0
    return answer.value & ~_ERRNO_MASK if answer.value & _ERRNO_MASK == _ERRNO else errno.EPERM


def worth_telling(count: int) -> bool:
    """Whether the time of that number is told of: the first, tenth, hundredth and so on."""
    return str(count).rstrip("0") == "1"
