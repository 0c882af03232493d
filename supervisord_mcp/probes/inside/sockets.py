"""Attempts to talk to something outside."""

from __future__ import annotations

import socket

from supervisord_mcp.probes.inside.trying import (
    AbsentError,
    Facts,
    Group,
    KeptError,
    connecting,
    making_socket,
)

GROUP = Group("network and sockets")


def _pair(facts: Facts) -> None:
    for end in socket.socketpair():
        end.close()


def _message_from_pair(facts: Facts) -> None:
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.sendto(b"probe", facts["letters"])


def _bind_abstract() -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("\0smcp-probe")


_NETLINK = {"events of devices": 15, "audits": 9, "filters of the network": 12, "families of netlink": 16}
_FAMILIES = {
    "cryptography of the kernel": (38, socket.SOCK_SEQPACKET, 0),
    "Bluetooth": (31, socket.SOCK_RAW, 1),
    "packets past the kernel": (44, socket.SOCK_RAW, 0),
    "RDS": (21, socket.SOCK_SEQPACKET, 0),
    "keys for IPsec": (15, socket.SOCK_RAW, 2),
    "SMC": (43, socket.SOCK_STREAM, 0),
    "virtual machines": (40, socket.SOCK_STREAM, 0),
    "CAN": (29, socket.SOCK_RAW, 1),
    "TIPC": (30, socket.SOCK_RDM, 0),
}


def _own_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), 3).close()


def _address(facts: Facts) -> str:
    if not facts["address"]:
        raise AbsentError("it has no other")
    return str(facts["address"])


def _card() -> None:
    if [name for _, name in socket.if_nameindex() if name != "lo"] == []:
        raise KeptError("there is none but loopback")


GROUP.several(
    {
        "a socket of the file system": connecting(socket.AF_UNIX, lambda f: f["socket"]),
        "a socket in the temporary files of the machine": connecting(socket.AF_UNIX, lambda f: f["agent"]),
        "an abstract socket": connecting(socket.AF_UNIX, lambda f: "\0" + f["abstract"]),
        "the socket of docker": connecting(socket.AF_UNIX, lambda f: "/var/run/docker.sock"),
        "the bus of the system": connecting(socket.AF_UNIX, lambda f: "/run/dbus/system_bus_socket"),
        "the socket of systemd": connecting(socket.AF_UNIX, lambda f: "/run/systemd/private"),
        "a unix socket": making_socket(socket.AF_UNIX, socket.SOCK_STREAM),
        "a pair of sockets": _pair,
        "a message to a socket of the project": _message_from_pair,
        "an abstract socket of its own": lambda f: _bind_abstract(),
    }
)

GROUP.several(
    {
        "its own loopback": lambda f: _own_loopback(),
        "the loopback of the machine": connecting(socket.AF_INET, lambda f: ("127.0.0.1", f["port"])),
        "the loopback of the machine by IPv6": connecting(socket.AF_INET6, lambda f: ("::1", f["port6"])),
        "the loopback of the machine by address 0": connecting(socket.AF_INET, lambda f: ("0.0.0.0", f["port"])),
        "another address of the machine": connecting(socket.AF_INET, lambda f: (_address(f), f["port"])),
        "datagrams to the machine": connecting(socket.AF_INET, lambda f: (_address(f), 9), socket.SOCK_DGRAM),
        "a way to the internet": connecting(socket.AF_INET, lambda f: ("1.1.1.1", 443), socket.SOCK_DGRAM),
        "a way to a name server": connecting(socket.AF_INET, lambda f: ("8.8.8.8", 53), socket.SOCK_DGRAM),
        "a way to the data of the cloud": connecting(
            socket.AF_INET, lambda f: ("169.254.169.254", 80), socket.SOCK_DGRAM
        ),
        "a way to the private network": connecting(socket.AF_INET, lambda f: ("10.0.0.1", 80), socket.SOCK_DGRAM),
        "a network card": lambda f: _card(),
        "raw packets": making_socket(17, socket.SOCK_RAW, 0x0300),
        "raw IPv4": making_socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP),
        "raw IPv6": making_socket(socket.AF_INET6, socket.SOCK_RAW, 58),
        "pings": making_socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP),
    }
)

GROUP.several({f"netlink for {name}": making_socket(16, socket.SOCK_RAW, kind) for name, kind in _NETLINK.items()})

GROUP.several({f"sockets for {name}": making_socket(*words) for name, words in _FAMILIES.items()})
