"""Conversations of legacy hosts with a modern child: what both bridges of tests need beside the kit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.eras.probe import Terms
from tests.kit.conversation import Talk, notification, request

VERSION = "2026-07-28"
TAG = envelope.SUBSCRIPTION_ID
PINNED = Terms("modern")
FORM = {"message": "name?", "requestedSchema": {"type": "object", "properties": {}}}
PAGE = {"mode": "url", "message": "look", "url": "https://example.com/x"}
SAMPLING = {"messages": [], "maxTokens": 9}


def elicits(params: Any = None) -> dict[str, Any]:
    """Return an input request for an elicitation."""
    return {"method": "elicitation/create", "params": params or FORM}


def meta(client: Any = ..., capabilities: Any = ..., **more: Any) -> dict[str, Any]:
    """Return what ``_meta`` of a request must hold; a log level and a progress token only if they are given."""
    told = {envelope.PROTOCOL_VERSION: VERSION, envelope.CLIENT_CAPABILITIES: capabilities}
    told[envelope.CLIENT_INFO] = client
    if "level" in more:
        told[envelope.LOG_LEVEL] = more["level"]
    if "token" in more:
        told["progressToken"] = more["token"]
    return told


def tagged(method: str, tag: Any, params: Any = None) -> dict[str, Any]:
    """Return a notification for a listen."""
    return notification(method, {**(params or {}), "_meta": {TAG: tag}})


def acknowledged(tag: Any, **honoured: Any) -> dict[str, Any]:
    """Return the first notification for a listen."""
    return tagged("notifications/subscriptions/acknowledged", tag, {"notifications": honoured})


def listens(**wanted: Any) -> dict[str, Any]:
    """Return the request for a listen."""
    return request(..., "subscriptions/listen", {"notifications": wanted, "_meta": ...})


@contextmanager
def modern(capabilities: Any = None, **lists: Any) -> Iterator[Talk]:
    """A conversation with a modern child that runs."""
    with Talk(terms=PINNED) as talk:
        talk.modern_child_runs(capabilities, **lists)
        yield talk
