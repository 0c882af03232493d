"""What a sandbox gets for its rules: listeners, routes, names in /etc/hosts, and variables that point to the proxy.

Every name that may be reached has an address of its own from a range that is nobody's (198.18.0.0/15, for benchmarks):
the connection to it says which name is meant, so programs that know nothing of proxies need not. The range is made an
address of the sandbox itself, and so are addresses that are rules themselves: nothing is ever routed.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from supervisord_mcp.egress.addresses import literal
from supervisord_mcp.egress.rules import LOOPBACK, Egress, Kind, Rule

POOL = ipaddress.IPv4Network("198.18.0.0/15")
#: The range where nobody may give the sandbox addresses: a part of its loopback, which is there by itself.
LOOPBACK_POOL = ipaddress.IPv4Network("127.83.0.0/16")
#: Makes the sandbox own an address that is no loopback: without one, clients believe that they have no network.
OWN = POOL[1]
PROXY, SOCKS, DNS = 3128, 1080, 53
#: Ports that ``internet`` serves to programs that know no proxy; the others are reached through a proxy only.
INTERNET_PORTS = (22, 80, 443, 9418)
_ANY4, _ANY6, _LOCAL = "0.0.0.0", "::", "127.0.0.1"
PROXY_URL = f"http://{_LOCAL}:{PROXY}"
#: Names below wildcards that have an address at a time. The oldest goes first; its address comes again much later.
MOST_NAMES = 4096


@dataclass(frozen=True, slots=True, order=True)
class Listener:
    """A place in the sandbox where the daemon listens."""

    address: str
    port: int
    datagrams: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What is set up in the network namespace of one sandbox, and in its files. ``hosts`` are names and addresses."""

    listeners: tuple[Listener, ...]
    routes: tuple[str, ...]
    hosts: tuple[tuple[str, str], ...]


def plan(egress: Egress, pool: ipaddress.IPv4Network = POOL) -> Plan:
    """Return what a sandbox with these rules needs; the same rules always give the same plan."""
    hosts = dict(zip(_exact_names(egress.rules), _addresses(pool), strict=False))
    wanted = {
        Listener(_LOCAL, PROXY),
        Listener(_LOCAL, SOCKS),
        Listener(_LOCAL, DNS),
        Listener(_LOCAL, DNS, datagrams=True),
    }
    routes = {str(pool)}
    for rule in egress.rules:
        match rule.kind:
            case Kind.NAME:
                wanted.add(Listener(hosts[rule.host], rule.port))
            case Kind.LOOPBACK:
                wanted |= {Listener(hosts[rule.host], rule.port), Listener(_LOCAL, rule.port)}
            case Kind.BELOW:
                wanted.add(Listener(_ANY4, rule.port))
            case Kind.ADDRESS:
                wanted.add(Listener(rule.host, rule.port))
                routes.add(f"{rule.host}/{128 if ':' in rule.host else 32}")
            case Kind.INTERNET:
                wanted |= {Listener(place, port) for place in (_ANY4, _ANY6) for port in INTERNET_PORTS}
                routes |= {f"{_ANY4}/0", f"{_ANY6}/0"}
    everywhere = {(":" in listener.address, listener.port) for listener in wanted if listener.address in (_ANY4, _ANY6)}
    # One that takes a port everywhere leaves no place for others: it tells them apart by the address that was called.
    kept = [
        listener
        for listener in wanted
        if listener.address in (_ANY4, _ANY6)
        or listener.datagrams
        or (":" in listener.address, listener.port) not in everywhere
    ]
    return Plan(tuple(sorted(kept)), tuple(sorted(routes)), tuple(sorted(hosts.items())))


def loopback_plan(egress: Egress) -> Plan:
    """Return what a sandbox needs that can have no address but those of its loopback, and no route.

    Addresses that are rules themselves are reached through a proxy only, and so is a machine of the internet that is
    called by its address.
    """
    found = plan(egress, LOOPBACK_POOL)
    places = ipaddress.ip_network("127.0.0.0/8")
    kept = [
        listener
        for listener in found.listeners
        if listener.address in (_ANY4, _ANY6) or ipaddress.ip_address(listener.address) in places
    ]
    return Plan(tuple(kept), (), found.hosts)


class Names:
    """The names that have an address in one sandbox. A sandbox may ask for as many below a wildcard as it likes."""

    def __init__(self, egress: Egress, pool: ipaddress.IPv4Network = POOL) -> None:
        self._egress = egress
        self._pool = pool
        self._fixed = dict(plan(egress, pool).hosts)
        self._names = {address: name for name, address in self._fixed.items()}
        self._given: OrderedDict[str, str] = OrderedDict()
        self._free = self._circle()

    def address(self, name: str) -> str | None:
        """Return the address of a normal name that the rules know, None for any other."""
        if name in self._fixed:
            return self._fixed[name]
        if name in self._given:
            self._given.move_to_end(name)
            return self._given[name]
        if not self._egress.knows(name):
            return None
        if len(self._given) >= MOST_NAMES:
            _, freed = self._given.popitem(last=False)
            del self._names[freed]
        address = next(free for free in self._free if free not in self._names)
        self._given[name] = address
        self._names[address] = name
        return address

    def name(self, address: str) -> str | None:
        """Return what a program means that calls an address: a name, the address itself, or None for nothing."""
        if address in self._names:
            return self._names[address]
        called = literal(address)
        if called is None or called in self._pool:
            return None
        return LOOPBACK if called.is_loopback else str(called)

    def _circle(self) -> Iterator[str]:
        while True:
            yield from _addresses(self._pool)


def proxy_environment(env: Iterable[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
    """Given the environment of a server, return it with what points programs to the proxy; its own values win.

    A proxy answers a refusal with its reason, where a name that does not exist says nothing. ``ALL_PROXY`` is the HTTP
    proxy too: with a SOCKS proxy there, clients that lack the library for it do not even start.
    """
    url, local = PROXY_URL, f"localhost,{_LOCAL},::1"
    wanted = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), url)
    wanted |= {"NO_PROXY": local}
    wanted |= {name.lower(): value for name, value in wanted.items()}
    # npm would send "localhost" through a proxy, Node uses the variables only when it is told to.
    wanted |= {"npm_config_proxy": url, "npm_config_https_proxy": url, "npm_config_noproxy": local}
    wanted |= {"NODE_USE_ENV_PROXY": "1"}
    given = dict(env)
    return (*given.items(), *((name, value) for name, value in wanted.items() if name not in given))


def hosts_file(egress: Egress, own: str, pool: ipaddress.IPv4Network = POOL) -> str:
    """Return /etc/hosts of a sandbox: its own lines, and every name that a rule names in full."""
    return own + "".join(f"{address} {name}\n" for name, address in plan(egress, pool).hosts)


def resolver_file() -> str:
    """Return /etc/resolv.conf of a sandbox: no search list, for a name is meant as it is written."""
    return f"nameserver {_LOCAL}\nsearch .\noptions timeout:2 attempts:2\n"


def _exact_names(rules: Iterable[Rule]) -> list[str]:
    return sorted({rule.host for rule in rules if rule.kind in (Kind.NAME, Kind.LOOPBACK)})


def _addresses(pool: ipaddress.IPv4Network) -> Iterator[str]:
    """Yield the addresses that names may have."""
    yield from (str(pool[number]) for number in range(2, pool.num_addresses - 1))
