"""Addresses on which something of the daemon may listen: of this machine alone, unless another one is named."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

#: What says that nothing listens.
OFF = "off"
#: The path of a unix socket has 107 bytes.
_LONGEST = 107
_TCP = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[^\[\]:/]+)):(?P<port>[0-9]{1,5})")
_SHAPE = 'write "127.0.0.1:9464", "[::1]:9464" or "unix:/run/user/1000/smcp-metrics.sock"'


@dataclass(frozen=True, slots=True)
class Tcp:
    """An address of IP, version 4 or 6, and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.host).is_loopback


@dataclass(frozen=True, slots=True)
class Unix:
    """The path of a socket."""

    path: str


def parse_address(text: str) -> Tcp | Unix:
    """Given "HOST:PORT" or "unix:/PATH", return the address. Raise `ValueError` that says what is wrong with it."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        if not path.startswith("/") or path.endswith("/") or "\0" in path:
            raise ValueError("the path of a unix socket must be absolute, like unix:/run/user/1000/smcp-metrics.sock")
        if len(path.encode("utf-8", "surrogateescape")) > _LONGEST:
            raise ValueError(f"the path of a unix socket has at most {_LONGEST} bytes")
        return Unix(path)
    match = _TCP.fullmatch(text)
    if match is None:
        raise ValueError(f"is no address; {_SHAPE}")
    host = match["six"] or match["host"]
    if host == "localhost":
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise ValueError(f"{host[:60]!r} is no address of IP; {_SHAPE}") from None
    port = int(match["port"])
    if not 0 < port < 1 << 16:
        raise ValueError("a port is between 1 and 65535")
    return Tcp(str(address), port)


def check_address(text: str) -> str:
    """Return the address as it is written. Raise `ValueError` as `parse_address` does."""
    parse_address(text)
    return text


def check_ip(text: str) -> str:
    """Return an address of IP in the usual way to write it. Raise `ValueError` if it is none."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"{text[:60]!r} is no address of IP") from None


def parse_listen(value: object) -> object:
    """Given "off", return None; return anything else as it is."""
    return None if value == OFF else value


def format_listen(text: str | None) -> str:
    """Given an address or None, return the text that `parse_listen` reads back as the same."""
    return OFF if text is None else text
