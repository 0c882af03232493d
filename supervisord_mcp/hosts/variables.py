"""The variables of hosts, put into our own language; what means something only inside of its host is reported.

An unset variable is an empty text in some hosts, stays as it is written in others and is an error in a few. Here it is
an error for all of them, since nobody wants a server to start with a token that is empty or reads ``${TOKEN}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from supervisord_mcp.config.variables import PROJECT, escape

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
#: What editors call the directory that they have open. To a host that knows no such word, it is a slip of somebody who
#: copied an entry: the server would be given these very letters.
_EDITORS = ("workspaceFolder", "workspaceRoot")
_WORKSPACE = r"\$\{(?:workspaceFolder|workspaceRoot)\}"
_NO_WORKSPACE = "this host has no word for the directory that it has open; write its path"


@dataclass(frozen=True, slots=True)
class Input:
    """Something that a host asks the person for (``inputs`` of VS Code)."""

    description: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """A reference that cannot be put into our language, and why.

    A ``verbatim`` one means nothing to the host either: it hands it on as it is written.
    """

    written: str
    why: str
    secret: bool = False
    verbatim: bool = False


@dataclass(frozen=True, slots=True)
class Translation:
    """A text in our language; an unknown reference stands in it as plain text."""

    text: str
    unknown: tuple[Unknown, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What a reference may mean in its file: the inputs that it defines."""

    inputs: Mapping[str, Input] = field(default_factory=dict)


#: What a reference means: a text of our language, or that nobody knows.
_Meaning = Callable[[re.Match[str], Context], "str | Unknown"]


@dataclass(frozen=True, slots=True)
class Language:
    """How a host writes variables; called, it puts a text of the host into our language.

    ``project`` is what the host replaces by the directory that it has open, empty where it has no such word.
    """

    pattern: re.Pattern[str]
    meaning: _Meaning
    project: str = ""

    def __call__(self, text: str, context: Context) -> Translation:
        """Translate a text."""
        parts: list[str] = []
        unknown: list[Unknown] = []
        at = 0
        for match in self.pattern.finditer(text):
            parts.append(_literal(text[at : match.start()], first=not at))
            at = match.end()
            found = self.meaning(match, context)
            if isinstance(found, Unknown):
                unknown.append(found)
                found = _literal(found.written, first=not match.start())
            parts.append(found)
        parts.append(_literal(text[at:], first=not at))
        return Translation("".join(parts), tuple(unknown))


def _language(pattern: str, meaning: _Meaning, project: str = "") -> Language:
    if project:
        return Language(re.compile(pattern), meaning, project)

    def with_workspace(match: re.Match[str], context: Context) -> str | Unknown:
        return Unknown(match[0], _NO_WORKSPACE, verbatim=True) if match["workspace"] else meaning(match, context)

    return Language(re.compile(rf"{pattern}|(?P<workspace>{_WORKSPACE})"), with_workspace)


def _literal(text: str, *, first: bool) -> str:
    return escape(text) if first else text.replace("$", "$$")


def _variable(name: str, written: str, default: str | None = None) -> str | Unknown:
    if not _NAME.fullmatch(name):
        return Unknown(written, f"{name!r} is not the name of a variable")
    if name in _EDITORS:
        return Unknown(written, _NO_WORKSPACE, verbatim=True)
    if name == PROJECT:
        # Our word for something else; a variable of that name cannot be reached.
        return Unknown(written, f"a variable named {PROJECT!r} cannot be referred to here")
    if default is None:
        return f"${{{name}}}"
    return f"${{{name}:-{escape(default).replace('}', '$}')}}}"


def _braces(match: re.Match[str], context: Context) -> str | Unknown:
    name, has_default, default = match[1].partition(":-")
    if "${" in default:
        return Unknown(match[0], "a reference inside of a default")
    return _variable(name, match[0], default if has_default else None)


def _shell(match: re.Match[str], context: Context) -> str | Unknown:
    if match[0].startswith(("$(", "`")):
        return Unknown(match[0], "the output of a command")
    if match[1] is not None:
        return _variable(match[1], match[0])
    return _braces(re.compile(r"\$\{([^}]*)\}").fullmatch(match[0]) or match, context)


def _editor(match: re.Match[str], context: Context) -> str | Unknown:
    kind, colon, name = match[1].partition(":")
    match kind, bool(colon):
        case "env", True:
            return _variable(name, match[0])
        case _, False if kind in _EDITORS:
            return f"${{{PROJECT}}}"
        case "userHome", False:
            return "${HOME}"
        case "pathSeparator" | "/", False:
            return "/"
        case "input" | "promptString", True:
            asked = context.inputs.get(name, Input())
            what = f" ({asked.description})" if asked.description else ""
            return Unknown(match[0], f"the host asks for it: {name}{what}", asked.secret)
        case "command" | "config" | "workspaceFolder" | "extensionInstallFolder", True:
            return Unknown(match[0], f"only the host knows its {kind} {name!r}")
        case _:
            return Unknown(match[0], "only the host knows what it stands for")


def _plugin(match: re.Match[str], context: Context) -> str | Unknown:
    return Unknown(match[0], _NO_WORKSPACE, verbatim=True) if match[1] in _EDITORS else _editor(match, context)


def _env(match: re.Match[str], context: Context) -> str | Unknown:
    return _variable(match[1], match[0])


def _env_or_file(match: re.Match[str], context: Context) -> str | Unknown:
    if match[1] == "env":
        return _variable(match[2], match[0])
    return Unknown(match[0], f"the content of the file {match[2]!r}", secret=True)


def _double(match: re.Match[str], context: Context) -> str | Unknown:
    kind, _, name = match[1].strip().partition(".")
    if kind == "secrets":
        return Unknown(match[0], f"the host keeps the secret {name!r}", secret=True)
    return Unknown(match[0], "only the host knows what it stands for")


#: No variables.
plain = _language(r"(?!)", _env)
#: ``${NAME}`` and ``${NAME:-default}``.
braces = _language(r"\$\{([^}]+)\}", _braces)
#: ``$NAME``, ``${NAME}`` and ``${NAME:-default}``.
dollars = _language(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{[^}]*\})", _shell)
#: What a shell would expand: the same, and the output of commands.
shell = _language(r"\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{[^}]*\}|\([^)]*\)?)|`[^`]*`", _shell)
#: ``${env:NAME}``, ``${workspaceFolder}``, ``${input:ID}`` and their like: VS Code and what descends from it.
editor = _language(r"\$\{([^}]*)\}", _editor, "${workspaceFolder}")
#: The same without a word for the workspace: plugins for other editors that read the same form.
plugin = _language(r"\$\{([^}]*)\}", _plugin)
#: ``${env:NAME}`` and nothing else.
env = _language(r"\$\{env:([^}]*)\}", _env)
#: ``{env:NAME}`` and ``{file:PATH}`` of opencode.
curly = _language(r"\{(env|file):([^}]+)\}", _env_or_file)
#: ``${{ secrets.NAME }}`` of Continue.
double_braces = _language(r"\$\{\{([^}]*)\}\}", _double)
