"""JSON with comments and trailing commas: what a text means, where each value stands, edits that keep the rest.

Hosts differ in what they forgive: VS Code, Zed, opencode and Amp take comments and trailing commas, most others take
neither. A file that its host reads is read here; what is written is plain JSON, which all of them read. Of two equal
keys the last counts, as in JavaScript.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.syntax import DEEPEST, CannotEditError, Extract, Leaf, fault_at, newline_of

_FILLER = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\x00-\x1f]*)*"')
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_WORDS = {"true": True, "false": False, "null": None}
#: What may follow a removed key in its line and goes with it: the comment about it.
_LINE_END = re.compile(r"[ \t]*(?://[^\n]*?|/\*(?:(?!\*/|\n).)*\*/[ \t]*)?(?=\r?\n|\Z)")
_BLANKS = re.compile(r"[ \t]*")
_NEWLINE = re.compile(r"(?:\r?\n)?")
#: Digits of a number that Python turns into an integer; more are a float, for the conversion takes quadratic time.
_LONGEST_INTEGER = 1000


@dataclass(frozen=True, slots=True)
class Node:
    """One value from ``start`` to ``end``: a leaf, or with the parts of an object or array."""

    start: int
    end: int
    value: Any = None
    members: tuple[Member, ...] | None = None
    items: tuple[Node, ...] | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One key of an object, its quotes from ``start`` on, and its value; ``comma`` is behind it, or -1."""

    key: str
    start: int
    node: Node
    comma: int


class Json:
    """The language of most hosts."""

    def load(self, text: str) -> Any:
        """Return what a text means. Raise `SyntaxFaultError` where it is wrong."""
        return _plain(_parse(text))

    def lines(self, text: str) -> dict[KeyPath, int]:
        """Return the line of each key and element."""
        found: dict[KeyPath, int] = {}
        line, counted = 1, 0
        for path, start in _starts(_parse(text), ()):
            line, counted = line + text.count("\n", counted, start), start
            found[path] = line
        return found

    def leaves(self, text: str) -> Iterator[Leaf]:
        """Yield the values that are neither objects nor arrays."""
        yield from _leaves(_parse(text), ())

    def extract(self, text: str, path: KeyPath) -> Extract:
        """Return the value itself: in JSON it is a text of its own."""
        node = _find(_parse(text), path)
        if node is None:
            raise CannotEditError("there is no such value")
        return Extract(node.start, node.end, ())

    def put(self, text: str, path: KeyPath, value: Any, after: KeyPath) -> str:
        """Return the text with a value replaced in the manner of the old one, or a key added behind another one."""
        root = _parse(text)
        holder, old = _object(root, path), _member(root, path)
        layout = old.node if old is not None else _layout(text, holder)
        return self.put_source(text, path, _written(text, value, layout, holder), after)

    def put_source(self, text: str, path: KeyPath, source: str, after: KeyPath) -> str:
        """Return the text with a value replaced by a written one, or a key added behind another one."""
        root = _parse(text)
        old = _member(root, path)
        if old is not None:
            return text[: old.node.start] + source + text[old.node.end :]
        sibling = _member(root, after)
        if sibling is None or after[:-1] != path[:-1]:
            raise CannotEditError(f"there is no {after[-1]} to put {path[-1]} behind")
        pair = f"{json.dumps(path[-1], ensure_ascii=False)}: {source}"
        lead = text[: sibling.start]
        indent = lead[lead.rfind("\n") + 1 :]
        if "\n" not in lead or indent.strip():
            return _inserted(text, sibling.node.end, f", {pair}")
        line = f"{newline_of(text)}{indent}{pair}"
        rest = _LINE_END.match(text, sibling.comma + 1) if sibling.comma >= 0 else None
        # Behind the comment about the other key, where there is one.
        return (
            _inserted(text, sibling.node.end, f",{line}") if rest is None else _inserted(text, rest.end(), f"{line},")
        )

    def cut(self, text: str, path: KeyPath) -> str:
        """Return the text without a key, its comma and what its last line says about it."""
        root = _parse(text)
        holder, member = _object(root, path), _member(root, path)
        if member is None:
            raise CannotEditError(f"there is no {path[-1]}")
        assert holder.members is not None
        at = next(n for n, one in enumerate(holder.members) if one is member)
        spans = [_cut_span(text, member)]
        if member.comma < 0 and at:
            # A comma that nothing follows is an error in plain JSON.
            comma = holder.members[at - 1].comma
            spans.append((comma, comma + 1))
        for start, end in sorted(spans, reverse=True):
            text = text[:start] + text[end:]
        return text

    def source(self, text: str, path: KeyPath) -> str | None:
        """Return how a value is written."""
        node = _find(_parse(text), path)
        return None if node is None else text[node.start : node.end]


