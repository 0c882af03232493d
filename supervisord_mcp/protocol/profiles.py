"""What the hosts of a shared child have in common: their capabilities and their roots (protocol.md 6.1 D5, D6).

A legacy server is told once, in its one `initialize`, what its client can do, and it shapes its offers by that. So
only hosts that say the same may share a child that was told more than nothing. What they say is compared in a normal
form: ``elicitation: {}`` means forms only; tasks and experiments of clients are never declared to a shared child.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.jsonrpc import Message

#: Members of a capability that are kept; any other is of no revision, or of no use to a shared child.
_MODES = {"sampling": ("tools", "context"), "elicitation": ("form", "url")}


@dataclass(frozen=True, slots=True)
class Root:
    """A directory that a host works on; the name is for people and tells no roots apart."""

    uri: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The capabilities in normal form, as sorted words, and the roots in the order of the host, None if not declared.

    The words are ``sampling``, ``sampling.tools``, ``sampling.context``, ``elicitation.form`` and ``elicitation.url``.
    """

    words: tuple[str, ...] = ()
    roots: tuple[Root, ...] | None = None

    def __bool__(self) -> bool:
        return bool(self.words) or self.roots is not None

    @property
    def text(self) -> str:
        """What stands for the profile in the key of an instance; empty for hosts that can do nothing."""
        if not self:
            return ""
        roots = None if self.roots is None else sorted({root.uri for root in self.roots})
        return json.dumps([self.words, roots], separators=(",", ":"))

    def same_roots(self, roots: tuple[Root, ...]) -> bool:
        """Whether these are the directories of the profile, in whatever order."""
        return self.roots is not None and {root.uri for root in self.roots} == {root.uri for root in roots}

    def capabilities(self) -> dict[str, Any]:
        """Return what is declared to the child.

        A server of 2025-06-18 may reject ``elicitation.form``, so forms alone are written as it knows them
        (pitfall 42).
        Hosts whose roots change move to another child, so no change of roots is promised.
        """
        told: dict[str, Any] = {}
        for word in self.words:
            name, _, mode = word.partition(".")
            told.setdefault(name, {}).update({mode: {}} if mode else {})
        if told.get("elicitation") == {"form": {}}:
            told["elicitation"] = {}
        if self.roots is not None:
            told["roots"] = {}
        return told

    def roots_result(self) -> bytes:
        """Return the result of `roots/list`."""
        roots = [
            {"uri": root.uri} if root.name is None else {"uri": root.uri, "name": root.name}
            for root in self.roots or ()
        ]
        return jsonrpc.text_of({"roots": roots})


def words_of(declared: dict[str, Any], version: str) -> tuple[str, ...]:
    """Given what a host of that revision declared, return its capabilities in normal form, roots left out."""
    words: set[str] = set()
    for name, modes in _MODES.items():
        said = declared.get(name)
        if not isinstance(said, dict):
            continue
        kept = {f"{name}.{mode}" for mode in modes if isinstance(said.get(mode), dict)}
        if name == "sampling":
            words |= {name, *kept}
        elif version >= "2025-06-18":
            # A host of 2025-06-18 with modes is a newer one that was configured back; it means them (pitfall 66).
            words |= kept or {"elicitation.form"}
    return tuple(sorted(words))


def wants_roots(declared: dict[str, Any]) -> bool:
    """Whether a host declared roots."""
    return isinstance(declared.get("roots"), dict)


def roots_of(answer: Message) -> tuple[Root, ...] | None:
    """Given a host's answer to `roots/list`, return the roots, or None if it named none because it failed."""
    result = jsonrpc.value_of(answer.members.get("result"))
    roots = result.get("roots") if isinstance(result, dict) else None
    if not isinstance(roots, list):
        return None
    return tuple(
        Root(root["uri"], root.get("name") if isinstance(root.get("name"), str) else None)
        for root in roots
        if isinstance(root, dict) and isinstance(root.get("uri"), str)
    )
