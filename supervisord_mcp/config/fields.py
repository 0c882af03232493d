"""The types of single settings: what a person may write, how it is checked, and how the schema describes it."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, time
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    InstanceOf,
    PlainSerializer,
    StrictInt,
    WithJsonSchema,
    WrapSerializer,
)

from supervisord_mcp.config.listening import check_address, check_ip, format_listen, parse_listen
from supervisord_mcp.config.references import SOURCES, check_reference
from supervisord_mcp.config.values import (
    FrozenTable,
    format_bound,
    format_duration,
    format_size,
    format_size_bound,
    format_uids,
    parse_bound,
    parse_duration,
    parse_limit,
    parse_size,
    parse_size_bound,
    parse_uids,
)
from supervisord_mcp.config.variables import PROJECT, names, parse
from supervisord_mcp.egress.registries import SETS
from supervisord_mcp.egress.rules import parse_rule
from supervisord_mcp.policy.tokens import KINDS

#: What servers and profiles may be called: safe as a file name, as a word of a command line, as a key of a host's file.
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)

#: The words for a network.
NETWORKS = ("none", "loopback", "internet", "host")
#: Tags of the two ways to write one; in no path of a key that a person wrote.
WORD, TABLE = "=word", "=table"

#: What a variable may be called that a configuration refers to.
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PACKAGE_NAME = re.compile(r"(@[A-Za-z0-9_~][A-Za-z0-9._~-]*/)?[A-Za-z0-9_~][A-Za-z0-9._~-]*", re.ASCII)
#: The runtime marks every process of a tree with this variable to find it again, so nobody else may set it.
_RESERVED = "SMCP_INSTANCE"
_STORED = re.compile(r"[a-z]+:.+")
_CALL = re.compile(r"[a-z_][a-z0-9_]*(\([A-Z0-9_]+\))?", re.ASCII)
_DURATION_TEXT = r"^[0-9]+(\.[0-9]+)? ?(ms|s|m|h|d)?$"
_SIZE_TEXT = r"^[0-9]+ ?[KMGT]?$"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Kind:
    """What the reference calls the values of a setting."""

    name: str


def freeze(table: Mapping[str, V]) -> Mapping[str, V]:
    """Return a table that is hashable and never changes."""
    return FrozenTable(table)


def thaw(table: Mapping[str, Any], serialize: Any) -> Any:
    """Return what pydantic makes of a frozen table; it knows only dictionaries."""
    return serialize(dict(table))


def check_text(text: str) -> str:
    """Return the text. Raise `ValueError` if it is not of the language of variables, or no process can be given it."""
    parse(text)
    if "\0" in text:
        raise ValueError("a NUL character cannot be passed to a process")
    return text


def check_path(text: str) -> str:
    """Return the text. Raise `ValueError` if it is empty or not of the language of variables."""
    if not text:
        raise ValueError("must not be empty")
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        raise ValueError("only ~ and ~/ stand for a home directory; write the path of another one in full")
    return check_text(text)


def check_project_file(text: str) -> str:
    """Return the text. Raise `ValueError` unless it is the absolute path of a file."""
    if not text.startswith("/") or text.endswith("/") or "\0" in text:
        raise ValueError("must be the absolute path of a file")
    return text


def check_search_directory(text: str) -> str:
    """Return the text. Raise `ValueError` unless it stays the same directory for every session."""
    if PROJECT in names(check_path(text)):
        raise ValueError("the daemon has no project; ${project} can be used in servers only")
    if not text.startswith(("/", "~", "${")):
        raise ValueError("must be absolute, or begin with ~ or a variable")
    return text


def check_server_name(name: str) -> str:
    """Return the name. Raise `ValueError` if no server may have it."""
    if not SERVER_NAME.fullmatch(name):
        raise ValueError(
            "the name of a server has 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or digit"
        )
    return name


def check_profile_name(name: str) -> str:
    """Return the name. Raise `ValueError` if no profile may have it."""
    if not SERVER_NAME.fullmatch(name):
        raise ValueError(
            "the name of a profile has 1 to 64 letters, digits, '.', '_' or '-', and begins with a letter or digit"
        )
    return name


def check_call(name: str) -> str:
    """Return the name of a system call, or of a part of one. Raise `ValueError` if it cannot be any."""
    if not _CALL.fullmatch(name):
        raise ValueError(f"{name[:40]!r} is no name of a system call; write it as its manual page does, like ptrace")
    return name


def check_variable_name(name: str) -> str:
    """Return the name. Raise `ValueError` if no environment variable may have it here."""
    if not VARIABLE_NAME.fullmatch(name):
        raise ValueError("not a name of an environment variable")
    return _unreserved(name)


def check_environment_name(name: str) -> str:
    """Return the name. Raise `ValueError` if the system cannot hold a variable of that name."""
    if not name or "=" in name or "\0" in name:
        raise ValueError('the name of a variable must not be empty and must not contain "=" or NUL')
    return _unreserved(name)


def check_network(word: str) -> str:
    """Return the word. Raise `ValueError` if no network is called that."""
    if word not in NETWORKS:
        near = difflib.get_close_matches(word.lower(), NETWORKS, n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        words = ", ".join(f'"{known}"' for known in NETWORKS)
        raise ValueError(f'must be {words} or a table like {{ allow = ["api.example.com:443"] }}{hint}')
    return word


def check_rules(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return rules of egress as they are written. Raise `ValueError` that names one that means nothing."""
    for text in texts:
        if text.startswith("@") and text not in SETS:
            raise ValueError(f"{text}: there is no such set of hosts; there are {' and '.join(SETS)}")
        if text not in SETS:
            # Whether private addresses are meant is said beside the rules.
            parse_rule(text, private=True)
    return texts


