"""A profile that extends another one: what comes out, and where it grants more than the other.

A key that the child says replaces that of the parent; the tables `limits`, `seccomp`, `env` and `container` do so key
by key. A child may only tighten: whoever reads that a profile extends ``strict`` shall not have to read the rest. What
it loosens on purpose it names in `override`. The same comparison says how far a server entry goes beyond its profile.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, get_args

from supervisord_mcp.config.container import ContainerDefaults
from supervisord_mcp.config.models import Limits, Mount, Reach, RuntimeName, Scope, SystemCalls, network_text
from supervisord_mcp.config.profile import Grant, Profile
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.config.variables import HOME, PROJECT, names
from supervisord_mcp.egress.rules import Kind, Rule, parse_rules

#: The tables that are replaced key by key.
TABLES = ("limits", "seccomp", "env", "container")

#: How little each isolates.
_RUNTIMES: dict[RuntimeName, int] = {"bwrap": 0, "container": 0, "landlock": 1, "bare": 2}
_SCOPES: tuple[Scope, ...] = ("session", "project", "auto", "global")
_NETWORKS = ("none", "loopback")
_ACCESS = ("ro", "rw")


class Grants(Protocol):
    """What a profile and a server entry have in common: what they grant."""

    @property
    def runtime(self) -> RuntimeName:
        """How it is isolated."""
        ...

    @property
    def network(self) -> Reach | str:
        """What is reached."""
        ...

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """What is seen."""
        ...

    @property
    def limits(self) -> Limits:
        """What may be used."""
        ...

    @property
    def seccomp(self) -> SystemCalls:
        """What the kernel may be asked for."""
        ...

    @property
    def scope(self) -> Scope:
        """Who shares an instance."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Variables, as they are written."""
        ...

    @property
    def inherit(self) -> tuple[str, ...]:
        """Variables that are passed on."""
        ...


def extended(parent: Profile, child: Profile) -> Profile:
    """Return what a child comes to: its own keys, and over what the parent says those that it does not."""
    whole = {key: getattr(parent, key) for key in parent.model_fields_set - {"extends", "override"}}
    for key in child.model_fields_set:
        own = getattr(child, key)
        whole[key] = laid_over(whole.get(key), own) if key in TABLES else own
    return Profile.model_validate(whole)


def laid_over(below: Any, own: Any) -> dict[str, Any]:
    """Given two tables (or nothing and a table), return one with the keys that they say, those of the second first."""
    return {**_said(below), **_said(own)}


def loosened(parent: Grants, child: Grants) -> Iterator[tuple[KeyPath, str]]:
    """Yield every key with which a child grants more than its parent, and in which way."""
    if _RUNTIMES[child.runtime] > _RUNTIMES[parent.runtime]:
        yield ("runtime",), f'"{child.runtime}" isolates less than "{parent.runtime}"'
    if not _is_within(child.network, parent.network):
        yield ("network",), f"{network_text(child.network)} is more than {network_text(parent.network)}"
    for number, mount in enumerate(child.mounts):
        if not any(_is_part(mount, wider) for wider in parent.mounts):
            yield ("mounts", number), f"{mount.path} ({mount.access})"
    for key in Limits.model_fields:
        own, most = getattr(child.limits, key), getattr(parent.limits, key)
        if most is not None and (own is None or own > most):
            yield ("limits", key), "the limit is higher, or off"
    yield from _loosened_calls(parent.seccomp, child.seccomp)
    if _SCOPES.index(child.scope) > _SCOPES.index(parent.scope):
        yield ("scope",), f'"{child.scope}" shares more than "{parent.scope}"'
    passed_on = _variables(parent)
    for variable, key in _variables(child).items():
        if variable not in passed_on:
            yield (key,), f"passes on ${{{variable}}}"


