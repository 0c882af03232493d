"""The network of the machine, as the daemon uses it for a sandbox: names to addresses, and connections to addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket

from supervisord_mcp.egress.addresses import Address, literal, plain
from supervisord_mcp.egress.proxies import Proxy

_RESOLVE_SECONDS = 15.0
#: For each address, so that one that does not answer leaves time for the next.
_CONNECT_SECONDS = 10.0
#: A name may have many addresses; whoever owns it must not decide how long they are all tried.
_MOST_ADDRESSES = 4
_TUNNEL_SECONDS = 30.0
_MOST_ANSWER = 1 << 14
_ANSWER = re.compile(rb"HTTP/1\.[01] (\d{3})")


class Outside:
    """Resolves and connects. Tests have their own, for what a machine without internet cannot show."""

    async def resolve(self, name: str) -> tuple[Address, ...]:
        """Return the addresses of a name, best first. Raise `OSError` where it has none."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(_RESOLVE_SECONDS):
            # The last dot keeps the machine's own search list out: the name is meant as it was judged.
            found = await loop.getaddrinfo(f"{name}.", None, type=socket.SOCK_STREAM)
        addresses = (ipaddress.ip_address(str(where[0]).partition("%")[0]) for *_, where in found)
        return tuple(dict.fromkeys(map(plain, addresses)))

    def is_here(self, address: Address) -> bool:
        """Return whether an address is one of this machine, public ones included: who goes there comes from there."""
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        try:
            with socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
                # Nothing is sent: the kernel only looks for the way.
                asked.connect((str(address), 9))
                return str(asked.getsockname()[0]) == str(address)
        except OSError:
            return False

    async def connect(self, address: Address, port: int) -> socket.socket:
        """Return a connection to an address. Raise `OSError` where there is none."""
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await asyncio.get_running_loop().sock_connect(made, (str(address), port))
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException:
            made.close()
            raise
        return made


async def connect_first(outside: Outside, addresses: tuple[Address, ...], port: int) -> socket.socket:
    """Return a connection to the first address that takes one. Raise the last `OSError` where none does."""
    last: OSError = OSError(0, "the name has no address")
    for address in addresses[:_MOST_ADDRESSES]:
        try:
            return await outside.connect(address, port)
        except OSError as error:
            last = error
    raise last


async def connect_through(outside: Outside, proxy: Proxy, host: str, port: int) -> socket.socket:
    """Return a connection to a host that a person's proxy makes. Raise `OSError` where it does not.

    The proxy resolves the name: where there is one, this machine often cannot.
    """
    address = literal(proxy.host)
    try:
        made = await connect_first(
            outside, (address,) if address is not None else await outside.resolve(proxy.host), proxy.port
        )
    except OSError as error:
        raise OSError(0, f"the proxy {proxy.host}:{proxy.port} of the settings cannot be reached: {error}") from error
    try:
        async with asyncio.timeout(_TUNNEL_SECONDS):
            await _open_tunnel(made, proxy, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        made.close()
        raise
    return made


async def _open_tunnel(connection: socket.socket, proxy: Proxy, place: str) -> None:
    loop = asyncio.get_running_loop()
    authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
    await loop.sock_sendall(connection, f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{authorization}\r\n".encode())
    answer = b""
    # A byte at a time: what follows the answer belongs to the client.
    while not answer.endswith(b"\r\n\r\n"):
        part = await loop.sock_recv(connection, 1)
        answer += part
        if not part or len(answer) > _MOST_ANSWER:
            raise OSError(0, f"the proxy {proxy.host}:{proxy.port} of the settings gave no answer")
    status = _ANSWER.match(answer)
    if status is None or not status[1].startswith(b"2"):
        said = status[1].decode() if status else "nonsense"
        raise OSError(0, f"the proxy {proxy.host}:{proxy.port} of the settings refused it: {said}")