def _inserted(text: str, at: int, new: str) -> str:
    return text[:at] + new + text[at:]


def _cut_span(text: str, member: Member) -> tuple[int, int]:
    """Return what goes with a key: whole lines where they are its own, else its comma or the blanks before it."""
    start = member.start
    end = member.comma + 1 if member.comma >= 0 else member.node.end
    line = text.rfind("\n", 0, start) + 1
    rest = _LINE_END.match(text, end)
    if rest is not None and line and not text[line:start].strip():
        return line, _after(_NEWLINE, text, rest.end())
    if member.comma >= 0:
        return start, _after(_BLANKS, text, end)
    return len(text[:start].rstrip(" \t")), end


@lru_cache(maxsize=2)
def _parse(text: str) -> Node:
    return _Parser(text).document()


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Return where a pattern that always matches ends."""
    match = pattern.match(text, at)
    assert match is not None
    return match.end()


class _Parser:
    """One pass over a text; ``at`` is how far it came."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._fault("more text after the end of the value")
        return node

    def _value(self, depth: int) -> Node:
        if depth > DEEPEST:
            raise self._fault("values are nested too deeply")
        match self.text[self.at : self.at + 1]:
            case "{":
                return self._object(depth)
            case "[":
                return self._array(depth)
            case '"':
                start, value = self.at, self._string()
                return Node(start, self.at, value)
            case _:
                return self._scalar()

    def _object(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        members: list[Member] = []
        while True:
            self._skip()
            if self._found("}"):
                return Node(start, self.at, members=tuple(members))
            key_start = self.at
            if self.text[key_start : key_start + 1] != '"':
                raise self._fault('a key in double quotes or "}" expected')
            key = self._string()
            self._skip()
            if not self._found(":"):
                raise self._fault('":" expected')
            self._skip()
            node = self._value(depth + 1)
            comma = self._comma("}")
            members.append(Member(key, key_start, node, comma))

    def _array(self, depth: int) -> Node:
        start = self.at
        self.at += 1
        items: list[Node] = []
        while True:
            self._skip()
            if self._found("]"):
                return Node(start, self.at, items=tuple(items))
            items.append(self._value(depth + 1))
            self._comma("]")

    def _comma(self, closing: str) -> int:
        """Take a comma and return where it stands, or return -1 before the closing bracket."""
        self._skip()
        at = self.at
        if self._found(","):
            return at
        if not self.text.startswith(closing, at):
            raise self._fault(f'"," or "{closing}" expected')
        return -1

    def _string(self) -> str:
        match = _STRING.match(self.text, self.at)
        if match is None:
            raise self._fault_in_string()
        self.at = match.end()
        value: str = json.loads(match[0])
        return value

    def _scalar(self) -> Node:
        start = self.at
        if match := _NUMBER.match(self.text, start):
            self.at = match.end()
            whole = match[1] is None and match[2] is None and len(match[0]) <= _LONGEST_INTEGER
            return Node(start, self.at, int(match[0]) if whole else float(match[0]))
        word = _WORD.match(self.text, start)
        if word is None:
            raise self._fault("a value expected")
        if word[0] not in _WORDS:
            raise self._fault("a value expected; a text needs double quotes")
        self.at = word.end()
        return Node(start, self.at, _WORDS[word[0]])

    def _skip(self) -> None:
        self.at = _after(_FILLER, self.text, self.at)
        if self.text.startswith("/*", self.at):
            raise self._fault('a comment that "*/" never ends')

    def _found(self, mark: str) -> bool:
        if not self.text.startswith(mark, self.at):
            return False
        self.at += len(mark)
        return True

    def _fault(self, message: str) -> Exception:
        return fault_at(self.text, self.at, message if self.at < len(self.text) else f"{message} at the end")

    def _fault_in_string(self) -> Exception:
        at = self.at + 1
        while at < len(self.text) and self.text[at] not in '"\n':
            if self.text[at] == "\\":
                if not _STRING.fullmatch(f'"{self.text[at : at + (6 if self.text[at + 1 : at + 2] == "u" else 2)]}"'):
                    return fault_at(self.text, at, "not an escape sequence; a backslash is written twice")
                at += 1
            elif self.text[at] < " ":
                return fault_at(self.text, at, "a control character in a text; write it as an escape sequence")
            at += 1
        return fault_at(self.text, self.at, "a text that never ends in its line")


def _plain(node: Node) -> Any:
    if node.members is not None:
        return {member.key: _plain(member.node) for member in node.members}
    if node.items is not None:
        return [_plain(item) for item in node.items]
    return node.value


def _starts(node: Node, path: KeyPath) -> Iterator[tuple[KeyPath, int]]:
    for member in node.members or ():
        yield (*path, member.key), member.start
        yield from _starts(member.node, (*path, member.key))
    for at, item in enumerate(node.items or ()):
        yield (*path, at), item.start
        yield from _starts(item, (*path, at))


def _leaves(node: Node, path: KeyPath) -> Iterator[Leaf]:
    if node.members is None and node.items is None:
        yield Leaf(path, node.start, node.end, node.value)
    for member in node.members or ():
        yield from _leaves(member.node, (*path, member.key))
    for at, item in enumerate(node.items or ()):
        yield from _leaves(item, (*path, at))


def _find(node: Node, path: KeyPath) -> Node | None:
    for key in path:
        found: Node | None = None
        if node.members is not None:
            found = next((member.node for member in reversed(node.members) if member.key == key), None)
        elif node.items is not None and isinstance(key, int) and key < len(node.items):
            found = node.items[key]
        if found is None:
            return None
        node = found
    return node


def _object(root: Node, path: KeyPath) -> Node:
    holder = _find(root, path[:-1])
    if holder is None or holder.members is None:
        raise CannotEditError(f"there is no object that could hold {path[-1]}")
    return holder


def _member(root: Node, path: KeyPath) -> Member | None:
    holder = _find(root, path[:-1])
    members: Sequence[Member] = holder.members or () if holder is not None else ()
    return next((member for member in reversed(members) if member.key == path[-1]), None)


def _layout(text: str, holder: Node) -> Node:
    """Return a value in whose manner a new one is written: an array or object beside it, else the holder itself."""
    beside = [member.node for member in holder.members or () if member.node.items or member.node.members]
    return beside[0] if beside else holder


def _written(text: str, value: Any, layout: Node, holder: Node) -> str:
    """Return a value as JSON, on one line or one part a line as another value is."""
    flat = json.dumps(value, ensure_ascii=False)
    old = text[layout.start : layout.end]
    if not isinstance(value, list | dict) or not value or "\n" not in old or layout is holder:
        return flat
    newline = newline_of(text)
    outer = _indent_at(text, layout.start)
    parts = layout.items or tuple(member.node for member in layout.members or ())
    starts = [member.start for member in layout.members or ()] or [part.start for part in parts]
    inner = _indent_at(text, starts[0]) if starts else outer + "  "
    if isinstance(value, list):
        rows = [json.dumps(item, ensure_ascii=False) for item in value]
    else:
        rows = [json.dumps({key: item}, ensure_ascii=False)[1:-1] for key, item in value.items()]
    opening, closing = "[]" if isinstance(value, list) else "{}"
    return f"{opening}{newline}" + f",{newline}".join(f"{inner}{row}" for row in rows) + f"{newline}{outer}{closing}"


def _indent_at(text: str, offset: int) -> str:
    """Return the blanks with which the line of an offset begins."""
    line = text.rfind("\n", 0, offset) + 1
    return text[line : _after(_BLANKS, text, line)]
