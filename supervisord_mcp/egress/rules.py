"""Rules of egress: what a sandbox may reach, as people write it, and the verdict for one host and port.

``host:port``, ``*.domain:port`` (every name below the domain, not the domain itself), an address (``10.1.2.3:5432``,
``[2001:db8::1]:443``), ``host-loopback:PORT`` (the machine's own 127.0.0.1), ``internet`` (every name and address that
is part of the internet, every port). ``@npm`` and ``@pypi`` are sets that `registries` knows. Nothing is reached
without a rule.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass

from supervisord_mcp.egress.addresses import METADATA, Address, is_number_like, is_own, literal, objection, plain
from supervisord_mcp.egress.proxies import Proxy

#: The name by which a sandbox calls the loopback of the machine.
LOOPBACK = "host-loopback"
#: Every rule costs listeners in the sandbox; a list that is longer wants a wildcard, or ``internet``.
MOST_RULES = 200

_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")


class Kind(enum.Enum):
    """What the host of a rule stands for."""

    NAME = "name"
    BELOW = "below"
    ADDRESS = "address"
    LOOPBACK = "loopback"
    INTERNET = "internet"


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that may be reached. ``host`` is `normal`; ``port`` 0, of `INTERNET` only, is every port.

    ``trusted`` is for a host that the person's own configuration of another program names: wherever it leads is meant,
    but for what serves credentials. ``via`` is the proxy that the person has for it.
    """

    kind: Kind
    host: str = ""
    port: int = 0
    private: bool = False
    trusted: bool = False
    via: Proxy | None = None

    def __str__(self) -> str:
        if self.kind is Kind.INTERNET:
            return "internet"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'*.' if self.kind is Kind.BELOW else ''}{host}:{self.port}"

    def covers(self, host: str) -> bool:
        """Return whether a host, which must be normal, is what this rule names."""
        match self.kind:
            case Kind.INTERNET:
                return host != LOOPBACK
            case Kind.BELOW:
                return host.endswith(f".{self.host}") and literal(host) is None
            case _:
                return host == self.host

    def objection(self, address: Address) -> str:
        """Return why an address that a host of this rule resolved to must not be reached; empty where it may."""
        match self.kind:
            case Kind.LOOPBACK:
                return "" if address.is_loopback else "not a loopback address"
            case _ if self.trusted:
                return "a metadata address" if plain(address) in METADATA else ""
            case Kind.ADDRESS if self.private and address == literal(self.host) and not is_own(address):
                # Written down as the number it is, and called private: there is nothing that could deceive.
                return ""
            case _:
                return objection(address, private=self.private)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether something may be reached, by which rule, or why not."""

    rule: Rule | None
    reason: str = ""

    @property
    def allowed(self) -> bool:
        """Whether it may be reached, as far as names go: an address that it resolves to is judged for itself."""
        return self.rule is not None


@dataclass(frozen=True, slots=True)
class Egress:
    """The rules of one server, as part of what is launched, and how much of them it may use at a time."""

    rules: tuple[Rule, ...]
    most_connections: int = 512
    connects_per_second: int = 100

    def match(self, host: str, port: int) -> Verdict:
        """Return the verdict for a host, as anybody may write it, and a port."""
        try:
            name = normal(host)
        except ValueError as error:
            return Verdict(None, str(error))
        if not 0 < port < 65536:
            return Verdict(None, f"{port} is no port")
        address = literal(name)
        reasons = []
        for rule in self.rules:
            if not rule.covers(name):
                continue
            if rule.port not in (0, port):
                reasons.append(f"port {port} is not in its rules")
            elif address is not None and (reason := rule.objection(address)):
                reasons.append(f"{name} is {reason}")
            else:
                return Verdict(rule)
        return Verdict(None, reasons[-1] if reasons else "it is not in the rules of this server")

    def knows(self, host: str) -> bool:
        """Return whether there is a rule for a name, on whatever port."""
        try:
            name = normal(host)
        except ValueError:
            return False
        return literal(name) is None and any(rule.covers(name) for rule in self.rules)


def parse_rules(texts: Iterable[str], *, private: bool = False) -> tuple[Rule, ...]:
    """Given rules as people write them, return each once, in order. Raise `ValueError` that names the wrong one.

    ``private`` lets every rule of these reach private networks.
    """
    rules = tuple(dict.fromkeys(parse_rule(text, private=private) for text in texts))
    if len(rules) > MOST_RULES:
        raise ValueError(f"{len(rules)} rules, at most {MOST_RULES}: use *.domain:port or internet")
    return rules


def parse_rule(text: str, *, private: bool = False) -> Rule:
    """Return the rule that a text means. Raise `ValueError` where it means none."""
    if text.startswith("@"):
        raise ValueError(f"{text}: there is no set of rules with that name")
    if text == "internet":
        return Rule(Kind.INTERNET, private=private)
    host, separator, digits = text.rpartition(":")
    if not separator or not re.fullmatch(r"[0-9]{1,5}", digits, re.ASCII) or not 0 < int(digits) < 65536:
        raise ValueError(f"{text}: write host:port, with a port from 1 to 65535")
    port = int(digits)
    try:
        if host == LOOPBACK:
            return Rule(Kind.LOOPBACK, LOOPBACK, port)
        if host.startswith("*."):
            return _below(host[2:], port, private)
        name = normal(host)
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from None
    address = literal(name)
    if name == "localhost" or name.endswith(".localhost"):
        raise ValueError(f"{text}: this would be the sandbox itself. Use {LOOPBACK}:{port} for this machine.")
    if address is None:
        return Rule(Kind.NAME, name, port, private)
    rule = Rule(Kind.ADDRESS, name, port, private)
    if ":" in host and not host.startswith("["):
        raise ValueError(f"{text}: write an IPv6 address in brackets, like [2001:db8::1]:443")
    if reason := rule.objection(address):
        hint = f"Use {LOOPBACK}:{port} for this machine." if is_own(address) else "Say private = true if it is meant."
        raise ValueError(f"{text}: {name} is {reason}. {hint}")
    return rule


def _below(domain: str, port: int, private: bool) -> Rule:
    name = normal(domain)
    if literal(name) is not None:
        raise ValueError("an address has nothing below it")
    return Rule(Kind.BELOW, name, port, private)


def normal(host: str) -> str:
    """Return the one way to write a host: lower case, ASCII, no last dot, addresses as their numbers.

    Raise `ValueError` for what is neither a name nor an address, or could be taken for something else than it looks.
    """
    address = literal(host)
    if address is not None:
        return str(address)
    name = host if host.isascii() else _to_ascii(host)
    name = name.lower().removesuffix(".")
    if not name or len(name) > 253 or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(f"{host[:80]!r} is no name of a host")
    if is_number_like(name):
        raise ValueError(f"{host[:80]!r} is neither a name nor an address in full")
    return name


def _to_ascii(host: str) -> str:
    # The tables are large, and almost nobody needs them.
    import idna

    try:
        return idna.encode(host, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError) as error:
        raise ValueError(f"{host[:80]!r} is no name of a host: {error}") from None
