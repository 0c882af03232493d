"""What a host starts instead of a server: it hands the host's stdin and stdout to the daemon and gets out of the way.

Runs as ``python -I -S shim.py NAME [--project DIR]``. Every host pays for its start, and as a script it is compiled
each time: so this file has the way of a healthy start only and imports nothing but os, select, signal, socket and sys.
What is needed where there is no daemon yet (`starter`) or no pipe (`pump`) is loaded when it is.

The life of a session: connect (and start the daemon if none runs), send the greeting with the descriptors 0 and 1, and
become ``/bin/sh``, which waits on the socket with a tenth of the memory. A line on the socket is the verdict: exit.
End of file without one means that the daemon died: ``sh`` starts this file again, with the token of the session in
the environment (``SMCP_RESUME``; an argument could be read by every user of the machine).

Only pipes and sockets are handed over. Setting them non-blocking is harmless, since the host's end is another open
file; on a terminal it is not, and a regular file cannot be waited for. Those are pumped through pipes of our own.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from supervisord_mcp.pump import Pump
    from supervisord_mcp.starter import Start

SOCKET_NAME, LOG_NAME = "daemon.sock", "daemon.log"
USAGE = "usage: smcp connect NAME [--project DIR]"

SHELL = "/bin/sh"
#: What the shell runs; "$@" is this file again. The descriptor is 3 because dash cannot redirect those above 9.
_WAIT = """# smcp: the daemon serves this session of a host; this only waits for its end.
IFS= read -r line <&3 || exec "$@"
code=${line%% *} text=
case $line in *" "*) text=${line#* };; esac
case $code in ''|*[!0-9]*) code=1;; esac
while case $text in *"\u2028"*) ;; *) false;; esac
do printf '%s\\n' "${text%%"\u2028"*}" >&2; text=${text#*"\u2028"}; done
[ -z "$text" ] || printf '%s\\n' "$text" >&2
exit "$code"
"""

_PATIENCE, _RESUME_PATIENCE = 20.0, 900.0  # for the daemon to come up and answer; for one that died to come back
_MANY_DEATHS, _SHORT_TIME = 20, 60.0  # more deaths than this in this time: the session itself may be the cause
_MAX_HELLO = 1 << 20
_RESUME = "SMCP_RESUME"

#: Variables in which a host names the directory it works in, best first. SMCP_PROJECT is ours, for the env block of
#: any host's configuration; Claude Code sets the second, Cursor the third (one path, several, or a JSON list).
#: VSCODE_CWD is not here: it is where the editor was started from, mostly HOME.
PROJECT_VARIABLES = ("SMCP_PROJECT", "CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS")
PROJECT_MARKERS = (
    *(".git", ".hg", ".jj", ".smcp.toml", ".mcp.json", "package.json", "pyproject.toml", "Cargo.toml", "go.mod"),
    *("pom.xml", "build.gradle", "build.gradle.kts", "composer.json", "Gemfile", "mix.exs"),
)
#: What a daemon takes over from the host that starts it; the rest may be a secret, not to be inherited by all servers.
_PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "DBUS_SESSION_BUS_ADDRESS", "NVM_DIR"),
    *("NODE_EXTRA_CA_CERTS", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)
_BEGINNINGS = ("SMCP_", "LC_", "XDG_", "SSL_CERT_", "NPM_CONFIG_", "npm_config_", "PIP_", "UV_")


class ShimError(Exception):
    """Why there is no session: the exit status, the text for the person, and whether trying again cannot help."""

    def __init__(self, status: int, text: str, *, final: bool = True) -> None:
        super().__init__(text)
        self.status, self.text, self.final = status, text, final


# ---- places -------------------------------------------------------------------------------------------------------


def home_directory(environ: Mapping[str, str], uid: int) -> str:
    """Return the person's HOME, from the account database where a host passes none."""
    if os.path.isabs(home := environ.get("HOME", "")):
        return home
    import pwd

    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return "/"


def runtime_directory(environ: Mapping[str, str], uid: int) -> str:
    """Return the directory of the daemon's socket; found without XDG_RUNTIME_DIR too, since many hosts pass none."""
    if own := environ.get("SMCP_HOME"):
        return os.path.join(os.path.abspath(own), "run")
    for base in (environ.get("XDG_RUNTIME_DIR", ""), f"/run/user/{uid}"):
        # One of another user (su, sudo -E) or one that nobody made and we cannot make (WSL) is not ours to use.
        if os.path.isabs(base) and _is_ours(base, uid):
            return os.path.join(base, "smcp")
    return f"/tmp/smcp-{uid}"


def state_directory(environ: Mapping[str, str], uid: int) -> str:
    """Return the directory of what outlives a boot, such as the daemon's log."""
    if own := environ.get("SMCP_HOME"):
        return os.path.join(os.path.abspath(own), "state")
    base = environ.get("XDG_STATE_HOME", "")
    return os.path.join(base if os.path.isabs(base) else f"{home_directory(environ, uid)}/.local/state", "smcp")


def pointer_file(environ: Mapping[str, str], uid: int) -> str | None:
    """Return the file in which a daemon leaves its runtime directory for hosts with another environment, or None."""
    return None if environ.get("SMCP_HOME") else f"{home_directory(environ, uid)}/.local/state/smcp/runtime"


def daemon_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a daemon that is started from this one."""
    names = [name for name in environ if name != _RESUME and (name in _PASSED_ON or name.startswith(_BEGINNINGS))]
    passed = {name: environ[name] for name in names}
    if own := passed.get("SMCP_HOME"):
        passed["SMCP_HOME"] = os.path.abspath(own)
    return passed


def _is_ours(path: str, uid: int) -> bool:
    try:
        return os.stat(path).st_uid == uid
    except OSError:
        return not path.startswith("/run/user/") and os.access(os.path.dirname(path), os.W_OK)


def find_project(explicit: str | None, environ: Mapping[str, str], cwd: str, uid: int) -> str | None:
    """Given ``--project`` or None, return the directory the session works in, or None where none is known.

    HOME and / are a project only if ``--project`` says so. A marked directory in which everyone may write is none:
    the mark could be anybody's.
    """
    if explicit is not None:
        path = os.path.realpath(os.path.join(cwd, explicit))
        if not os.path.isdir(path):
            raise ShimError(2, f"--project {explicit}: {path} is not a directory")
        return path
    never = {"/", os.path.realpath(home_directory(environ, uid))}
    for name in PROJECT_VARIABLES:
        value = environ.get(name, "")
        for part in (value, *value.strip("[]").replace(",", ":").split(":")):
            path = part.strip(' "')
            if os.path.isabs(path) and os.path.isdir(path) and (path := os.path.realpath(path)) not in never:
                return path
    path = os.path.realpath(cwd)
    while path not in never:
        if any(os.path.lexists(f"{path}/{mark}") for mark in PROJECT_MARKERS):
            return None if os.stat(path).st_mode & stat.S_IWOTH else path
        path = os.path.dirname(path)
    return None


_ESCAPES = {code: f"\\u{code:04x}" for code in range(32)} | {34: '\\"', 92: "\\\\"}


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def encode_hello(fields: Mapping[str, str | int | None], environ: Mapping[bytes, bytes]) -> bytes:
    """Return the greeting as one JSON line.

    JSON cannot carry bytes that are not UTF-8, so such variables stay behind; so do the longest ones where all of them
    together would not fit into a greeting.
    """
    head = "".join(
        f"{_quote(name)}:{'null' if value is None else value if isinstance(value, int) else _quote(value)},"
        for name, value in fields.items()
    )
    pairs = [(_utf8(name), _utf8(value)) for name, value in environ.items() if name != _RESUME.encode()]
    items = [f"{_quote(name)}:{_quote(value)}".encode() for name, value in pairs if not (name is None or value is None)]
    room = _MAX_HELLO - len(head.encode()) - 64 - sum(len(item) + 1 for item in items)
    while room < 0 and items:
        room += len(longest := max(items, key=len)) + 1
        items.remove(longest)
    return f'{{{head}"environ":{{'.encode() + b",".join(items) + b"}}\n"


class Session:
    """What this process was asked for, and what it knows of the session by now."""

    def __init__(self, argv: list[str]) -> None:
        self.argv, self.uid = argv, os.getuid()
        self.server, explicit = _parse(argv)
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = "/"
        project = find_project(explicit, os.environ, cwd, self.uid)
        self.project = None if project is None else _utf8(os.fsencode(project))
        if explicit is not None and self.project is None:
            raise ShimError(2, f"--project {explicit!a}: the path is not UTF-8")
        self.cwd = _utf8(os.fsencode(cwd)) or "/"
        token, deaths, since = (*os.environ.get(_RESUME, "").split(), "", "", "")[:3]
        self.token = token or None
        self.deaths, self.since = (int(text) if text.isdecimal() else 0 for text in (deaths, since))

    def hello(self) -> bytes:
        """Return the greeting of this session."""
        fields: dict[str, str | int | None] = {"smcp": 1, "role": "shim", "server": self.server, "cwd": self.cwd}
        fields |= {"project": self.project, "pid": os.getpid(), "resume": self.token}
        return encode_hello(fields, os.environb)

    def count_death(self) -> None:
        """Note that the daemon died under this session. Raise `ShimError` if it does nothing but die."""
        if (now := int(_now())) - self.since > _SHORT_TIME:
            self.deaths, self.since = 0, now
        self.deaths += 1
        if self.deaths > _MANY_DEATHS:
            log = os.path.join(state_directory(os.environ, self.uid), LOG_NAME)
            raise ShimError(3, f"the daemon died {self.deaths} times within {_SHORT_TIME:.0f} s; its log: {log}")


def _parse(argv: list[str]) -> tuple[str, str | None]:
    names, project, words = [], None, iter(argv)
    for word in words:
        if word == "--project":
            project = next(words, "")
        elif word.startswith("--project="):
            project = word.partition("=")[2]
        else:
            names.append(word)
    if len(names) != 1 or project == "" or names[0].startswith("-"):
        raise ShimError(2, USAGE)
    return names[0], project


def _now() -> float:
    import time

    return time.monotonic()


def _blocked(what: str, error: OSError) -> ShimError:
    remedy = "Allow it in the settings of that sandbox, or start the host outside of it."
    return ShimError(3, f"{what} is blocked by the host's sandbox ({error.strerror}).\n{remedy}")


def connect(directory: str, uid: int) -> socket.socket | None:
    """Return a connection to the daemon of that runtime directory, or None where none listens.

    Raise `ShimError` where the directory is somebody else's, or where the host's own sandbox forbids the socket.
    """
    path = os.path.join(directory, SOCKET_NAME)
    connection = found = None
    try:
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != uid:
            text = f"{directory} is not a directory of uid {uid}, but of uid {found.st_uid}"
            raise ShimError(3, f"{text}; remove it or set XDG_RUNTIME_DIR")
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(_PATIENCE)
        connection.connect(path)
        return connection
    except OSError as error:
        if connection is not None:
            connection.close()
        if error.errno is None:  # raised by Python itself, before any system call
            raise ShimError(3, f"{path}: {error} (the limit is 107 bytes); set XDG_RUNTIME_DIR") from None
        # Where not even a socket can be made (EAFNOSUPPORT under a service manager), that is somebody's rule as well.
        if isinstance(error, PermissionError) or (connection is None and found is not None):
            raise _blocked(f"the socket {path}", error) from None
        return None


def find_daemon(environ: Mapping[str, str], uid: int) -> socket.socket | None:
    """Return a connection to the running daemon, also to one that another environment started; None if none runs."""
    directory = runtime_directory(environ, uid)
    if (connection := connect(directory, uid)) is not None:
        return connection
    try:
        with open(pointer_file(environ, uid) or "", encoding="utf-8") as file:
            other = file.read(4096).rstrip("\n")
        return connect(other, uid) if os.path.isabs(other) and other != directory else None
    except (OSError, ValueError, ShimError):
        return None


def reach_daemon(environ: Mapping[str, str], uid: int) -> socket.socket:
    """Return a connection to the daemon, started if need be. Raise `ShimError` when there is none."""
    if (connection := find_daemon(environ, uid)) is None:
        start = _new_start(environ, uid)
        try:
            connection = _wait_for_daemon(start, environ, uid)
        finally:
            start.close()
    return connection


def _new_start(environ: Mapping[str, str], uid: int) -> Start:
    _find_siblings()
    from supervisord_mcp.starter import Start

    log = os.path.join(state_directory(environ, uid), LOG_NAME)
    return Start(runtime_directory(environ, uid), log, daemon_environ(environ))


def _wait_for_daemon(start: Start, environ: Mapping[str, str], uid: int) -> socket.socket:
    from supervisord_mcp.starter import StartError

    directory = runtime_directory(environ, uid)
    try:
        return start.wait(lambda: find_daemon(environ, uid), _PATIENCE)
    except PermissionError as error:
        raise _blocked(f"the directory {directory}", error) from None
    except StartError as error:
        raise ShimError(3, str(error), final=False) from None
    except OSError as error:
        raise ShimError(3, f"cannot use the directory {directory}: {error.strerror}", final=False) from None


def _find_siblings() -> None:
    """Make our package importable: run as a script with -I and -S, this file does not have it on the path."""
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if place not in sys.path:
        sys.path.append(place)


def _close_all_but(kept: Iterable[int]) -> None:
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            try:  # noqa: SIM105 (every host would pay for contextlib)
                os.close(int(name))
            except OSError:
                pass  # the listing itself


# ---- the session --------------------------------------------------------------------------------------------------


def _read_line(connection: socket.socket) -> bytes:
    """Return one line and take nothing beyond it from the socket, since the shell reads on; empty at end of file."""
    line = b""
    try:
        while not line.endswith(b"\n"):
            if not (seen := connection.recv(4096, socket.MSG_PEEK)):
                return b""
            line += connection.recv(seen.find(b"\n") + 1 or len(seen))
    except ConnectionError:
        return b""
    return line


def _verdict(text: str) -> tuple[int, str]:
    status, _, text = text.rstrip("\n").partition(" ")
    return int(status) if status.isdecimal() else 1, text.replace("\u2028", "\n")


def _greet(connection: socket.socket, hello: bytes, fds: list[int]) -> str | None:
    """Return the token of the accepted session, or None where the daemon went away. Raise `ShimError` if refused."""
    try:
        try:  # noqa: SIM105
            connection.sendall(hello[socket.send_fds(connection, [hello], fds) :])
        except ConnectionError:
            pass  # there may be a refusal to read nonetheless
        word, _, rest = _read_line(connection).decode(errors="replace").rstrip("\n").partition(" ")
    except TimeoutError:
        pid = int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[:4], sys.byteorder)
        text = f"the daemon with pid {pid} is alive but does not answer (waited {_PATIENCE:.0f} s)"
        raise ShimError(3, text, final=False) from None
    if word in ("ok", ""):
        return rest or None
    status, text = _verdict(rest)
    raise ShimError(status, text if word == "no" else "what answers on the socket is not a daemon of smcp")


def _try_to_open(session: Session, fds: list[int], *, may_start: bool) -> socket.socket:
    deadline, start = _now() + _PATIENCE, None
    try:
        while True:
            if (connection := find_daemon(os.environ, session.uid)) is None:
                if not may_start:
                    raise ShimError(3, "no daemon runs", final=False)
                start = start or _new_start(os.environ, session.uid)
                connection = _wait_for_daemon(start, os.environ, session.uid)
            if (token := _greet(connection, session.hello(), fds)) is not None:
                session.token = token
                return connection
            connection.close()  # it was just leaving; the next one will be another
            if _now() > deadline:
                raise ShimError(3, f"the daemon hangs up before it answers (for {_PATIENCE:.0f} s)", final=False)
            select.select([], [], [], 0.01)
    finally:
        if start is not None:
            start.close()


def open_session(session: Session, fds: list[int]) -> socket.socket:
    """Return the connection on which the daemon accepted the session, new or resumed. Raise `ShimError` if refused."""
    if session.token is None:
        return _try_to_open(session, fds, may_start=True)
    session.count_death()
    give_up, gap, next_start = _now() + _RESUME_PATIENCE, 1.0, 0.0
    failure = None
    while True:
        may_start = _now() >= next_start
        try:
            return _try_to_open(session, fds, may_start=may_start)
        except ShimError as error:
            failure = error if may_start or failure is None else failure
            if error.final or _now() > give_up or _host_left():
                raise failure from None
        if may_start:
            next_start, gap = _now() + gap, min(gap * 2, 30.0)
        select.select([], [], [], 0.5)


def _host_left() -> bool:
    poll = select.poll()
    poll.register(0, 0)
    return bool(poll.poll(0))  # asked for nothing, it reports only that the other end is closed


def _become_shell(session: Session, connection: socket.socket) -> None:
    """Replace this process by the waiting shell; returns only where that is not possible."""
    again = [sys.executable, "-I", "-S", os.path.abspath(__file__), *session.argv]
    environ = {**os.environ, _RESUME: f"{session.token} {session.deaths} {session.since}"}
    connection.settimeout(None)  # the shell does not expect a non-blocking one
    os.dup2(connection.fileno(), 3)
    os.set_inheritable(3, True)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execve(SHELL, ["sh", "-c", _WAIT, "smcp", *again], environ)
    except OSError:
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)


def _settle() -> None:
    """Give this process the descriptors and signals that the rest relies on, whatever the host left it with."""
    while (fd := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(fd, True)
    _close_all_but({0, 1, 2})
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _wait(session: Session) -> tuple[int, str]:
    """Return the verdict on the session, after as many daemons as it takes; the shell does so where it can."""
    feed, drain = (stat.S_IFMT(os.fstat(fd).st_mode) not in (stat.S_IFIFO, stat.S_IFSOCK) for fd in (0, 1))
    pump = _new_pump(feed, drain) if feed or drain else None
    while True:
        connection = open_session(session, [0, 1] if pump is None else pump.fds)
        if pump is None:
            _become_shell(session, connection)
            pump = _new_pump(feed, drain)  # there is no shell
        pump.move(connection)
        line = _read_line(connection)
        connection.close()
        if line:
            pump.finish()
            return _verdict(line.decode(errors="replace"))


def _new_pump(feed: bool, drain: bool) -> Pump:
    _find_siblings()
    from supervisord_mcp.pump import Pump

    return Pump(feed=feed, drain=drain)


def main(argv: list[str]) -> int:
    """Connect the host of this process to a server; return the exit status. Takes over the whole process."""
    _settle()
    waiting = _RESUME not in os.environ  # the host waits for the answer to its first request
    session = None
    try:
        session = Session(argv)
        status, text = _wait(session)
    except ShimError as error:
        status, text = error.status, f"smcp: {error.text}"
    except OSError as error:
        status, text = 1, f"smcp: {error}"
    if text:
        try:  # noqa: SIM105
            os.write(2, f"{text}\n".encode(errors="replace"))
        except OSError:
            pass  # nobody listens
    if waiting and (session is None or session.token is None):
        _find_siblings()
        from supervisord_mcp.pump import answer_host

        answer_host(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
