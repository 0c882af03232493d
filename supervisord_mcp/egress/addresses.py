"""Addresses of the internet protocol: what a text means, and which of them are no part of the internet."""

from __future__ import annotations

import ipaddress
import re

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Where clouds serve credentials to whoever asks, whatever kind of address it is.
METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254"),
    )
)

_SHARED = ipaddress.IPv4Network("100.64.0.0/10")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
#: Ranges of IPv6 that carry another address or mean another network than they say.
_TUNNELS = tuple(
    map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b:1::/48", "2001::/32", "2002::/16", "3ffe::/16"))
)
_SITE_LOCAL = ipaddress.IPv6Network("fec0::/10")
# What functions of C take for an address: "127.1", "0x7f.1", "2130706433", "0177.0.0.1".
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


def literal(text: str) -> Address | None:
    """Return the address that a text is, without brackets; None for anything else. One inside of another is taken out.

    A scope (``fe80::1%eth0``) names an interface of some machine, so such an address is none here.
    """
    if text.startswith("[") and text.endswith("]") and ":" in text:
        text = text[1:-1]
    if "%" in text:
        return None
    try:
        return plain(ipaddress.ip_address(text))
    except ValueError:
        return None


def is_number_like(name: str) -> bool:
    """Return whether a name ends like an address; a resolver may take it for one, so it is never a name."""
    return _NUMBER.fullmatch(name.rstrip(".").rpartition(".")[2].lower()) is not None


def plain(address: Address) -> Address:
    """Return the IPv4 address that a mapped IPv6 address means; any other is what it is."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def is_own(address: Address) -> bool:
    """Return whether an address means the machine that uses it."""
    return address.is_loopback or address.is_unspecified


def objection(address: Address, *, private: bool = False) -> str:
    """Return why a name must not lead to an address; empty where it may.

    ``private`` opens private networks. It never opens the machine itself, its links, or what serves credentials: those
    are not where a name leads that somebody wrote down. An address inside of another counts as itself.
    """
    address = plain(address)
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address in METADATA:
        return "a metadata address"
    if is_own(address):
        return "a loopback address"
    if address.is_link_local:
        return "a link-local address"
    if address.is_multicast or address == ipaddress.IPv4Address("255.255.255.255"):
        return "a multicast address"
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in network for network in _TUNNELS):
            return "a tunnel address"
        if address in _SITE_LOCAL and not private:
            return "a private address"
    elif address in _SHARED:
        return "" if private else "a shared address"
    elif address.is_reserved:
        return "a reserved address"
    return "" if address.is_global or private else "a private address"
