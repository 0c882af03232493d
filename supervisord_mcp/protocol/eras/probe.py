"""Which eras a server speaks: what its answers to a probe mean, and what follows from them (protocol.md 3.4, 6.1).

A server is asked once with `server/discover`; the verdict is kept for `KEPT` and asked for again after that, because a
server that is upgraded goes on answering `initialize` (3.4). Which era is used where it speaks both is a matter of its
hosts: a bridge is only for what the server lacks (D2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.jsonrpc import Members, Message
from supervisord_mcp.protocol.mcp import Era

#: How long a verdict is believed, in seconds.
KEPT = 24 * 3600.0
#: How long a server may take to answer a probe before it is taken for a legacy one, in seconds (D3).
PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a server answers `initialize`, and whether it answers `server/discover`; None: not known."""

    legacy: bool | None = None
    modern: bool | None = None

    @property
    def only(self) -> Era | None:
        """The one era that the server speaks; None if it speaks both, or if that is not known."""
        if self.modern is False:
            return "legacy"
        return "modern" if self.legacy is False else None


UNKNOWN = Verdict()


@dataclass(frozen=True, slots=True)
class Terms:
    """How to begin with a child: the configured era (None: found out), that of its hosts, what is known of the server.

    ``patience`` is how long a probe may stay unanswered, in seconds.
    """

    pinned: Era | None = "legacy"
    preferred: Era = "legacy"
    verdict: Verdict = UNKNOWN
    patience: float = PATIENCE


def first(terms: Terms, known: Verdict) -> Era:
    """Return which era to try first: the one that suits the hosts, but a probe comes first if nothing is known."""
    if terms.pinned is not None:
        return terms.pinned
    if known.only is not None:
        return known.only
    if known.modern is None and known.legacy is None:
        return "modern"  # the probe
    return terms.preferred if known.modern else "modern"


def preferred(pinned: Era | None, host: Era, known: Verdict) -> Era:
    """Given what is configured, the era of a host and what is known, return the era of its instance (D1, D2).

    A server that may speak both has an instance for each, one that speaks a single era has one for everybody, which
    bears the name of the legacy era as it did before there was another.
    """
    if pinned is not None:
        return pinned
    return "legacy" if known.only is not None else host


# What an answer to `server/discover` means


@dataclass(frozen=True, slots=True)
class Modern:
    """The server is modern, and this is the newest revision that both sides speak."""

    version: str
    result: Members


@dataclass(frozen=True, slots=True)
class Again:
    """The server is modern, and serves this revision instead of the one that it was asked in."""

    version: str


@dataclass(frozen=True, slots=True)
class Foreign:
    """The server is modern, and no revision of it is one of ours."""

    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Legacy:
    """Anything else: whatever the error is, it says no more than that the method is not known (pitfall 19)."""

    reason: str


Outcome = Modern | Again | Foreign | Legacy


def outcome(answer: Message, ours: Sequence[str] = mcp.MODERN_VERSIONS) -> Outcome:
    """Given the answer to `server/discover`, return what it says about the server (3.4); ``ours`` are what we speak."""
    if "result" not in answer.members:
        if not refuses_version(answer):
            return Legacy(f"answered server/discover with an error: {error_text(answer)}")
        return _chosen(offered(answer), ours) or Foreign(offered(answer))
    result = jsonrpc.members_of(answer.members["result"])
    versions = jsonrpc.value_of(result.get("supportedVersions"))
    capabilities = jsonrpc.value_of(result.get("capabilities"))
    if not isinstance(versions, list) or not isinstance(capabilities, dict):
        return Legacy("answered server/discover with something else")
    chosen = _chosen(versions, ours)
    return Modern(chosen.version, result) if isinstance(chosen, Again) else chosen or Foreign(_texts(versions))


def _chosen(versions: Sequence[Any], ours: Sequence[str]) -> Again | Legacy | None:
    """Return the newest revision in common, or that the list is one of a legacy server, or None; lists may be mixed."""
    common = [version for version in ours if version in versions]
    if common:
        return Again(max(common))
    if versions and all(version in mcp.LEGACY_VERSIONS for version in versions):
        return Legacy("serves revisions with a handshake only")
    return None


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values)


def refuses_version(answer: Message) -> bool:
    """Whether an answer is the error that only a modern server gives, to `initialize` too (pitfall 18)."""
    code = jsonrpc.value_of(jsonrpc.members_of(answer.members.get("error")).get("code"))
    return bool(code == envelope.UNSUPPORTED_VERSION)


def offered(answer: Message) -> tuple[str, ...]:
    """Given the error that a revision is not served, return those that are."""
    data = jsonrpc.members_of(jsonrpc.members_of(answer.members.get("error")).get("data"))
    versions = jsonrpc.value_of(data.get("supported"))
    return _texts(versions) if isinstance(versions, list) else ()


def error_text(answer: Message) -> str:
    """Return the text of an error, or what stands in its place."""
    error = jsonrpc.value_of(answer.members.get("error"))
    return str(error.get("message") if isinstance(error, dict) else error)
