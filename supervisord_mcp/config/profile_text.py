"""Profiles as text: what one comes to, how two differ, and the file that a new one begins with."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import tomli_w

from supervisord_mcp.config.extending import TABLES
from supervisord_mcp.config.profile import Grant, Profile
from supervisord_mcp.config.profiles import Effective

_ABOUT = ("description", "dangerous", "reason", "confirm")
_WIDTH = 100


def shown(effective: Effective) -> str:
    """Return what a profile comes to as TOML, every default included, with the profile that each key is from."""
    profile = effective.profile
    data = _data(profile)
    lines = [f"# {effective.name}: everything that it grants. Behind a key stands the profile that says it."]
    for key, value in data.items():
        if key not in TABLES:
            lines.append(f"{key} = {_value(value)}{_origin(effective, key)}")
    for key in TABLES:
        lines += ["", f"[{key}]"]
        lines += [
            f"{_name(name)} = {_value(value)}{_origin(effective, key, name)}" for name, value in data[key].items()
        ]
    return "\n".join(lines) + "\n"


def as_data(effective: Effective) -> dict[str, Any]:
    """Return what a profile comes to, for programs."""
    chain = [definition.name for definition in effective.chain[1:]]
    return {
        "name": effective.name,
        "file": str(effective.own.document.file),
        "chain": chain,
        **_data(effective.profile),
    }


def differences(one: Profile, other: Profile) -> Iterator[tuple[str, str, str]]:
    """Yield every key with which two profiles differ, with the value of each; "-" where one has none."""
    left, right = dict(_flat(_data(one))), dict(_flat(_data(other)))
    for key in dict.fromkeys((*left, *right)):
        if left.get(key) != right.get(key):
            yield key, left.get(key, "-"), right.get(key, "-")


def template(name: str, parent: Profile, extends: str) -> str:
    """Return the file of a new profile that extends another one: it grants the same until a line is changed."""
    comment = (
        f"Profile of isolation: entries use it with profile = {_value(name)}. It grants what '{extends}' grants; a line"
        f" below, without its '#', changes that. Whatever grants more than '{extends}' must be named in override, like"
        f' override = ["network"]. smcp profile lint {name} checks it, smcp config reference has every key.'
    )
    lines = [f"# {line}" for line in textwrap.wrap(comment, _WIDTH, break_long_words=False, break_on_hyphens=False)]
    lines += [f"description = {_value(f'like {extends}')}", f"extends = {_value(extends)}", "#override = []", ""]
    data = {key: value for key, value in _data(parent).items() if key not in _ABOUT}
    lines += [f"#{key} = {_value(value)}" for key, value in data.items() if key not in TABLES]
    for key in TABLES:
        lines += ["", f"#[{key}]", *(f"#{_name(name)} = {_value(value)}" for name, value in data[key].items())]
    return "\n".join(lines) + "\n"


def _data(profile: Profile) -> dict[str, Any]:
    """Return everything that a profile grants and says about itself, in the words of its file."""
    whole = profile.model_dump(mode="json")
    return {key: whole[key] for key in (*_ABOUT, *get_args(Grant)) if whole[key] is not None}


def _flat(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if key in TABLES:
            yield from ((f"{key}.{name}", _value(inner)) for name, inner in value.items())
        elif key == "mounts":
            yield from ((f"mounts {mount['path']}", _mount(mount)) for mount in value)
        else:
            yield key, _value(value)


def _mount(mount: Mapping[str, Any]) -> str:
    words = [mount["access"], *(["optional"] if mount["optional"] else [])]
    if mount["unprotected"]:
        words.append(f"unprotected {' '.join(mount['unprotected'])}")
    return ", ".join(words)


def _origin(effective: Effective, key: str, name: str = "") -> str:
    for definition in effective.chain:
        said = definition.profile.model_fields_set
        if key in said and (not name or name in _keys(getattr(definition.profile, key))):
            return f"  # {definition.name}"
    return ""


def _keys(table: Any) -> frozenset[str]:
    return frozenset(table) if isinstance(table, Mapping) else frozenset(table.model_fields_set)


def _name(key: str) -> str:
    return tomli_w.dumps({key: 0}).partition(" = ")[0]


def _value(value: Any) -> str:
    """Return a value on one line of TOML."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_name(key)} = {_value(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")
