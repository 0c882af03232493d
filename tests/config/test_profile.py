"""The model of a profile: what a file may hold."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.faults import faults
from supervisord_mcp.config.models import Limits, ServerConfig, SystemCalls
from supervisord_mcp.config.profile import Profile


def found(**keys: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        Profile.model_validate({"description": "x", **keys})
    return {".".join(map(str, path)): message for path, message in faults(caught.value, Profile)}


def test_a_profile_that_says_nothing_grants_what_an_entry_without_words_has() -> None:
    profile, entry = Profile(description="x"), ServerConfig(command=("x",))
    for key in ("runtime", "network", "mounts", "limits", "seccomp", "scope", "env", "inherit"):
        assert getattr(profile, key) == getattr(entry, key)
    assert (profile.limits, profile.seccomp) == (Limits(), SystemCalls())


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        ("netwrk = 'none'", "netwrk", "unknown key 'netwrk'; did you mean 'network'?"),
        ("[limits]\nmemry = 1", "limits.memry", "unknown key 'memry'; did you mean 'memory'?"),
        ("command = 'x'", "command", "unknown key 'command'; known here: description, extends, override"),
        ("description = ' '", "description", "must not be empty"),
        ("description = 'a\\nb'".replace("'", '"'), "description", "must be on one line"),
        ("extends = '../x'", "extends", "the name of a profile has 1 to 64 letters"),
        ("extends = 'a'\noverride = ['netwrok']", "override.0", 'did you mean "network"?'),
        ("override = ['network']", "", "there is none; name it with extends"),
        ("dangerous = true", "", "dangerous = true needs a reason"),
        ("[seccomp]\nfamilies = ['vsock']", "seccomp.families.0", 'must be "inet" or "inet6" or "netlink-route"'),
        ("[seccomp]\ndeny = ['Ptrace!']", "seccomp.deny.0", "no name of a system call"),
        ("mounts = [{ path = '/a' }, { path = '/a' }]", "mounts", "the same path is mounted twice"),
        ("mounts = [{ path = '/a', acess = 'rw' }]", "mounts.0.acess", "unknown key 'acess'; did you mean 'access'?"),
        ("[network]\nallow = ['x']", "network.allow", "x: write host:port"),
    ],
)
def test_faults(text: str, key: str, message: str) -> None:
    data = tomllib.loads(text)
    messages = found(**data)
    assert list(messages) == [key]
    assert message in messages[key]


def test_a_description_is_required() -> None:
    with pytest.raises(ValidationError) as caught:
        Profile.model_validate({"descripton": "x"})
    assert faults(caught.value, Profile) == [(("descripton",), "unknown key 'descripton'; did you mean 'description'?")]
