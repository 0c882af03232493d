"""The proxy that a person's own settings name: which one serves a host, and which hosts are reached without one."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

_DEFAULT_PORT = 80


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy of HTTP that makes tunnels; ``authorization`` is the value of the header, empty where there is none."""

    host: str
    port: int
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Proxies:
    """What somebody said about proxies: their URLs by the scheme that they serve, and what is reached without them."""

    http: str = field(default="", repr=False)
    https: str = field(default="", repr=False)
    bypass: str = ""

    def find(self, scheme: str, host: str, port: int) -> Proxy | None:
        """Return the proxy for a host, None where it is reached directly. Raise `ValueError` for an unusable proxy."""
        url = self.https if scheme == "https" else self.http
        return None if not url or bypasses(self.bypass, host, port) else parse_proxy(url)


def parse_proxy(url: str) -> Proxy:
    """Return the proxy that a URL means; ``host:port`` is one of HTTP. Raise `ValueError` that never shows a password.

    Only plain HTTP is spoken to a proxy: the connection that goes through it has its own encryption.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("the URL of the proxy cannot be read") from None
    if parts.scheme != "http" or not host:
        raise ValueError(f"a proxy is needed with a URL like http://host:port, not one of {parts.scheme or 'nothing'}")
    said = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
    token = "" if said == ":" else f"Basic {base64.b64encode(said.encode()).decode()}"
    return Proxy(host, port or _DEFAULT_PORT, token)


def bypasses(text: str, host: str, port: int) -> bool:
    """Return whether a list as in NO_PROXY names a host: in full, as a domain above it, as a network, or as ``*``."""
    host = host.lower().strip("[]").rstrip(".")
    for entry in text.replace(",", " ").split():
        name, _, digits = entry.lower().rpartition(":")
        if not name or not digits.isdecimal() or (":" in name.strip("[]") and not name.startswith("[")):
            name, digits = entry.lower(), ""
        if digits and int(digits) != port:
            continue
        name = name.strip("[]").removeprefix("*").lstrip(".").rstrip(".")
        if not name:
            # Nothing but signs: "*" is every host, and "." is none.
            if "*" in entry:
                return True
        elif host == name or host.endswith(f".{name}") or _is_in(host, name):
            return True
    return False


def _is_in(host: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False
