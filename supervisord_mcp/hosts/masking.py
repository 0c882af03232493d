"""What a preview does not show: values of variables and headers, and whatever else looks like a secret by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts.syntax import Leaf, Syntax

#: What stands for a hidden value.
MASK = "•••"

#: Tables whose values are hidden whatever their names are.
_TABLES = re.compile(r"(?i)(?:env|envs|environment|headers|[a-z]*_headers)")
_NAMES = re.compile(
    r"(?i)token|secret|passw|api[_-]?key|authorization|credential|(?:private|access)[_-]?key|bearer|cookie|oauth"
)
_FLAG = re.compile(r"-{1,2}[A-Za-z0-9_-]+")
#: Only a reference: it names a secret and is none.
_REFERENCE = re.compile(r"\$?\{{1,2}[^{}]*\}{1,2}|\$[A-Za-z_][A-Za-z0-9_]*")
#: Bounded, for a project may hold any text.
_HEADER = re.compile(r"(?i)[a-z-]{0,40}(?:authorization|token|key|cookie)[a-z-]{0,40}\s{0,4}:\s{0,4}\S")
#: User and password of an URL, and the values of its query.
_URL_PARTS = re.compile(r"(?<=://)[^/@\s\"']+(?=@)|(?<=[?&])([^=&#\s\"']+=)[^&#\s\"']+")
#: A shorter secret would also hide what only looks like it.
_SHORTEST = 4


def hidden_values(syntax: Syntax, text: str) -> frozenset[str]:
    """Given a valid text, return the values that are not shown where they stand, and should not be shown elsewhere."""
    return frozenset(str(leaf.value) for leaf in _hidden(syntax, text) if len(str(leaf.value)) >= _SHORTEST)


def masked(syntax: Syntax, text: str, secrets: Collection[str] = ()) -> str:
    """Given a valid text, return it with the values hidden that a person would not show to others.

    ``secrets`` are hidden wherever they stand.
    """
    shown = text
    spans = {(leaf.start, leaf.end) for leaf in _hidden(syntax, text)}
    # A value may be written in a way of its own, as YAML does with quotes.
    spans |= {(leaf.start, leaf.end) for leaf in syntax.leaves(text) if leaf.value in secrets}
    for start, end in sorted(spans, reverse=True):
        quote = text[start] if text[start] in "\"'" else ""
        shown = f"{shown[:start]}{quote}{MASK}{quote}{shown[end:]}"
    shown = _URL_PARTS.sub(lambda match: f"{match[1] or ''}{MASK}", shown)
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            for form in (json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(secret)[1:-1], secret):
                shown = shown.replace(form, MASK)
    return shown


def _hidden(syntax: Syntax, text: str) -> Iterator[Leaf]:
    before: Leaf | None = None
    for leaf in syntax.leaves(text):
        if _is_hidden(leaf, before):
            yield leaf
        before = leaf


def _is_hidden(leaf: Leaf, before: Leaf | None) -> bool:
    if not isinstance(leaf.value, str) or not leaf.value or _REFERENCE.fullmatch(leaf.value):
        return False
    if any(isinstance(key, str) and _TABLES.fullmatch(key) for key in leaf.path[:-1]):
        return True
    key = leaf.path[-1] if leaf.path else ""
    return bool(_NAMES.search(key)) if isinstance(key, str) else _is_hidden_word(leaf, before, leaf.path)


def _is_hidden_word(leaf: Leaf, before: Leaf | None, path: KeyPath) -> bool:
    """Return whether a word of a command line is a secret: ``--token=…``, what follows ``--token``, or a header."""
    word = str(leaf.value)
    flag, has_value, _ = word.partition("=")
    if has_value and _NAMES.search(flag):
        return True
    if _HEADER.match(word):
        return True
    follows = before is not None and before.path[:-1] == path[:-1] and isinstance(before.value, str)
    return bool(
        follows
        and before
        and not word.startswith("-")
        and _FLAG.fullmatch(before.value)
        and _NAMES.search(before.value)
    )
