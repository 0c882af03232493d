"""A program that enters the network namespace of a blocked sandbox and hands the sockets that it makes there back.

It runs as a bare file, alone and with one thread, for only such a process may enter a user namespace. A request is a
message on the socket that it was started with: the lines of what is wanted, the namespace, and a socket for the answer.
Each is served by a process of its own that ends with it. The answer is ``ok`` with the sockets in the order of the
request, or what went wrong; an answer that does not come is a failure too. End of file on the socket ends the program.

A socket stays in the namespace where it was made, whoever accepts from it.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import ipaddress
import os
import signal
import socket
import struct
import sys

_NS_GET_USERNS = 0xB701
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_LOOPBACK_INDEX = 1
_SECONDS = 5.0
_BACKLOG = 128
#: The kernel passes at most 253 descriptors with one message.
BATCH = 200
MOST_BYTES = 1 << 16

_REQUEST, _ACK, _CREATE, _REPLACE = 1, 4, 0x400, 0x100
_NEW_LINK, _GET_LINK, _NEW_ADDRESS, _NEW_ROUTE, _ERROR = 16, 18, 20, 24, 2
_LOCAL_TABLE, _PROTOCOL_STATIC, _SCOPE_HOST, _TYPE_LOCAL = 255, 4, 254, 2
_ADDRESS, _ADDRESS_LOCAL, _DESTINATION, _INTERFACE = 1, 2, 1, 4
_GROUP_LINK = 1


class Netlink:
    """A conversation with the kernel about the interfaces, addresses and routes of the namespace this process is in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
        self._socket.settimeout(_SECONDS)
        self._socket.bind((0, _GROUP_LINK))
        self._number = 0

    def await_loopback(self) -> None:
        """Wait until the loopback is up.

        bubblewrap does that, and must be first: it fails where the address is there already. Raise `OSError`.
        """
        self._send(_GET_LINK, _REQUEST, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, _LOOPBACK_INDEX, 0, 0))
        while True:
            for kind, _, body in _messages(self._socket.recv(1 << 16)):
                if kind == _ERROR:
                    _raise(body)
                if kind == _NEW_LINK:
                    _, _, index, flags, _ = struct.unpack_from("=BxHiII", body)
                    if index == _LOOPBACK_INDEX and flags & 1:
                        return

    def add_address(self, text: str) -> None:
        """Give the loopback one more address."""
        address = ipaddress.ip_address(text)
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        head = struct.pack("=BBBBI", family, address.max_prefixlen, 0, _SCOPE_HOST, _LOOPBACK_INDEX)
        values = _attribute(_ADDRESS_LOCAL, address.packed) + _attribute(_ADDRESS, address.packed)
        self._do(_NEW_ADDRESS, head + values)

    def add_local_route(self, text: str) -> None:
        """Make every address of a network one of this namespace."""
        network = ipaddress.ip_network(text)
        family = socket.AF_INET if network.version == 4 else socket.AF_INET6
        head = struct.pack(
            "=BBBBBBBBI",
            *(family, network.prefixlen, 0, 0),
            *(_LOCAL_TABLE, _PROTOCOL_STATIC, _SCOPE_HOST if network.version == 4 else 0, _TYPE_LOCAL, 0),
        )
        values = _attribute(_DESTINATION, network.network_address.packed) if network.prefixlen else b""
        values += _attribute(_INTERFACE, struct.pack("=I", _LOOPBACK_INDEX))
        self._do(_NEW_ROUTE, head + values)

    def _do(self, kind: int, body: bytes) -> None:
        self._send(kind, _REQUEST | _ACK | _CREATE | _REPLACE, body)
        while True:
            for answer, number, content in _messages(self._socket.recv(1 << 16)):
                if answer == _ERROR and number == self._number:
                    _raise(content)
                    return

    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._number += 1
        self._socket.send(struct.pack("=IHHII", 16 + len(body), kind, flags, self._number, 0) + body)


def _messages(data: bytes) -> list[tuple[int, int, bytes]]:
    """Return kind, number and body of every message in what was received."""
    found = []
    while len(data) >= 16:
        size, kind, _, number, _ = struct.unpack_from("=IHHII", data)
        if size < 16:
            break
        found.append((kind, number, data[16:size]))
        data = data[(size + 3) & ~3 :]
    return found


def _attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _raise(body: bytes) -> None:
    (code,) = struct.unpack_from("=i", body)
    if code:
        raise OSError(-code, os.strerror(-code))


def enter(namespace: int) -> None:
    """Go into a network namespace, as root of the user namespace that owns it. Raise `OSError` where that is refused.

    The namespace of this process itself is refused: nothing must ever be made in the machine's own.
    """
    own, other = os.stat("/proc/self/ns/net"), os.fstat(namespace)
    if (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino):
        raise OSError(0, "the sandbox has the network of the machine")
    owner = fcntl.ioctl(namespace, _NS_GET_USERNS)
    ours, theirs = os.stat("/proc/self/ns/user"), os.fstat(owner)
    if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino):
        # That of a container may be owned by our own, where we are root already, or nobody.
        _set_namespace(owner, _CLONE_NEWUSER)
    _set_namespace(namespace, _CLONE_NEWNET)
    os.close(owner)


def _set_namespace(descriptor: int, kind: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        raise OSError(ctypes.get_errno(), f"setns: {os.strerror(ctypes.get_errno())}")


def prepare(lines: list[str]) -> list[socket.socket]:
    """Do what a request says in the namespace this process is in; return its sockets. Raise `OSError`."""
    netlink = Netlink()
    netlink.await_loopback()
    sockets = []
    for line in lines:
        word, *rest = line.split(" ")
        try:
            if word == "address":
                netlink.add_address(rest[0])
            elif word == "route":
                # IPv6 may be switched off for interfaces. Then there is no route, so nothing is reached.
                with contextlib.suppress(OSError) if ":" in rest[0] else contextlib.nullcontext():
                    netlink.add_local_route(rest[0])
            else:
                sockets.append(_listener(word, rest[0], int(rest[1])))
        except OSError as error:
            raise OSError(error.errno, f"{line}: {error.strerror or error}") from error
    return sockets


def _listener(word: str, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    kind = socket.SOCK_STREAM if word == "tcp" else socket.SOCK_DGRAM
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    made.bind((address, port))
    if word == "tcp":
        made.listen(_BACKLOG)
    return made


def serve(request: bytes, namespace: int, reply: socket.socket) -> None:
    """Serve one request, and answer it whatever happens."""
    # Nobody may want the answer any more.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        try:
            enter(namespace)
            sockets = prepare(request.decode("ascii").splitlines())
        except OSError as error:
            reply.send((error.strerror or str(error)).encode())
            return
        for at in range(0, len(sockets), BATCH):
            batch = array.array("i", [made.fileno() for made in sockets[at : at + BATCH]])
            reply.sendmsg([b"ok"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, batch)])


def main() -> None:
    """Serve until end of file."""
    control = socket.socket(fileno=int(sys.argv[1]))
    # Children are reaped by the kernel.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, MOST_BYTES, 2)
        if not request or len(descriptors) != 2:
            return
        if os.fork() == 0:
            control.close()
            serve(request, descriptors[0], socket.socket(fileno=descriptors[1]))
            return
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    main()
