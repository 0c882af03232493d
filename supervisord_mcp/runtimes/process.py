"""Starting one process: on our own pipes, in its own session, with nothing inherited that was not meant for it."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.identity import Identity, starting_as

_CLONE_FS = 0x200
_PR_SET_NO_NEW_PRIVS = 38
_PASSING_TROUBLE = frozenset(
    {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ETXTBSY, errno.EINTR, errno.EIO}
)


@dataclass(frozen=True, slots=True)
class Program:
    """What is executed: ``env`` is the whole environment, ``pass_fds`` are inherited under the same numbers.

    With ``identity`` it runs as that, in no other group; only root can do that. ``confine`` is done by the
    thread that it is started from, one of its own: what a thread takes from itself its children never had. That thread
    goes on with ``afterwards``, where there is any: what is to die with its parent dies with the thread.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None = None
    umask: int = 0o022
    pass_fds: tuple[int, ...] = ()
    identity: Identity | None = None
    confine: Callable[[], None] | None = None
    afterwards: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that was just started, not yet watched by anybody."""

    pid: int
    pidfd: int
    stdin: int
    stdout: int
    stderr: int


def secure_standard_fds() -> None:
    """Open /dev/null on each of the fds 0 to 2 that is closed, so that no socket or pipe is ever taken for one."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            os.dup2(opened, number)
            if opened != number:
                os.close(opened)


def spawn(program: Program) -> Spawned:
    """Start a process in its own session with nothing but its own pipes, default signals and exactly its environment.

    Raise `LaunchError` where it cannot start, and what ``confine`` raises. Raise `RuntimeError` outside of the main
    thread: a sandbox dies with the thread that started it.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("children are started from the main thread only")
    with contextlib.ExitStack() as undo:
        child_in, stdin = _pipe(undo)
        stdout, child_out = _pipe(undo)
        stderr, child_err = _pipe(undo)
        with _default_signals():
            pid = _confined(program, (child_in, child_out, child_err))
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise LaunchError(f"{program.argv[0]}: {error.strerror}") from error
        undo.pop_all()
    for descriptor in (child_in, child_out, child_err):
        os.close(descriptor)
    for descriptor in (stdin, stdout, stderr):
        os.set_blocking(descriptor, False)
    return Spawned(pid, pidfd, stdin, stdout, stderr)


def give_up_new_rights() -> None:
    """Let no program that this thread starts get more rights than it has (PR_SET_NO_NEW_PRIVS). Raise `OSError`."""
    one, zero = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NO_NEW_PRIVS, one, zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def check_program(program: Program) -> None:
    """Raise the `LaunchError` that `spawn` would raise, for a program that is executed by something else later."""
    command = program.argv[0]
    try:
        with open(command, "rb", buffering=0) as file:
            head = file.read(256)
    except PermissionError:
        head = b"\x7fELF"  # what cannot be read may still be executed
    except OSError as error:
        raise _launch_error(program, error) from error
    if not os.path.isfile(command) or not os.access(command, os.X_OK):
        raise _launch_error(program, PermissionError(errno.EACCES, os.strerror(errno.EACCES), command))
    words = head.partition(b"\n")[0][2:].split()
    if head.startswith(b"#!") and words and not os.path.exists(words[0]):
        raise _launch_error(program, FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command))


def _pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    try:
        ends = os.pipe2(os.O_CLOEXEC)
    except OSError as error:
        raise LaunchError(f"no pipe for a new child: {error.strerror}") from error
    moved = []
    for end in ends:
        # An end numbered 0 to 2 would be overwritten in the child before it is put in place.
        above = end if end > 2 else fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 3)
        if above != end:
            os.close(end)
        undo.callback(os.close, above)
        moved.append(above)
    return moved[0], moved[1]


@contextlib.contextmanager
def _default_signals() -> Iterator[None]:
    """Let a process that is started inside begin with default dispositions and an empty mask.

    Ignored signals stay ignored across an execve, handled ones do not, so each ignored one gets a handler that does
    nothing: for this process nothing changes meanwhile.
    """
    ignored = [n for n in signal.valid_signals() if signal.getsignal(n) == signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, _do_nothing)
    blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number in ignored:
            # With SIGCHLD ignored the kernel reaps by itself, and every exit status would be lost.
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)


def _do_nothing(number: int, frame: object) -> None:
    """Take a signal and drop it."""


def _confined(program: Program, standard: tuple[int, int, int]) -> int:
    """Start a program from this thread, or from one that confines itself first; return its pid."""
    if (confine := program.confine) is None:
        return _execute(program, standard)
    started: list[int] = []
    failures: list[BaseException] = []
    confined, over = threading.Event(), threading.Event()

    def run() -> None:
        try:
            # Its working directory is its own now: the thread that waits may share its with none, see `passage`, and
            # this one is still there for a moment after it has been joined.
            ctypes.CDLL(None).unshare(_CLONE_FS)
            confine()
            confined.set()
            started.append(_execute(program, standard))
        except BaseException as error:  # noqa: BLE001 (raised by the caller)
            failures.append(error)
        finally:
            over.set()
        if confined.is_set() and program.afterwards is not None:
            program.afterwards()

    thread = threading.Thread(target=run, name="confined", daemon=True)
    thread.start()
    over.wait()
    if program.afterwards is None:
        thread.join()
    if failures:
        raise failures[0]
    return started[0]


def _execute(program: Program, standard: tuple[int, int, int]) -> int:
    stdin, stdout, stderr = standard
    try:
        with starting_as(program.identity):
            started = subprocess.Popen(
                program.argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=program.cwd,
                env=program.env,
                umask=program.umask,
                close_fds=True,
                pass_fds=program.pass_fds,
                start_new_session=True,
            )
    except OSError as error:
        raise _launch_error(program, error) from error
    except (ValueError, subprocess.SubprocessError) as error:
        raise LaunchError(f"{program.argv[0]}: {error}", retryable=False) from error
    # From here on the pid is ours alone: an object without a status would poll, and reap, behind our back.
    started.returncode = 0
    return started.pid


def _launch_error(program: Program, error: OSError) -> LaunchError:
    retryable = error.errno in _PASSING_TROUBLE
    if program.cwd is not None and error.filename == program.cwd:
        return LaunchError(
            f"working directory {program.cwd}: {error.strerror}",
            remedy="Create it, or name another in `cwd`.",
            retryable=retryable,
        )
    command = program.argv[0]
    if error.errno == errno.ENOENT and os.path.exists(command):
        return LaunchError(
            f"{command}: the interpreter that its first line names does not exist",
            remedy="Install the interpreter, or name it in front of the script.",
            retryable=False,
        )
    remedies = {
        errno.ENOENT: "Check the command, or install it.",
        errno.EACCES: "Make it executable (chmod +x), or name its interpreter in front of it.",
        errno.ENOEXEC: "It is no program for this machine: name its interpreter in front of it.",
    }
    remedy = remedies.get(error.errno or 0, "")
    return LaunchError(f"{command}: {error.strerror}", remedy=remedy, retryable=retryable)