def check_hosts(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return rules of egress without sets. Raise `ValueError` that names one that means nothing."""
    if found := [text for text in texts if text in SETS]:
        raise ValueError(f"{found[0]}: the registries are reached anyway; name other hosts")
    return check_rules(texts)


def check_package(name: str) -> str:
    """Return the name of a package. Raise `ValueError` where it is none, but an option or a path for example."""
    if not _PACKAGE_NAME.fullmatch(name):
        raise ValueError("the name of a package of npm or Python, like esbuild or @scope/name, without a version")
    return name


def check_exposed(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return kinds of secrets and names of stored ones. Raise `ValueError` for a word that is neither."""
    for word in words:
        if word not in KINDS and not _STORED.fullmatch(word):
            near = difflib.get_close_matches(word, KINDS, n=1)
            hint = f'did you mean "{near[0]}"?' if near else f"there are {', '.join(KINDS)}"
            raise ValueError(f"is no kind of secret, and no SOURCE:NAME like vault:github; {hint}")
    return words


def form_of(value: object) -> str:
    """Return the tag of how a network is written."""
    return WORD if isinstance(value, str | int | float | list | tuple | date | time) else TABLE


def split_command(value: object) -> object:
    """Given a command as one string, return the words that a shell would see; return anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"cannot be split into words: {str(error).lower()}") from None


def _unreserved(name: str) -> str:
    if name == _RESERVED:
        raise ValueError(f"{_RESERVED} is set by smcp itself")
    return name


def _json_text(pattern: str) -> dict[str, Any]:
    return {"anyOf": [{"type": "string", "pattern": pattern}, {"type": "number", "minimum": 0}]}


Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(_json_text(_DURATION_TEXT)),
    Kind("duration"),
]
Limit = Annotated[
    Annotated[float, Field(gt=0)] | None,
    BeforeValidator(parse_limit),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"const": "off"}, *_json_text(_DURATION_TEXT)["anyOf"]]}),
    Kind('duration or "off"'),
]
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str, when_used="json"),
    WithJsonSchema(_json_text(_SIZE_TEXT)),
    Kind("size"),
]
SizeBound = Annotated[
    Annotated[int, Field(ge=4096)] | None,
    BeforeValidator(parse_size_bound),
    PlainSerializer(format_size_bound, return_type=str, when_used="json"),
    WithJsonSchema({"anyOf": [{"const": "off"}, *_json_text(_SIZE_TEXT)["anyOf"]]}),
    Kind('size or "off"'),
]
CountBound = Annotated[
    Annotated[StrictInt, Field(ge=8, le=1 << 20)] | None,
    BeforeValidator(parse_bound),
    PlainSerializer(format_bound, return_type=int | str, when_used="json"),
    WithJsonSchema({"anyOf": [{"const": "off"}, {"type": "integer", "minimum": 8, "maximum": 1 << 20}]}),
    Kind('integer or "off"'),
]
CpuBound = Annotated[
    Annotated[float, Field(ge=0.01, le=1024, strict=True)] | None,
    BeforeValidator(parse_bound),
    PlainSerializer(format_bound, return_type=float | str, when_used="json"),
    WithJsonSchema({"anyOf": [{"const": "off"}, {"type": "number", "minimum": 0.01, "maximum": 1024}]}),
    Kind('number or "off"'),
]
Uids = Annotated[
    range,
    InstanceOf(),
    BeforeValidator(parse_uids),
    PlainSerializer(format_uids, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]+-[0-9]+$"}),
    Kind('"FIRST-LAST"'),
]
Listen = Annotated[
    Annotated[str, AfterValidator(check_address)] | None,
    BeforeValidator(parse_listen),
    PlainSerializer(format_listen, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": r"^(off|unix:/.+|.+:[0-9]{1,5})$"}),
    Kind('"HOST:PORT", "unix:/PATH" or "off"'),
]
IpAddresses = Annotated[tuple[Annotated[str, AfterValidator(check_ip)], ...], Kind("list of addresses")]
Text = Annotated[str, AfterValidator(check_text)]
PathText = Annotated[str, AfterValidator(check_path), Kind("path")]
ProjectFile = Annotated[str, AfterValidator(check_project_file)]
SearchDirectory = Annotated[str, AfterValidator(check_search_directory)]
ServerName = Annotated[
    str, AfterValidator(check_server_name), Field(json_schema_extra={"pattern": f"^{SERVER_NAME.pattern}$"})
]
ProfileName = Annotated[
    str, AfterValidator(check_profile_name), Field(json_schema_extra={"pattern": f"^{SERVER_NAME.pattern}$"})
]
Call = Annotated[str, AfterValidator(check_call), Field(json_schema_extra={"pattern": f"^{_CALL.pattern}$"})]
PackageName = Annotated[str, AfterValidator(check_package)]
VariableName = Annotated[
    str, AfterValidator(check_variable_name), Field(json_schema_extra={"pattern": f"^{VARIABLE_NAME.pattern}$"})
]
EnvironmentName = Annotated[str, AfterValidator(check_environment_name)]
Command = Annotated[
    tuple[Text, ...],
    BeforeValidator(split_command),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
    Kind("list of strings, or a string that is split like in a shell"),
]
Exposed = Annotated[tuple[str, ...], AfterValidator(check_exposed), Kind("list of names")]
Words = Annotated[tuple[Text, ...], Kind("list of strings")]
Frozen = WrapSerializer(thaw)
Environment = Annotated[Mapping[EnvironmentName, Text], AfterValidator(freeze), Frozen, Kind("table of strings")]
SecretText = Annotated[
    str,
    AfterValidator(check_reference),
    Field(json_schema_extra={"pattern": f"^({'|'.join(SOURCES)}):.+$"}),
]
Credentials = Annotated[
    Mapping[VariableName, SecretText], AfterValidator(freeze), Frozen, Kind('table of `"SOURCE:NAME"`')
]
