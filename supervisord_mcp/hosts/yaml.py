"""YAML: where the nodes of a text stand, and edits of one key that keep the rest.

The library that reads it could write it too, but not as its owner wrote it: indentation, quotes and widths of lines
change. So the text is cut at the marks that the library gives.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLWarning
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.syntax import CannotEditError, Extract, Leaf, SyntaxFaultError, fault_at, newline_of

#: Words that need no quotes and are never taken for anything but a text.
_PLAIN = re.compile(r"(?:[A-Za-z_][A-Za-z0-9_-]*|[./][A-Za-z0-9_./-]*[A-Za-z0-9_]|@?[A-Za-z][A-Za-z0-9_./-]*)")
_NOT_PLAIN = re.compile(r"(?i)null|true|false|yes|no|on|off|y|n|@.*|\.(?!/).*")
#: An alias behind a key.
_ALIAS = re.compile(r"[ \t]*:\s*(\*[^\s,\[\]{}]+)")
_COLON = re.compile(r"[ \t]*:")
#: Nodes that a text may have, those counted again to which aliases lead.
_MOST_NODES = 100_000


class Yaml:
    """The language of Continue and Goose."""

    def load(self, text: str) -> Any:
        """Return what a text means. Raise `SyntaxFaultError` where it is wrong."""
        _compose(text)
        with _faults(text):
            return _library().load(text)

    def lines(self, text: str) -> dict[KeyPath, int]:
        """Return the line of each key and element."""
        return {path: node.start_mark.line + 1 for path, node in _starts(_compose(text), ())}

    def leaves(self, text: str) -> Iterator[Leaf]:
        """Yield the values that are neither mappings nor sequences."""
        root = _compose(text)
        if root is not None:
            yield from sorted(_leaves(text, root, ()), key=lambda leaf: leaf.start)

    def extract(self, text: str, path: KeyPath) -> Extract:
        """Return the whole text: what a node means depends on its place."""
        return Extract(0, len(text), path)

    def put(self, text: str, path: KeyPath, value: Any, after: KeyPath) -> str:
        """Return the text with a value replaced in the manner of the old one, or a key added behind another one."""
        holder = _mapping(text, path)
        old = _pair(holder, path[-1])
        if old is not None:
            node = old[1]
            start, end = _value_span(text, *old)
            own = start == _start(node)
            block = own and isinstance(node, SequenceNode) and not node.flow_style and isinstance(value, list) and value
            new = _block(text, value, node.start_mark.column) if block else _flow(value)
            gap = " " if text[start - 1] == ":" else ""
            return f"{text[:start]}{gap}{new}{text[end:]}"
        sibling = _pair(holder, after[-1])
        if sibling is None or after[:-1] != path[:-1]:
            raise CannotEditError(f"there is no {after[-1]} to put {path[-1]} behind")
        end = _value_span(text, *sibling)[1]
        pair = f"{_scalar(str(path[-1]))}: {_flow(value)}"
        if holder.flow_style:
            return f"{text[:end]}, {pair}{text[end:]}"
        at = _line_end(text, end)
        return f"{text[:at]}{newline_of(text)}{' ' * sibling[0].start_mark.column}{pair}{text[at:]}"

    def cut(self, text: str, path: KeyPath) -> str:
        """Return the text without a key and what its last line says about it."""
        holder = _mapping(text, path)
        pair = _pair(holder, path[-1])
        if pair is None:
            raise CannotEditError(f"there is no {path[-1]}")
        at = next(n for n, one in enumerate(holder.value) if one is pair)
        start, end = _start(pair[0]), _value_span(text, *pair)[1]
        later = holder.value[at + 1][0] if at + 1 < len(holder.value) else None
        line = text.rfind("\n", 0, start) + 1
        if holder.flow_style:
            if later is not None:
                end = _start(later)
            elif at:
                start = _value_span(text, *holder.value[at - 1])[1]
        elif not text[line:start].strip():
            start, end = line, _line_end(text, end)
            end += 2 if text.startswith("\r\n", end) else 1
        elif later is not None:
            # Behind the dash of an element, where the next key takes its place.
            end = _start(later)
        else:
            raise CannotEditError(f"{path[-1]} is the only key of an element")
        return text[:start] + text[end:]

    def source(self, text: str, path: KeyPath) -> str | None:
        """Return None: how a value is written depends on where it stands."""
        return None

    def put_source(self, text: str, path: KeyPath, source: str, after: KeyPath) -> str:
        """Raise `CannotEditError`: there are no written values here."""
        raise CannotEditError("a value of YAML is not put as it is written")


def _library() -> YAML:
    return YAML(typ="safe", pure=True)


@lru_cache(maxsize=2)
def _compose(text: str) -> Node | None:
    with _faults(text):
        node: Node | None = _library().compose(text)
        _count(node)
    return node


@contextmanager
def _faults(text: str) -> Iterator[None]:
    """Turn what the library raises into faults of ours."""
    try:
        with warnings.catch_warnings():
            # An anchor may be used again; the last one before an alias counts.
            warnings.simplefilter("ignore", YAMLWarning)
            yield
    except RecursionError:
        raise fault_at(text, 0, "values are nested too deeply") from None
    except ReaderError as error:
        raise fault_at(text, int(error.position), f"a character that YAML does not allow: {error.reason}") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = str(error.problem or error.context or "not valid YAML").partition("\n")[0]
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        raise SyntaxFaultError(message, line, column) from None
    except (YAMLError, ValueError) as error:
        raise fault_at(text, 0, f"not valid YAML: {str(error).partition(chr(10))[0]}") from None


def _count(root: Node | None) -> None:
    """Raise `ValueError` if aliases make a text larger than anybody's configuration."""
    left = _MOST_NODES
    waiting = [root] if root is not None else []
    while waiting:
        left -= 1
        if left < 0:
            raise ValueError("too many values; aliases multiply them")
        waiting += _children(waiting.pop())


