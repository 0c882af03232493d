"""Starting the daemon from a shim or a command: once for all who ask at the same time, and with nothing of the asker.

Loaded by `shim` only where no daemon answers, so it imports nothing that the shim does not have anyway.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping

LOCK_NAME, START_LOCK_NAME = "daemon.lock", "start.lock"
UNIT_NAME = "smcp.service"

_FIRST_STEP, _LONGEST_STEP = 0.005, 0.05
_LONGEST_LOG = 1 << 20
_LONGEST_TEXT = 4096
_STARTS = 2  # the second one for a daemon that came up and left at once


class StartError(Exception):
    """Why no daemon came up, for the person."""


class Start:
    """An attempt to bring the daemon up. ``directory`` is its runtime directory, ``log`` gets what it prints."""

    def __init__(self, directory: str, log: str, environ: Mapping[str, str]) -> None:
        self._directory, self._log, self._environ = directory, log, environ
        self._log_start = 0
        self._pid = 0  # of the daemon that we started, -1 if it has none that we know
        self._watch = -1  # readable when it has ended
        self._left = _STARTS

    def wait(self, find: Callable[[], socket.socket | None], patience: float) -> socket.socket:
        """Return what ``find`` finds, once it does; may be called again, where that was of no use.

        Raise `StartError` when the daemon ended again or did not come up in time, `OSError` when the directory cannot
        be used.
        """
        _make_directory(self._directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        lock = os.open(os.path.join(self._directory, START_LOCK_NAME), flags, 0o600)
        try:
            failure = os.pread(lock, _LONGEST_TEXT, 0)
            deadline, step = time.monotonic() + patience, _FIRST_STEP
            while (connection := find()) is None:
                owner = daemon_pid(self._directory)
                if owner is None and _try_lock(lock):
                    self._advance(lock, failure, deadline)
                if time.monotonic() > deadline:
                    about = "did not come up" if owner is None else f"with pid {owner} is alive but does not answer"
                    raise StartError(f"the daemon {about} (waited {patience:.0f} s); its log: {self._log}")
                time.sleep(step)
                step = min(step * 1.5, _LONGEST_STEP)
            return connection
        finally:
            os.close(lock)

    def close(self) -> None:
        """Do not look after the daemon any longer. Idempotent."""
        if self._watch >= 0:
            os.close(self._watch)
            self._watch = -1

    def _advance(self, lock: int, failure: bytes, deadline: float) -> None:
        """We have the lock, and no daemon seems to run: start one, unless ours is on its way or somebody's failed."""
        if (text := os.pread(lock, _LONGEST_TEXT, 0)) != failure:
            # Whoever had the lock while we waited tried in vain; so would we.
            raise StartError(text.decode(errors="replace").partition(" ")[2])
        # Asked again, now that nobody else can start one.
        if daemon_pid(self._directory) is not None or (self._pid and not self._ended()):
            return
        if self._pid and not (self._left and self._came_up()):
            words = self._last_words()
            os.ftruncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}.{time.monotonic_ns()} {words}".encode()[:_LONGEST_TEXT], 0)
            raise StartError(words)
        self._left -= 1
        if self._pid == 0 and _has_unit(self._environ) and self._start_unit(deadline):
            self._pid = -1
        else:
            self._start_detached()

    def _ended(self) -> bool:
        return self._watch >= 0 and bool(select.select([self._watch], [], [], 0)[0])

    def _came_up(self) -> bool:
        """Return whether the daemon that we started was the owner once: then it just left, by its own decision."""
        try:
            with open(os.path.join(self._directory, LOCK_NAME), encoding="utf-8") as file:
                return file.read(32).strip() == str(self._pid)
        except (OSError, ValueError):
            return False

    def _start_detached(self) -> None:
        self.close()
        while (spare := os.open(os.devnull, os.O_RDWR)) < 3:
            pass  # else a pipe of ours could be in the place of a missing stdin
        os.close(spare)
        output = self._open_log()
        command = [sys.executable, "-I", "-m", "supervisord_mcp", "run", "--on-demand"]
        self._pid = _spawn_detached(command, self._environ, output)
        os.close(output)
        try:
            # /dev/null is always readable, as is the pidfd of a process that has ended.
            self._watch = os.pidfd_open(self._pid) if self._pid > 0 else os.open(os.devnull, os.O_RDONLY)
        except ProcessLookupError:
            self._watch = os.open(os.devnull, os.O_RDONLY)
        except OSError:
            pass  # no pidfd on this machine: only the deadline tells

    def _open_log(self) -> int:
        # Where the usual log cannot be written the daemon most likely cannot live either: its reason must get through.
        # Others may have made that place (in /tmp), so no link is followed there.
        other = os.path.join(self._directory, os.path.basename(self._log))
        for log, safely in ((self._log, 0), (other, os.O_NOFOLLOW)):
            try:
                os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
                if os.path.exists(log) and os.path.getsize(log) > _LONGEST_LOG:
                    os.replace(log, f"{log}.1")
                output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | safely, 0o600)
            except OSError:
                continue
            self._log, self._log_start = log, os.fstat(output).st_size
            return output
        return os.open(os.devnull, os.O_WRONLY)

    def _last_words(self) -> str:
        lines: list[str] = []
        try:
            with open(self._log, "rb") as file:
                file.seek(max(self._log_start, os.path.getsize(self._log) - _LONGEST_TEXT // 2))
                lines = file.read().decode(errors="replace").splitlines()
        except OSError:
            pass
        lines = [line for line in lines if line.strip()]
        # An error is told as a whole: a configuration may have many faults.
        begun = [number for number, line in enumerate(lines) if line.startswith("error[")]
        last = lines[begun[-1] :] if begun else lines[-6:] or ["it said nothing"]
        return "\n  ".join(["the daemon cannot start:", *last, f"(its log: {self._log})"])

    def _start_unit(self, deadline: float) -> bool:
        """Return whether the service manager of the user started the daemon."""
        environ = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **self._environ}
        environ["PATH"] = f"{environ.get('PATH', '')}:/usr/bin:/bin".lstrip(":")
        null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in (0, 1, 2)]
        command = ["systemctl", "--user", "start", UNIT_NAME]
        try:
            pid = os.posix_spawnp(command[0], command, environ, file_actions=null, setsigmask=[])
        except OSError:
            return False
        while (ended := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(_LONGEST_STEP)
        if ended[0] == 0:
            os.kill(pid, signal.SIGKILL)
            ended = os.waitpid(pid, 0)
        return ended[1] == 0


def daemon_pid(directory: str) -> str | None:
    """Return the pid of the daemon that owns a runtime directory, or None.

    A daemon that starts or leaves is one too: it has the lock before it listens, and until everything is put away.
    """
    import fcntl

    try:
        lock = os.open(os.path.join(directory, LOCK_NAME), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except OSError:
        return os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(lock)


def _make_directory(directory: str) -> None:
    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        if os.statvfs(os.path.dirname(directory)).f_flag & os.ST_RDONLY:
            raise PermissionError(error.errno, error.strerror) from error
        raise


def _try_lock(lock: int) -> bool:
    try:
        os.lockf(lock, os.F_TLOCK, 0)
    except OSError:
        return False
    return True


def _has_unit(environ: Mapping[str, str]) -> bool:
    if environ.get("SMCP_HOME"):  # the unit is for the usual place only
        return False
    home = environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    places = (config, f"{home}/.config", f"{home}/.local/share", "/etc", "/usr/local/lib", "/usr/lib", "/lib")
    return any(os.path.exists(f"{place}/systemd/user/{UNIT_NAME}") for place in places)


def _spawn_detached(command: list[str], environ: Mapping[str, str], output: int) -> int:
    """Start a process that shares nothing with us (session, signals, descriptors) and return its pid, -1 if it failed.

    A process in between makes it an orphan at once: nobody here reaps it, least of all the shell that the shim becomes.
    """
    reading, writing = os.pipe()
    if (between := os.fork()) == 0:
        try:
            os.chdir("/")
            for fd, file in enumerate((os.open(os.devnull, os.O_RDONLY), output, output)):
                os.dup2(file, fd)
            _keep_from_children()
            signals = signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}
            pid = os.posix_spawn(command[0], command, environ, setsid=True, setsigmask=[], setsigdef=signals)
            os.write(writing, b"%d" % pid)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(between, 0)
    try:
        return int(os.read(reading, 32) or -1)
    finally:
        os.close(reading)


def _keep_from_children() -> None:
    for name in os.listdir("/proc/self/fd"):
        try:  # noqa: SIM105 (not loaded yet where this runs)
            os.set_inheritable(int(name), int(name) < 3)
        except OSError:
            pass  # the listing itself
