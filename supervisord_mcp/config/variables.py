"""The small language of variables in a server entry, parsed and expanded without touching the world.

    ${NAME}            a variable of the host's environment, else of the daemon's; unset is an error, empty is empty
    ${NAME:-default}   the same, but the default where NAME is unset (a variable set to nothing counts as set)
    ${project}         the project directory of the session
    ~ and ~/…          the home directory, at the start of a text or of a default
    $$  $~  $}         a dollar sign, a tilde that is not the home directory, a brace that does not end a default

What a variable holds is inserted as it is and never expanded again. A default may contain references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: The name that stands for the project directory of a session.
PROJECT = "project"
#: The variable that a leading tilde stands for.
HOME = "HOME"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: Deeper defaults are a mistake, and would exhaust the stack.
_DEEPEST = 16
#: Words of editors that would otherwise pass as names of variables that nobody ever sets.
_FOREIGN = frozenset(
    {"workspaceFolder", "workspaceRoot", "workspaceFolderBasename", "userHome", "pathSeparator", "cwd"}
)


@dataclass(frozen=True, slots=True)
class Reference:
    """One ``${NAME}`` with its default, or a leading tilde (then ``tilde`` is true and the name is HOME)."""

    name: str
    default: Template | None = None
    tilde: bool = False

    def __str__(self) -> str:
        return "~" if self.tilde else f"${{{self.name}}}"


#: A parsed text: literal parts and references, in order.
Template = tuple["str | Reference", ...]


@dataclass(frozen=True, slots=True)
class Variables:
    """What references stand for in one session; ``environ`` is the host's environment over the daemon's."""

    environ: Mapping[str, str]
    project: str | None = None
    home: str | None = None

    def get(self, name: str) -> str | None:
        """Return what a name stands for, or None if it stands for nothing."""
        if name == PROJECT:
            return self.project
        if name == HOME and self.home is not None:
            return self.home
        return self.environ.get(name)


@dataclass(frozen=True, slots=True)
class Expansion:
    """The outcome of `expand`: the text, the names that were looked up, and the references that stand for nothing."""

    text: str
    used: frozenset[str] = frozenset()
    missing: tuple[Reference, ...] = ()


def parse(text: str) -> Template:
    """Return the parts of a text. Raise `ValueError`, which quotes nothing of it, where it is not of the language."""
    return _parse(text, 0, depth=0)[0]


def names(text: str) -> frozenset[str]:
    """Return every name that a valid text mentions, those in defaults too."""
    return _names(parse(text))


def expand(text: str, variables: Variables) -> Expansion:
    """Given a valid text, return it with every reference replaced. A reference that stands for nothing is reported."""
    used: set[str] = set()
    missing: list[Reference] = []

    def fill(template: Template) -> str:
        return "".join(part if isinstance(part, str) else look_up(part) for part in template)

    def look_up(reference: Reference) -> str:
        used.add(reference.name)
        value = variables.get(reference.name)
        if value is not None:
            return value
        if reference.default is not None:
            return fill(reference.default)
        missing.append(reference)
        return ""

    return Expansion(fill(parse(text)), frozenset(used), tuple(missing))


def escape(text: str) -> str:
    """Return the text of the language that expands to exactly the given text."""
    escaped = text.replace("$", "$$")
    return f"${escaped}" if _is_home(escaped, 0, len(escaped)) else escaped


def _names(template: Template) -> frozenset[str]:
    found: set[str] = set()
    for part in template:
        if isinstance(part, Reference):
            found |= {part.name, *_names(part.default or ())}
    return frozenset(found)


def _parse(text: str, start: int, depth: int) -> tuple[Template, int]:
    """Return the parts from ``start`` to the end of the text, or of the default when ``depth`` is not 0."""
    parts: list[str | Reference] = []
    at = start
    if _is_home(text, start, start + 2, closing="}" if depth else ""):
        parts.append(Reference(HOME, tilde=True))
        at += 1
    literal = at
    while at < len(text) and not (depth and text[at] == "}"):
        if text[at] != "$":
            at += 1
            continue
        parts.append(text[literal:at])
        part, at = _parse_dollar(text, at, depth)
        parts.append(part)
        literal = at
    parts.append(text[literal:at])
    return tuple(part for part in parts if part != ""), at


def _parse_dollar(text: str, at: int, depth: int) -> tuple[str | Reference, int]:
    following = text[at + 1 : at + 2]
    if following == "{":
        return _parse_reference(text, at, depth)
    if following in ("$", "~", "}"):
        return following, at + 2
    raise ValueError(f'a lone "$" at character {at + 1}; write "${{NAME}}" for a variable or "$$" for a dollar sign')


def _parse_reference(text: str, at: int, depth: int) -> tuple[Reference, int]:
    where = f"at character {at + 1}"
    if depth >= _DEEPEST:
        raise ValueError(f"defaults are nested too deeply {where}")
    match = _NAME.match(text, at + 2)
    if match is None:
        raise ValueError(f'no name of a variable after "${{" {where}')
    name, end = match[0], match.end()
    if name in _FOREIGN:
        raise ValueError(
            f"${{{name}}} is a word of editors; write ${{project}} for the project directory, ~ for the home"
        )
    default: Template | None = None
    if text.startswith(":-", end):
        default, end = _parse(text, end + 2, depth + 1)
    if end >= len(text):
        raise ValueError(f'"${{" {where} is never closed by "}}"')
    if text[end] != "}":
        raise ValueError(f'"${{" {where} is not "${{NAME}}" or "${{NAME:-default}}"')
    return Reference(name, default), end + 1


def _is_home(text: str, start: int, stop: int, closing: str = "") -> bool:
    """Return whether a leading tilde stands for the home directory: alone, or before a slash."""
    head = text[start:stop]
    return head in ("~", f"~{closing}") or head.startswith("~/")
