"""The trace of a call as a cookie: some servers pass on what they were traced with (protocol.md 6.3 rung 2).

Every call during which a server may ask gets a W3C ``traceparent`` of its own: the host's trace with another span, or
a trace of ours. What a server asks with the same trace belongs to that call. Most servers do not pass it on, so it is
never required.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from msgspec import Raw

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.jsonrpc import Members, Message

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_NOTHING = re.compile(r"0+")


@dataclass(frozen=True, slots=True)
class Trace:
    """The two ids of a ``traceparent``, as hexadecimal digits."""

    trace: str
    span: str
    flags: str = field(default="00", compare=False)

    @property
    def text(self) -> str:
        """The header as it is written today."""
        return f"00-{self.trace}-{self.span}-{self.flags}"


def trace_of(meta: Members) -> Trace | None:
    """Given the members of ``_meta``, return the trace in it, or None if there is none that is well-formed."""
    found = _TRACEPARENT.fullmatch(jsonrpc.string_of(meta.get("traceparent")) or "")
    if found is None or found[1] == "ff" or _NOTHING.fullmatch(found[2]) or _NOTHING.fullmatch(found[3]):
        return None
    return Trace(found[2], found[3], found[4])


def stamp(message: Message, upstream: int, seed: str) -> Trace:
    """Given a host's request that is sent under an upstream id, give it a trace of its own, and return that.

    ``seed`` is 16 hexadecimal digits, chosen at random for every instance. A host's trace id stays (pitfall 59). Raise
    `FramingError` if the parameters are no object.
    """
    params = message.params()
    meta = jsonrpc.members_of(params.get("_meta"))
    theirs = trace_of(meta)
    span = f"{upstream:016x}"
    ours = Trace(f"{seed}{span}", span) if theirs is None else Trace(theirs.trace, span, theirs.flags)
    meta["traceparent"] = Raw(jsonrpc.text_of(ours.text))
    params["_meta"] = Raw(jsonrpc.object_text(meta))
    message.members["params"] = Raw(jsonrpc.object_text(params))
    return ours
