"""The shapes of MCP that a multiplexer must read: revisions, capabilities, log levels, the lists (protocol.md 1)."""

from __future__ import annotations

import re
from typing import Any, Literal

from supervisord_mcp import __version__

#: Which of the two worlds a host or a child lives in: handshake (up to 2025-11-25) or per-request (2026-07-28).
Era = Literal["legacy", "modern"]

LEGACY_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
NEWEST_LEGACY = LEGACY_VERSIONS[-1]
#: Revisions without a handshake that we speak, the newest last.
MODERN_VERSIONS = ("2026-07-28",)
NEWEST_MODERN = MODERN_VERSIONS[-1]

#: How the daemon names itself to servers.
DAEMON = {"name": "smcp", "version": __version__}
#: The only revision whose lines may be arrays (protocol.md 2.2).
BATCH_VERSION = "2025-03-26"

_VERSION = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")

LEVELS = {
    level: rank
    for rank, level in enumerate(("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"))
}

#: What a host that never set a level is shown once another one changed the level of the child they share.
DEFAULT_LEVEL = "info"

#: Requests during which a server may call back or log on behalf of the caller (protocol.md 6.3 rule 3).
CALLBACK_METHODS = frozenset({"tools/call", "prompts/get", "resources/read", "completion/complete"})

#: What hosts of the legacy era may announce to a server, and of the modern era not.
LEGACY_NOTIFICATIONS = frozenset(
    {
        "notifications/initialized",
        "notifications/progress",
        "notifications/roots/list_changed",
        "notifications/tasks/status",
    }
)


class Listing:
    """One of the four lists of a server: how it is asked for, where its items are, which notification changes it."""

    __slots__ = ("capability", "changed", "key", "method")

    def __init__(self, method: str, key: str, capability: str) -> None:
        self.method = method
        self.key = key
        self.capability = capability
        self.changed = f"notifications/{capability}/list_changed"


LISTINGS = {
    listing.method: listing
    for listing in (
        Listing("tools/list", "tools", "tools"),
        Listing("prompts/list", "prompts", "prompts"),
        Listing("resources/list", "resources", "resources"),
        Listing("resources/templates/list", "resourceTemplates", "resources"),
    )
}
CHANGED = {listing.changed: listing.capability for listing in LISTINGS.values()}

_SERVER_KEYS_2024 = ("experimental", "logging", "prompts", "resources", "tools")
_SERVER_KEYS = {
    "2024-11-05": _SERVER_KEYS_2024,
    "2025-03-26": (*_SERVER_KEYS_2024, "completions"),
    "2025-06-18": (*_SERVER_KEYS_2024, "completions"),
    "2025-11-25": (*_SERVER_KEYS_2024, "completions", "tasks"),
}


def is_version(text: str) -> bool:
    """Whether a text has the form of a revision of MCP."""
    return _VERSION.fullmatch(text) is not None


def negotiate(requested: str) -> str:
    """Given the version a host asks for, return the one it gets: its own if we speak it, else our newest (6.4)."""
    return requested if requested in LEGACY_VERSIONS else NEWEST_LEGACY


def server_capabilities(declared: dict[str, Any], version: str) -> dict[str, Any]:
    """Given what a server declared, return what a host of that version is told (protocol.md 1.4, 6.6).

    Strict parsers exist, so only keys of the host's revision pass. ``listChanged`` is always true: the daemon itself
    announces what changed over a restart, whether or not the server ever would.
    """
    told = {key: value for key, value in declared.items() if key in _SERVER_KEYS[version]}
    for key in ("tools", "prompts", "resources"):
        if isinstance(told.get(key), dict):
            told[key] = {**told[key], "listChanged": True}
    return told


def relayed_capabilities(declared: dict[str, Any], version: str) -> dict[str, Any]:
    """Given what a host of that version declared, return what the daemon declares for it to a child of its own.

    Client-hosted tasks and experiments are not relayed, so they are not promised (protocol.md 6.1 D5). A server of an
    older revision may reject modes that came later, so they are left out there (pitfall 42).
    """
    relayed = {key: value for key, value in declared.items() if key in ("roots", "sampling", "elicitation")}
    told = {key: value if isinstance(value, dict) else {} for key, value in relayed.items()}
    if version < "2025-06-18":
        told.pop("elicitation", None)
    if version < "2025-11-25":
        told.update({key: {} for key in ("sampling", "elicitation") if key in told})
    return told