def _children(node: Node) -> list[Node]:
    if isinstance(node, MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, SequenceNode) else []


def _starts(node: Node | None, path: KeyPath) -> Iterator[tuple[KeyPath, Node]]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            below = (*path, str(key.value))
            yield below, key
            yield from _starts(value, below)
    elif isinstance(node, SequenceNode):
        for at, item in enumerate(node.value):
            yield (*path, at), item
            yield from _starts(item, (*path, at))


def _leaves(text: str, node: Node, path: KeyPath) -> Iterator[Leaf]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            yield from _leaves(text, value, (*path, str(key.value)))
    elif isinstance(node, SequenceNode):
        for at, item in enumerate(node.value):
            yield from _leaves(text, item, (*path, at))
    else:
        start, end = _start(node), _end(text, node)
        # An anchor or a tag before the value says nothing secret; an alias has no value of its own.
        if start < end:
            yield Leaf(path, start, end, node.value)


def _mapping(text: str, path: KeyPath) -> MappingNode:
    """Return the mapping that holds the last key of a path."""
    node = _compose(text)
    for key in path[:-1]:
        if isinstance(node, MappingNode) and (pair := _pair(node, key)):
            node = pair[1]
        elif isinstance(node, SequenceNode) and isinstance(key, int) and key < len(node.value):
            node = node.value[key]
        else:
            raise CannotEditError(f"{key} is not written where it counts")
    if not isinstance(node, MappingNode):
        raise CannotEditError(f"there is no mapping that could hold {path[-1]}")
    return node


def _pair(holder: MappingNode, key: str | int) -> tuple[Node, Node] | None:
    return next((pair for pair in holder.value if isinstance(pair[0], ScalarNode) and pair[0].value == str(key)), None)


def _start(node: Node) -> int:
    return int(node.start_mark.index)


def _end(text: str, node: Node) -> int:
    """Return where a node ends; the library's mark of a block is behind the comments that follow it."""
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style or not node.value:
        start, end = _start(node), int(node.end_mark.index)
        return start + len(text[start:end].rstrip())
    last = node.value[-1]
    if isinstance(node, MappingNode):
        return _value_span(text, *last)[1]
    return max(_start(node) + 1, _end(text, last))


def _value_span(text: str, key: Node, value: Node) -> tuple[int, int]:
    """Return where the value of a key stands; the node of an alias is that of its anchor, which stands elsewhere."""
    behind = _end(text, key)
    if int(value.end_mark.index) == _start(value):
        # Nothing is written, and the library's mark is at what comes next.
        colon = _COLON.match(text, behind)
        behind = colon.end() if colon is not None else behind
        return behind, behind
    if _start(value) >= behind:
        return _start(value), _end(text, value)
    alias = _ALIAS.match(text, behind)
    return (alias.start(1), alias.end(1)) if alias is not None else (behind, behind)


def _line_end(text: str, at: int) -> int:
    """Return where the line of an offset ends, before its newline."""
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    return end - 1 if end > at and text[end - 1] == "\r" else end


def _block(text: str, values: list[Any], column: int) -> str:
    return f"{newline_of(text)}{' ' * column}".join(f"- {_flow(value)}" for value in values)


def _flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_scalar(str(key))}: {_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return _scalar(value) if isinstance(value, str) else json.dumps(value)


def _scalar(text: str) -> str:
    """Return a text as YAML, in double quotes unless it is a plain word."""
    if _PLAIN.fullmatch(text) and not _NOT_PLAIN.fullmatch(text):
        return text
    # JSON leaves two characters as they are that end a line in YAML.
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff]", lambda match: f"\\u{ord(match[0]):04x}", quoted)
