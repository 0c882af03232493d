"""The first program in a container: it gets from the daemon what it is to become, and becomes it.

It runs as a bare file with the Python of the machine, whatever the image is made of (see `tools`), and talks to the
daemon through a unix socket that is mounted beside it. So pipes, environment and secrets of a server travel as
descriptors: the engine passes no byte of the protocol on, and knows no secret.

Messages of this side: ``hello``; ``listeners`` with sockets, as often as needed; ``ready`` once all is set up; then
``failed``, a number of the system and a path, where the server cannot be executed. End of file means that it was.
Messages of the daemon: the order, in a file in memory, with the three pipes; ``go``. Without one of them this ends.
"""

from __future__ import annotations

import _socket
import array
import ctypes
import marshal
import os
import sys

SOCKET = "/.smcp/gate/socket"
#: The exit code where the daemon is gone, or says nothing that is understood.
ABANDONED = 97
#: The kernel passes at most 253 descriptors with one message.
BATCH = 200
BACKLOG = 128

_SIGPIPE, _SIGXFSZ = 13, 25
_EACCES = 13
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_MOST = 1 << 12
_FAMILY_IN6 = 10
_SOL_SOCKET, _SCM_RIGHTS, _IPPROTO_IPV6, _IPV6_V6ONLY = 1, 1, 41, 26


class _Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_char_p))


class Order:
    """What a container is to become: ``files`` with secrets are made in ``place``, ``filter`` is for system calls.

    ``expected`` are paths that it must be able to read, and to write where that is said.
    It travels as the values of its attributes, in this order.
    """

    def __init__(self, values: tuple[object, ...]) -> None:
        """Take the values apart."""
        self.argv: list[str]
        self.env: dict[str, str]
        self.cwd: str
        self.place: str
        self.files: list[tuple[str, bytes]]
        self.listeners: list[tuple[str, int, bool]]
        self.filter: bytes
        self.expected: list[tuple[str, bool]]
        self.argv, self.env, self.cwd, self.place, self.files = values[:5]  # type: ignore[assignment]
        self.listeners, self.filter, self.expected = values[5:]  # type: ignore[assignment]


def main() -> None:
    """Become the server."""
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        link.connect(SOCKET)
        link.send(b"hello")
        order, pipes = _order(link)
        _listen(link, order.listeners)
        _prepare(order)
        link.send(b"ready")
        if link.recv(_MOST) != b"go":
            os._exit(ABANDONED)
    except _FailureError as failure:
        _say_failed(link, failure.number, failure.path)
    except OSError as error:
        sys.stderr.write(f"smcp: the daemon cannot be reached from the container: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(ABANDONED)
    for number, pipe in enumerate(pipes):
        os.dup2(pipe, number)
    _execute(link, order)


class _FailureError(Exception):
    """Something of the order cannot be had."""

    def __init__(self, number: int, path: str) -> None:
        super().__init__(path)
        self.number = number
        self.path = path


def _order(link: _socket.socket) -> tuple[Order, list[int]]:
    """Return what the daemon wants, and the pipes of the server."""
    said, rights, _, _ = link.recvmsg(_MOST, _socket.CMSG_SPACE(4 * 4))
    numbers = array.array("i")
    for _, _, data in rights:
        numbers.frombytes(data[: len(data) - len(data) % 4])
    if said != b"order" or len(numbers) != 4:
        os._exit(ABANDONED)
    *pipes, content = numbers
    for number in numbers:
        os.set_inheritable(number, False)
    text = os.pread(content, os.fstat(content).st_size, 0)
    os.close(content)
    return Order(marshal.loads(text)), pipes


def _listen(link: _socket.socket, wanted: list[tuple[str, int, bool]]) -> None:
    """Make listeners, which the daemon serves, and hand them over."""
    made = []
    for address, port, datagrams in wanted:
        try:
            made.append(_listener(address, port, datagrams))
        except OSError as error:
            # A machine without IPv6 has none of its addresses, and nobody can call one there.
            if ":" not in address:
                raise _FailureError(error.errno or 0, f"{address}:{port}") from error
    for at in range(0, len(made), BATCH):
        numbers = array.array("i", [listener.fileno() for listener in made[at : at + BATCH]])
        link.sendmsg([b"listeners"], [(_SOL_SOCKET, _SCM_RIGHTS, numbers)])
    for listener in made:
        listener.close()


def _listener(address: str, port: int, datagrams: bool) -> _socket.socket:
    family = _socket.AF_INET6 if ":" in address else _socket.AF_INET
    made = _socket.socket(family, _socket.SOCK_DGRAM if datagrams else _socket.SOCK_STREAM)
    made.setblocking(False)
    if family == _FAMILY_IN6:
        made.setsockopt(_IPPROTO_IPV6, _IPV6_V6ONLY, 1)
    made.bind((address, port))
    if not datagrams:
        made.listen(BACKLOG)
    return made


def _prepare(order: Order) -> None:
    """Make the files of the server, and go where it works."""
    if order.files:
        place, path = order.place, order.place
        try:
            os.mkdir(place, 0o700)
            for name, content in order.files:
                path = f"{place}/{name}"
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                os.write(descriptor, content)
                os.close(descriptor)
        except OSError as error:
            raise _FailureError(error.errno or 0, path) from error
    for path, writable in order.expected:
        mode = os.R_OK | (os.W_OK if writable else 0) | (os.X_OK if os.path.isdir(path) else 0)
        if not os.access(path, mode):
            raise _FailureError(_EACCES, path)
    try:
        os.chdir(order.cwd)
    except OSError as error:
        raise _FailureError(error.errno or 0, order.cwd) from error


def _execute(link: _socket.socket, order: Order) -> None:
    """Execute the server as `execvpe` would, within its filter."""
    argv, env = order.argv, order.env
    # Python ignores two signals, which the server would inherit.
    libc = ctypes.CDLL(None, use_errno=True)
    for number in (_SIGPIPE, _SIGXFSZ):
        libc.signal(number, None)
    os.umask(0o022)
    if order.filter:
        program = order.filter
        prctl = libc.prctl
        zero = ctypes.c_ulong(0)
        filtered = _Filter(len(program) // 8, program)
        if prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0 or (
            prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(filtered), zero, zero) != 0
        ):
            _say_failed(link, ctypes.get_errno(), "seccomp")
    name = argv[0]
    path = env.get("PATH", os.defpath)
    places = [name] if "/" in name else [f"{place or '.'}/{name}" for place in path.split(":")]
    number = 2
    for place in places:
        try:
            os.execve(place, argv, env)
        except OSError as error:
            # Another place may have it; that one of them may not be used is still the better reason.
            if error.errno not in (2, 20):
                number = error.errno or 0
    _say_failed(link, number, name)


def _say_failed(link: _socket.socket, number: int, path: str) -> None:
    link.send(f"failed {number} {path}".encode("utf-8", "surrogateescape"))
    os._exit(ABANDONED)


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        # What this program needs of the machine: the daemon asks it before it shows it to a container.
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            mapped = [line.split(None, 5)[5].rstrip("\n") for line in maps if len(line.split(None, 5)) == 6]
        sys.stdout.write("\0".join([*filter(None, files), *mapped]))
    else:
        main()
