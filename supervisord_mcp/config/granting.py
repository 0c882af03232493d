"""A server entry under its profile: the rules of the profile, and over them what the entry says itself.

An entry belongs to the person, so it may grant more than its profile; `keys_beyond` says where it does.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from supervisord_mcp.config.extending import TABLES, keys_beyond, laid_over
from supervisord_mcp.config.faults import faults
from supervisord_mcp.config.models import Config, Mount, ServerConfig
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.profiles import Effective
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.errors import ConfigError, Problem

#: Keys of an entry that replace those of its profile.
_REPLACED = ("runtime", "network", "scope")


@dataclass(frozen=True, slots=True)
class Granted:
    """An entry as it applies, and the keys with which it goes beyond its profile."""

    config: ServerConfig
    beyond: tuple[str, ...]


def granted(name: str, entry: ServerConfig, effective: Effective, place: Callable[[KeyPath, str], Problem]) -> Granted:
    """Given an entry as it is written and its profile, return it as it applies.

    ``place`` makes a fault of a key of the entry and of what is wrong with it. Raise `ConfigError` where the two do not
    go together.
    """
    profile = effective.profile
    if problem := _unconfirmed(entry, profile):
        raise ConfigError((place(("confirm",), problem),))
    whole: dict[str, Any] = {key: getattr(entry, key) for key in entry.model_fields_set}
    for key in _REPLACED:
        whole.setdefault(key, getattr(profile, key))
    for key in TABLES:
        whole[key] = laid_over(getattr(profile, key), whole.get(key))
    whole["mounts"] = _joined(profile.mounts, entry.mounts)
    whole["inherit"] = tuple(dict.fromkeys((*profile.inherit, *entry.inherit)))
    try:
        config = Config.model_validate({"servers": {name: whole}}).servers[name]
    except ValidationError as error:
        words = f"with the profile '{entry.profile}': "
        raise ConfigError(tuple(place(path[2:], words + message) for path, message in faults(error))) from None
    beyond = keys_beyond(profile, config)
    # The limits of the profile are not kept then.
    unlimited = config.breach == "warn" and "limits" not in beyond
    return Granted(config, (*beyond, "limits") if unlimited else beyond)


def _unconfirmed(entry: ServerConfig, profile: Profile) -> str:
    if not profile.confirm or entry.confirm == entry.profile:
        return ""
    why = f" ({profile.reason})" if profile.reason else ""
    return f"the profile '{entry.profile}' wants to be meant{why}; if it is, write confirm = \"{entry.profile}\""


def _joined(below: tuple[Mount, ...], own: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Return the mounts of a profile and of an entry; for the same path that of the entry counts."""
    said = {posixpath.normpath(mount.path) for mount in own}
    return (*(mount for mount in below if posixpath.normpath(mount.path) not in said), *own)
