"""Whose fault it is when a message does not fit the schema: smcp's, unless it passes on what a peer got wrong.

The hosts and servers of tests are often wrong on purpose, and smcp forwards what it need not look at. So what a peer
says is judged first, and remembered if it is wrong; what smcp says must be right, or be such a thing passed on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.kit.wire import Side, Wire

Json = Any

#: Members that a conversion between revisions adds or takes off.
CONVERTED = {
    *("_meta", "resultType", "ttlMs", "cacheScope", "nextCursor", "supportedVersions", "data"),
    *("mode", "task", "elicitationId", "execution", "outputSchema", "structuredContent"),
}
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
#: Members of results that are lists of what a server offers.
LISTED = ("tools", "prompts", "resources", "resourceTemplates", "tasks")


class Referee:
    """The judge of one conversation with all its connections; ``faults`` are those of the peers."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self._wrong: set[str] = set()

    def peer_says(self, wire: Wire, side: Side, line: bytes) -> str | None:
        """A peer says a line to smcp; return what is wrong with it, and excuse smcp for passing it on."""
        fault = self.judge(wire, side, line)
        if fault is not None:
            self.faults.append(fault)
            self._wrong |= bodies(_value(line))
        return fault

    def smcp_says(self, wire: Wire, side: Side, line: bytes) -> str | None:
        """Smcp says a line to a peer; return what is wrong with it, None if nothing is or a peer is to blame."""
        fault = self.judge(wire, side, line)
        if fault is None or self.excuses(line):
            return None
        return f"{fault}: {line[:500].decode(errors='replace')}"

    def remembers(self, lists: Mapping[str, Iterable[bytes]]) -> None:
        """What servers offered before is what they said, so smcp is excused for it; given by the method of the list."""
        for items in lists.values():
            self._wrong |= {_body(key, _value(item)) for item in items for key in LISTED}

    def excuses(self, line: bytes) -> bool:
        """Whether a line passes on what a peer got wrong."""
        return not bodies(_value(line)).isdisjoint(self._wrong)

    @staticmethod
    def judge(wire: Wire, side: Side, line: bytes) -> str | None:
        """Return what is wrong with a line, whoever is to blame."""
        message = _value(line)
        return "no JSON" if message is None else wire.fault(side, message, len(line))


def bodies(message: Json) -> set[str]:
    """Return what makes messages the same thing passed on, in whatever words of whichever era.

    That is method and parameters, the result or the error, without what a conversion adds or takes off; the items of a
    list one by one, for lists are put together anew; and what a server asks, alone or inside of a result.
    """
    if isinstance(message, list):
        return {body for one in message for body in bodies(one)}
    if not isinstance(message, dict):
        return {json.dumps(message)}
    if "method" in message:
        params = message.get("params")
        return {_body(message["method"], params), *_claims(params)}
    found = {_body(key, message[key]) for key in message.keys() & {"result", "error"}}
    result = message.get("result")
    if isinstance(result, dict):
        found |= {_body(key, item) for key in LISTED for item in _items(result.get(key))}
        asked = result.get("inputRequests")
        for one in asked.values() if isinstance(asked, dict) else ():
            found |= bodies(one)
    return found


def _claims(params: Json) -> set[str]:
    """Return the capabilities of a client, which stand in the handshake or in every request."""
    if not isinstance(params, dict):
        return set()
    meta = params.get("_meta")
    found = [params.get("capabilities"), meta.get(CAPABILITIES) if isinstance(meta, dict) else None]
    return {_body("capabilities", one) for one in found if one}


def _body(name: str, value: Json) -> str:
    kept = {key: one for key, one in value.items() if key not in CONVERTED} if isinstance(value, dict) else value
    return f"{name} {json.dumps(kept or None, sort_keys=True)}"


def _items(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _value(line: bytes) -> Json:
    try:
        text = line.decode(errors="replace")
        # Some servers write something else before it.
        return json.loads(text[max(text.find('{"jsonrpc"'), 0) :] if text[:1] not in "[{" else text)
    except (ValueError, RecursionError):
        return None
