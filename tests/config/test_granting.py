"""A server entry under its profile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.document import parse_document
from supervisord_mcp.config.granting import Granted, granted
from supervisord_mcp.config.models import Limits, Reach, ServerConfig
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.profiles import Definition, Effective
from supervisord_mcp.config.source import KeyPath, written
from supervisord_mcp.errors import ConfigError, Problem


def place(path: KeyPath, message: str) -> Problem:
    return Problem("config.toml", 1, written(path), message)


def apply(profile: dict[str, Any], entry: dict[str, Any]) -> Granted:
    document = parse_document(Path("/p.toml"), b"")
    whole = Profile.model_validate({"description": "x", **profile})
    effective = Effective("p", whole, (Definition("p", False, document, whole),))
    return granted("s", ServerConfig.model_validate({"command": "x", "profile": "p", **entry}), effective, place)


def problems(profile: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        apply(profile, entry)
    return [str(problem) for problem in caught.value.problems]


def test_an_entry_that_says_nothing_has_what_its_profile_grants() -> None:
    profile = {
        "network": "internet",
        "scope": "session",
        "mounts": [{"path": "/a"}],
        "limits": {"pids": 64},
        "seccomp": {"unix": True},
        "env": {"A": "1"},
        "inherit": ["B"],
    }
    done = apply(profile, {})
    assert done.beyond == ()
    config = done.config
    assert (config.command, config.profile) == (("x",), "p")
    assert (config.network, config.scope, config.inherit, dict(config.env)) == (
        "internet",
        "session",
        ("B",),
        {"A": "1"},
    )
    assert config.limits == Limits(pids=64)
    assert config.seccomp.unix
    assert [mount.path for mount in config.mounts] == ["/a"]


def test_what_an_entry_says_comes_on_top() -> None:
    profile = {
        "network": "internet",
        "scope": "session",
        "mounts": [{"path": "/a"}, {"path": "/b"}],
        "limits": {"pids": 64, "memory": "64M"},
        "seccomp": {"unix": True},
        "env": {"A": "1", "B": "1"},
        "inherit": ["C"],
    }
    entry = {
        "network": {"allow": ["a.example:443"]},
        "scope": "global",
        "mounts": [{"path": "/b/", "access": "rw"}, {"path": "/c"}],
        "limits": {"memory": "off"},
        "seccomp": {"ptrace": True},
        "env": {"B": "2"},
        "inherit": ["C", "D"],
    }
    done = apply(profile, entry)
    config = done.config
    assert isinstance(config.network, Reach)
    assert config.scope == "global"
    assert [(mount.path, mount.access) for mount in config.mounts] == [("/a", "ro"), ("/b/", "rw"), ("/c", "ro")]
    assert (config.limits.pids, config.limits.memory, config.limits.nofile) == (64, None, Limits().nofile)
    assert (config.seccomp.unix, config.seccomp.ptrace) == (True, True)
    assert (dict(config.env), config.inherit) == ({"A": "1", "B": "2"}, ("C", "D"))
    assert done.beyond == ("mounts", "limits", "seccomp", "scope", "inherit")


def test_other_settings_of_an_entry_stay() -> None:
    entry = {"idle_timeout": "off", "args": ["y"], "cwd": "/", "budget": {"restarts": 1}, "backoff": {"first": "2s"}}
    config = apply({}, entry).config
    assert config == ServerConfig.model_validate({"command": "x", "profile": "p", **entry})


def test_two_that_do_not_go_together_are_faults_of_the_entry() -> None:
    [problem] = problems({"mounts": [{"path": "${project}"}]}, {"scope": "global"})
    assert problem.startswith("config.toml:1: with the profile 'p': scope \"global\" is not possible for a server that")
    [problem] = problems({"network": "internet"}, {"runtime": "bare"})
    assert "with the profile 'p': runtime \"bare\" cannot limit the network" in problem
    [problem] = problems({"seccomp": {"families": []}}, {"network": "internet"})
    assert "network reaches nothing without sockets" in problem


def test_what_must_be_meant() -> None:
    asking = {"confirm": True, "dangerous": True, "reason": "it is root"}
    for entry in ({}, {"confirm": "other"}):
        assert problems(asking, entry) == [
            "config.toml:1: confirm: the profile 'p' wants to be meant (it is root); if it is, write confirm = \"p\""
        ]
    assert apply(asking, {"confirm": "p"}).config.confirm == "p"
    assert apply({}, {"confirm": "other"}).config.confirm == "other"


def test_an_entry_that_is_only_warned_of_limits_goes_beyond_its_profile() -> None:
    assert apply({}, {"breach": "warn"}).beyond == ("limits",)
    assert apply({"limits": {"pids": 64}}, {"breach": "warn", "limits": {"pids": 128}}).beyond == ("limits",)
    assert apply({}, {"breach": "stop"}).beyond == ()
