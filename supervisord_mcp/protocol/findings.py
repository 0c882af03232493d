"""What `smcp probe` finds out about a server, and the settings that follow from it (protocol.md 3.4, 6.1 D2, D5).

A server is started once for every way to speak to it: in either era, without and with the capabilities of a client.
What it hides from a client that can do nothing is the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Raw

from supervisord_mcp.protocol.control import EMPTY_OBJECT
from supervisord_mcp.protocol.mcp import Era

#: The lists by what they are called in a finding, and how the items of each are named.
NAMED_BY = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What a list has more, and what less, for a client that can be asked."""

    more: tuple[str, ...] = ()
    less: tuple[str, ...] = ()


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What a server is in one era; with ``trouble`` it is not spoken, or not to the end.

    ``start`` is how long the first answer took, in seconds, ``memory`` that of all its processes in bytes. ``lists``
    are the names for a client that can do nothing, ``difference`` what is other for one with all capabilities, and
    ``asks`` which requests the latter was sent, without having called anything.
    """

    era: Era
    spoken: bool = False
    trouble: str = ""
    versions: tuple[str, ...] = ()
    server: Raw = EMPTY_OBJECT
    capabilities: Raw = EMPTY_OBJECT
    start: float | None = None
    memory: int | None = None
    lists: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    difference: dict[str, Difference] = msgspec.field(default_factory=dict)
    asks: tuple[str, ...] = ()


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """A setting, what it should be, what it is, and why."""

    key: str
    value: str
    now: str
    reason: str


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Probe`."""

    name: str
    findings: tuple[Finding, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured now; ``uses_project`` says whether the entry depends on the project."""

    scope: str
    callbacks: str
    era: str
    uses_project: bool


def differences(without: Mapping[str, Sequence[str]], within: Mapping[str, Sequence[str]]) -> dict[str, Difference]:
    """Given the lists for a client that can do nothing and for one that can be asked, return what differs."""
    found = {}
    for kind in {**without, **within}:
        plain, full = without.get(kind, ()), within.get(kind, ())
        more = tuple(name for name in full if name not in plain)
        less = tuple(name for name in plain if name not in full)
        if more or less:
            found[kind] = Difference(more=more, less=less)
    return found


def suggestions(findings: Sequence[Finding], now: Settings) -> tuple[Suggestion, ...]:
    """Given what was found out, return what scope, callbacks and era should be; nothing if it never spoke."""
    spoken = [finding for finding in findings if finding.spoken]
    if not spoken:
        return ()
    scope, reason = _scope(spoken, now)
    chosen = [Suggestion(key="scope", value=scope, now=now.scope, reason=reason)]
    callbacks, reason = _callbacks(spoken)
    chosen.append(Suggestion(key="callbacks", value=callbacks, now=now.callbacks, reason=reason))
    eras = [finding.era for finding in spoken]
    if len(eras) > 1:
        reason = "it speaks both, so every host can be served in its own"
    else:
        reason = f"it speaks {eras[0]} only, which is found out once a day; name it to save that"
    chosen.append(Suggestion(key="era", value="auto" if len(eras) > 1 else eras[0], now=now.era, reason=reason))
    return tuple(chosen)


def _scope(spoken: Sequence[Finding], now: Settings) -> tuple[str, str]:
    if now.uses_project:
        return "project", "its command, its directory or a mount depends on the project"
    personal = sorted({method for finding in spoken for method in finding.asks} - {"roots/list", "ping"})
    if personal:
        return "session", f"it asks unasked ({', '.join(personal)}), which only one host can answer"
    return "global", "nothing in its entry depends on the project"


def _callbacks(spoken: Sequence[Finding]) -> tuple[str, str]:
    legacy = next((finding for finding in spoken if finding.era == "legacy"), None)
    if legacy is None:
        return "off", "a modern server is told with every request what the host can do"
    more = [name for difference in legacy.difference.values() for name in difference.more]
    if more:
        return "on", f"it hides {', '.join(more)} from hosts that cannot be asked"
    if legacy.difference:
        return "on", "its lists are other ones for hosts that can be asked"
    asked = sorted(set(legacy.asks) - {"ping"})
    if asked:
        return "on", f"it asks hosts ({', '.join(asked)})"
    return "off", "it offers the same to hosts that cannot be asked; tools that ask all the same then do without"
