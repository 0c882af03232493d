"""What clients say to a proxy before their own bytes begin: requests of HTTP, requests of SOCKS 5, and the answers."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

#: The most that the head of a request may have, as with common servers.
MOST_HEAD = 1 << 16
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONNECT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/?#@\s]+):([0-9]{1,5})", re.ASCII)
#: Fields between a client and its proxy, which are no business of the server.
_HOP = {b"proxy-connection", b"proxy-authorization", b"connection", b"keep-alive", b"te", b"host"}

SOCKS_VERSION = 5
SOCKS_REFUSED, SOCKS_FAILED, SOCKS_UNREACHABLE, SOCKS_COMMAND, SOCKS_ADDRESS = 2, 1, 4, 7, 8
_SOCKS_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4


@dataclass(frozen=True, slots=True)
class Target:
    """Where a client wants to go, and what the server there is sent first."""

    host: str
    port: int
    first: bytes = b""
    tunnel: bool = True


class HeadError(Exception):
    """A request that cannot be understood; ``status`` and the text go to the client."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def http_target(head: bytes) -> Target:
    """Given a head with its empty line, return where it goes. Raise `HeadError` for what no proxy is asked."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    words = line.split(b" ")
    if len(words) != 3 or not _TOKEN.fullmatch(words[0]) or words[2] not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise HeadError(400, "this is no request of HTTP 1")
    method, where, version = words
    if any(byte < 0x21 or byte > 0x7E for byte in where):
        raise HeadError(400, "the target of the request has bytes that must be escaped")
    if method == b"CONNECT":
        found = _CONNECT.fullmatch(where.decode("ascii"))
        if found is None:
            raise HeadError(400, "CONNECT needs host:port")
        return Target(found[1], int(found[2]))
    return _absolute(method, where.decode("ascii"), version, fields)


def _absolute(method: bytes, where: str, version: bytes, fields: list[bytes]) -> Target:
    try:
        url = urlsplit(where)
        host, port = url.hostname or "", 80 if url.port is None else url.port
    except ValueError:
        raise HeadError(400, "the target of the request is no URL") from None
    if url.scheme.lower() != "http" or not host:
        raise HeadError(400, "this is a proxy: it takes CONNECT host:port, and requests for http:// URLs")
    # By the syntax everything behind the scheme and host is the path, so nothing of it is decoded or changed.
    rest = where.split("//", 1)[1]
    path = rest[len(url.netloc) :].partition("#")[0]
    path = path if path.startswith("/") else f"/{path}"
    first = [b"%s %s %s" % (method, path.encode("ascii"), version)]
    shown = f"[{host}]" if ":" in host else host
    first.append(f"Host: {shown}{'' if url.port is None else f':{port}'}".encode("ascii"))
    for field in fields:
        name, colon, _ = field.partition(b":")
        if not colon or not _TOKEN.fullmatch(name) or b"\n" in field or b"\r" in field:
            raise HeadError(400, "a field of the request is malformed")
        if name.lower() not in _HOP:
            first.append(field)
    # One request for each connection: the next may be for another host, which must be judged for itself.
    first.append(b"Connection: close")
    return Target(host, port, b"\r\n".join(first) + b"\r\n\r\n", tunnel=False)


def http_answer(status: int, reason: str) -> bytes:
    """Return the answer to a request that goes nowhere; its status line has the reason, for clients show that."""
    words = {
        400: "Bad Request",
        403: "Forbidden",
        502: "Bad Gateway",
        503: "Service Unavailable",
        504: "Gateway Timeout",
    }
    text = "".join(sign if " " <= sign <= "~" else "?" for sign in reason)[:400]
    body = f"smcp: {text}\n".encode("ascii")
    head = (
        f"HTTP/1.1 {status} {words.get(status, 'Error')} (smcp: {text})\r\nContent-Type: text/plain\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nProxy-Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


def socks_answer(code: int) -> bytes:
    """Return the reply to a request of SOCKS 5; 0 is success. Where the proxy connects from is nobody's business."""
    return bytes((SOCKS_VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0))


def socks_size(request: bytes) -> int:
    """Return how many bytes a request has, as far as can be told from what is there; more than there is: read on."""
    if len(request) < 5:
        return 5
    return {_IPV4: 10, _NAME: 7 + request[4], _IPV6: 22}.get(request[3], len(request))


def socks_target(request: bytes) -> Target:
    """Given a request in full, return where it goes. Raise `HeadError` with the code to answer."""
    version, command, _, kind = request[:4]
    if version != SOCKS_VERSION:
        raise HeadError(SOCKS_FAILED, "this is no SOCKS 5")
    if command != _SOCKS_CONNECT:
        raise HeadError(SOCKS_COMMAND, "only connections can be made, nothing else of SOCKS")
    port = int.from_bytes(request[-2:], "big")
    match kind:
        case 1:
            return Target(str(ipaddress.IPv4Address(request[4:8])), port)
        case 4:
            return Target(str(ipaddress.IPv6Address(request[4:20])), port)
        case 3:
            return Target(request[5:-2].decode("utf-8", errors="replace"), port)
        case _:
            raise HeadError(SOCKS_ADDRESS, "this kind of address is not known")