def not_named(parent: Profile, child: Profile) -> Iterator[tuple[KeyPath, str]]:
    """Given a child without what it inherits, and its parent, yield what it loosens and does not name in `override`."""
    whole = extended(parent, child)
    allowed = set(child.override)
    for path, what in loosened(parent, whole):
        if path[0] not in allowed:
            yield path, _complaint(what, child, str(path[0]))
    if parent.confirm and not whole.confirm and "confirm" not in allowed:
        yield ("confirm",), _complaint("it need not be confirmed", child, "confirm")


def keys_beyond(profile: Profile, entry: Grants) -> tuple[str, ...]:
    """Return the keys with which an entry grants more than its profile."""
    found = {path[0] for path, _ in loosened(profile, entry)}
    return tuple(key for key in get_args(Grant) if key in found)


def _complaint(what: str, child: Profile, key: str) -> str:
    return f"grants more than '{child.extends}': {what}; if this is meant, write override = [\"{key}\"]"


def _said(table: Any) -> dict[str, Any]:
    match table:
        case None:
            return {}
        case Limits() | SystemCalls() | ContainerDefaults():
            return {key: getattr(table, key) for key in table.model_fields_set}
        case _:
            return dict(table)


def _loosened_calls(parent: SystemCalls, child: SystemCalls) -> Iterator[tuple[KeyPath, str]]:
    for family in child.families:
        if family not in parent.families:
            yield ("seccomp", "families"), family
    for key in ("unix", "userns", "ptrace"):
        if getattr(child, key) and not getattr(parent, key):
            yield ("seccomp", key), "is allowed"
    for call in parent.deny:
        if call not in child.deny:
            yield ("seccomp", "deny"), f"{call} is not refused any more"


def _variables(grants: Grants) -> dict[str, Grant]:
    """Return the variables of hosts and of the daemon that are passed on, each with the key that does it."""
    found: dict[str, Grant] = {}
    for text in grants.env.values():
        found |= dict.fromkeys(names(text) - {HOME, PROJECT}, "env")
    return {**found, **dict.fromkeys(grants.inherit, "inherit")}


def _is_part(mount: Mount, wider: Mount) -> bool:
    """Whether another mount shows the same files, with at least the same access to all of them."""
    path, place = posixpath.normpath(mount.path), posixpath.normpath(wider.path)
    # What ".." comes to after a variable, nobody knows before it has a value.
    below = ".." not in mount.path.split("/") and path.startswith(place.rstrip("/") + "/")
    inside = mount.path == wider.path or below or (path == place and ".." not in (mount.path + wider.path).split("/"))
    narrower = mount.access == "ro" or set(mount.unprotected) <= set(wider.unprotected)
    return inside and narrower and _ACCESS.index(mount.access) <= _ACCESS.index(wider.access)


def _is_within(network: Reach | str, wider: Reach | str) -> bool:
    """Whether everything that one network reaches is reached by another one."""
    if wider == "host":
        return True
    if network == "host":
        return False
    if network in _NETWORKS:
        return wider not in _NETWORKS or _NETWORKS.index(str(network)) <= _NETWORKS.index(str(wider))
    if wider in _NETWORKS:
        return False
    if set(_sets(network)) - set(_sets(wider)):
        return False  # the registries of a person may well be private
    return all(any(_covers(other, rule) for other in _rules(wider)) for rule in _rules(network))


def _rules(network: Reach | str) -> tuple[Rule, ...]:
    return network.rules if isinstance(network, Reach) else parse_rules([network])


def _sets(network: Reach | str) -> tuple[str, ...]:
    return network.sets if isinstance(network, Reach) else ()


def _covers(wider: Rule, rule: Rule) -> bool:
    """Whether whatever a rule lets through is let through by another one."""
    if rule == wider:
        return True
    if wider.port not in (0, rule.port) or (rule.private and not wider.private):
        return False
    match wider.kind:
        case Kind.INTERNET:
            return rule.kind is not Kind.LOOPBACK
        case Kind.BELOW:
            below = rule.kind in (Kind.NAME, Kind.BELOW)
            return below and (rule.host.endswith(f".{wider.host}") or rule == wider)
        case _:
            return rule.kind is wider.kind and rule.host == wider.host
