"""The network of the machine, as the daemon uses it for a sandbox: names to addresses, and connections to addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from supervisord_mcp.egress.addresses import Address, plain

_RESOLVE_SECONDS = 15.0
#: For each address, so that one that does not answer leaves time for the next.
_CONNECT_SECONDS = 10.0
#: A name may have many addresses; whoever owns it must not decide how long they are all tried.
_MOST_ADDRESSES = 4


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
