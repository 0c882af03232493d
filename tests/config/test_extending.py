"""What a profile that extends another one comes to, and that it grants no more unless it says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.extending import extended, keys_beyond, loosened, not_named
from supervisord_mcp.config.models import Limits, ServerConfig
from supervisord_mcp.config.profile import Profile


def profile(**keys: Any) -> Profile:
    return Profile.model_validate({"description": "x", **keys})


def child(**keys: Any) -> Profile:
    return profile(extends="parent", **keys)


def complaints(parent: Profile, own: Profile) -> dict[str, str]:
    return {".".join(map(str, path)): message for path, message in not_named(parent, own)}


def test_what_a_child_does_not_say_is_as_in_its_parent() -> None:
    parent = profile(
        network="internet",
        limits={"memory": "64M", "pids": 16},
        env={"A": "1", "B": "2"},
        mounts=[{"path": "/a"}],
        seccomp={"unix": True},
        confirm=True,
    )
    own = extended(parent, child(description="y", limits={"pids": 8}, env={"B": "3"}, seccomp={"deny": ["ptrace"]}))
    assert (own.description, own.network, own.mounts) == ("y", "internet", parent.mounts)
    assert (own.limits.memory, own.limits.pids, own.limits.nofile) == (64 << 20, 8, Limits().nofile)
    assert dict(own.env) == {"A": "1", "B": "3"}
    assert (own.seccomp.unix, own.seccomp.deny) == (True, ("ptrace",))
    assert own.confirm
    assert own.extends == "parent"
    # A grandchild has neither the parent nor the allowances of its parent.
    assert extended(own, profile(description="z")).extends is None


def test_lists_are_replaced_as_a_whole() -> None:
    parent = profile(mounts=[{"path": "/a"}, {"path": "/b"}], inherit=["A", "B"])
    own = extended(parent, child(mounts=[{"path": "/b"}], inherit=[]))
    assert [mount.path for mount in own.mounts] == ["/b"]
    assert own.inherit == ()


TIGHTER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"runtime": "bare"}, {"runtime": "bwrap"}),
    ({"runtime": "bare"}, {"runtime": "landlock"}),
    ({"network": "host"}, {"network": "internet"}),
    ({"network": "host"}, {"network": {"allow": ["host-loopback:80", "10.0.0.1:1"], "private": True}}),
    ({"network": "internet"}, {"network": {"allow": ["a.example:443", "*.b.example:80", "8.8.8.8:53"]}}),
    ({"network": "internet"}, {"network": "loopback"}),
    ({"network": {"allow": ["a.example:1"]}}, {"network": "none"}),
    ({"network": "loopback"}, {"network": "none"}),
    ({"network": {"allow": ["*.a.example:443"]}}, {"network": {"allow": ["b.a.example:443", "*.c.a.example:443"]}}),
    ({"network": {"allow": ["internet"], "private": True}}, {"network": {"allow": ["x.example:1"], "private": True}}),
    (
        {"network": {"allow": ["a.example:1"], "private": True}},
        {"network": {"allow": ["a.example:1"], "private": False}},
    ),
    ({"network": {"allow": ["@npm", "@pypi"]}}, {"network": {"allow": ["@npm"]}}),
    ({"network": "host"}, {"network": {"allow": ["@npm"]}}),
    (
        {"mounts": [{"path": "/a", "access": "rw", "unprotected": [".vscode", ".idea"]}]},
        {"mounts": [{"path": "/a/b", "access": "rw", "unprotected": [".idea"]}]},
    ),
    ({"network": {"allow": ["host-loopback:1", "a.example:2"]}}, {"network": {"allow": ["host-loopback:1"]}}),
    ({"mounts": [{"path": "/a", "access": "rw"}]}, {"mounts": [{"path": "/a/b", "access": "rw"}]}),
    ({"mounts": [{"path": "/a", "access": "rw"}]}, {"mounts": [{"path": "/a"}]}),
    ({"mounts": [{"path": "${project}"}]}, {"mounts": [{"path": "${project}/src/"}]}),
    ({"mounts": [{"path": "${project}/.."}]}, {"mounts": [{"path": "${project}/.."}]}),
    ({"limits": {"cpu": "off"}}, {"limits": {"cpu": 1.0}}),
    ({"limits": {"pids": 64}}, {"limits": {"pids": 64}}),
    ({"seccomp": {"unix": True, "userns": True, "ptrace": True}}, {"seccomp": {"unix": False, "ptrace": False}}),
    ({"seccomp": {"deny": ["ptrace"]}}, {"seccomp": {"deny": ["ptrace", "kcmp"]}}),
    ({}, {"seccomp": {"families": []}}),
    ({"scope": "auto"}, {"scope": "session"}),
    ({"inherit": ["A", "B"]}, {"inherit": ["A"], "env": {"X": "${B:-b}", "Y": "${HOME}/y", "Z": "${project}"}}),
]
LOOSER: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"runtime": "bare", "network": "none"}, "runtime"),
    ({}, {"runtime": "landlock"}, "runtime"),
    ({}, {"network": "loopback"}, "network"),
    ({"network": "loopback"}, {"network": {"allow": ["a.example:1"]}}, "network"),
    ({"network": "internet"}, {"network": "host"}, "network"),
    ({"network": "internet"}, {"network": {"allow": ["host-loopback:1"]}}, "network"),
    ({"network": "internet"}, {"network": {"allow": ["a.example:1"], "private": True}}, "network"),
    ({"network": {"allow": ["a.example:1"]}}, {"network": {"allow": ["a.example:2"]}}, "network"),
    ({"network": {"allow": ["a.example:1"]}}, {"network": {"allow": ["a.example:1"], "private": True}}, "network"),
    ({"network": {"allow": ["*.a.example:1"]}}, {"network": {"allow": ["a.example:1"]}}, "network"),
    ({"network": {"allow": ["*.a.example:1"]}}, {"network": {"allow": ["*.example:1"]}}, "network"),
    ({"network": {"allow": ["a.example:1"]}}, {"network": {"allow": ["*.a.example:1"]}}, "network"),
    ({"network": {"allow": ["a.example:1"]}}, {"network": "internet"}, "network"),
    ({"network": "internet"}, {"network": {"allow": ["@npm"]}}, "network"),
    ({"network": {"allow": ["@npm"]}}, {"network": {"allow": ["@pypi"]}}, "network"),
    (
        {"mounts": [{"path": "/a", "access": "rw"}]},
        {"mounts": [{"path": "/a", "access": "rw", "unprotected": [".vscode"]}]},
        "mounts.0",
    ),
    ({"mounts": [{"path": "/a"}]}, {"mounts": [{"path": "/a", "access": "rw"}]}, "mounts.0"),
    ({"mounts": [{"path": "/a"}]}, {"mounts": [{"path": "/a"}, {"path": "/ab"}]}, "mounts.1"),
    ({"mounts": [{"path": "/a/b"}]}, {"mounts": [{"path": "/a"}]}, "mounts.0"),
    ({"mounts": [{"path": "${project}"}]}, {"mounts": [{"path": "${project}/../x"}]}, "mounts.0"),
    ({"mounts": [{"path": "x"}]}, {"mounts": [{"path": "${project}/../x"}]}, "mounts.0"),
    ({"limits": {"cpu": 1.0}}, {"limits": {"cpu": "off"}}, "limits.cpu"),
    ({}, {"limits": {"memory": "2G"}}, "limits.memory"),
    ({}, {"seccomp": {"unix": True}}, "seccomp.unix"),
    ({}, {"seccomp": {"userns": True}}, "seccomp.userns"),
    ({}, {"seccomp": {"ptrace": True}}, "seccomp.ptrace"),
    ({"seccomp": {"families": []}}, {"seccomp": {"families": ["inet"]}}, "seccomp.families"),
    ({"seccomp": {"deny": ["ptrace"]}}, {"seccomp": {"deny": []}}, "seccomp.deny"),
    ({"scope": "session"}, {"scope": "global"}, "scope"),
    ({"scope": "session"}, {"scope": "auto"}, "scope"),
    ({}, {"inherit": ["TOKEN"]}, "inherit"),
    ({}, {"env": {"X": "${TOKEN}"}}, "env"),
    ({"confirm": True}, {"confirm": False}, "confirm"),
]


@pytest.mark.parametrize(("parent", "own"), TIGHTER)
def test_tighter(parent: dict[str, Any], own: dict[str, Any]) -> None:
    assert complaints(profile(**parent), child(**own)) == {}


@pytest.mark.parametrize(("parent", "own", "key"), LOOSER)
def test_looser(parent: dict[str, Any], own: dict[str, Any], key: str) -> None:
    found = complaints(profile(**parent), child(**own))
    assert list(found) == [key]
    top = key.partition(".")[0]
    assert found[key].startswith("grants more than 'parent': ")
    assert found[key].endswith(f'if this is meant, write override = ["{top}"]')
    assert complaints(profile(**parent), child(override=[top], **own)) == {}
    other = "scope" if top != "scope" else "env"
    assert complaints(profile(**parent), child(override=[other], **own)) == found


def test_an_entry_goes_beyond_its_profile_where_it_grants_more() -> None:
    entry = ServerConfig.model_validate(
        {
            "command": "x",
            "network": "internet",
            "limits": {"memory": "2G"},
            "env": {"A": "${A}"},
            "mounts": [{"path": "/a"}],
        }
    )
    assert keys_beyond(profile(), entry) == ("network", "mounts", "limits", "env")
    assert (
        keys_beyond(profile(network="host", mounts=[{"path": "/"}], limits={"memory": "off"}, inherit=["A"]), entry)
        == ()
    )
    mount = {"path": "/a", "access": "rw"}
    taken = ServerConfig.model_validate({"command": "x", "mounts": [{**mount, "unprotected": [".vscode"]}]})
    assert keys_beyond(profile(mounts=[mount]), taken) == ("mounts",)
    assert keys_beyond(profile(mounts=[{**mount, "unprotected": [".vscode", ".idea"]}]), taken) == ()


_networks = st.sampled_from(
    [
        *("none", "loopback", "internet", "host"),
        *({"allow": [rule]} for rule in ("a.example:1", "*.a.example:1", "b.a.example:1", "host-loopback:1")),
        {"allow": ["internet", "host-loopback:1"], "private": True},
    ]
)
_mounts = st.lists(
    st.builds(
        lambda path, access: {"path": path, "access": access},
        st.sampled_from(["/a", "/a/b", "/a/b/c", "/ab", "${project}", "${project}/x"]),
        st.sampled_from(["ro", "rw"]),
    ),
    max_size=3,
    unique_by=lambda mount: mount["path"],
)
_profiles = st.fixed_dictionaries(
    {},
    optional={
        "network": _networks,
        "mounts": _mounts,
        "limits": st.fixed_dictionaries(
            {}, optional={"pids": st.sampled_from(["off", 8, 64]), "memory": st.sampled_from(["off", "1M", "2G"])}
        ),
        "seccomp": st.fixed_dictionaries(
            {},
            optional={
                "unix": st.booleans(),
                "families": st.sampled_from([[], ["inet"], ["inet", "inet6", "netlink-route"]]),
                "deny": st.sampled_from([[], ["ptrace"], ["ptrace", "kcmp"]]),
            },
        ),
        "inherit": st.sampled_from([[], ["A"], ["A", "B"]]),
        "scope": st.sampled_from(["auto", "global", "project", "session"]),
    },
)


@given(_profiles)
def test_nothing_grants_more_than_itself(keys: dict[str, Any]) -> None:
    assert list(loosened(profile(**keys), profile(**keys))) == []


@given(_profiles, _profiles, _profiles)
def test_what_only_tightens_step_by_step_has_only_tightened(
    top: dict[str, Any], middle: dict[str, Any], last: dict[str, Any]
) -> None:
    first = profile(**top)
    second = extended(first, child(**middle))
    third = extended(second, child(**last))
    if not list(loosened(first, second)) and not list(loosened(second, third)):
        assert list(loosened(first, third)) == []


@given(_profiles, _profiles)
def test_a_profile_that_extends_without_words_is_the_same(top: dict[str, Any], own: dict[str, Any]) -> None:
    whole = extended(profile(**top), child(**own))
    same = extended(whole, profile())
    assert list(loosened(whole, same)) == []
    assert list(loosened(same, whole)) == []
