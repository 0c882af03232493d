"""Profiles made of what a server did."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.suggestion import Seen, seen, suggest


def _made(done: Seen, network: str = "none") -> dict[str, Any]:
    return tomllib.loads(suggest("files", "default", network, done).text)


def test_events_say_what_was_done() -> None:
    events: list[tuple[str, dict[str, Any]]] = [
        ("syscall-refused", {"call": "unshare", "answer": "EPERM", "count": 1}),
        ("syscall-refused", {"call": "unshare", "answer": "EPERM", "count": 10}),
        ("file-missed", {"path": "/srv/data", "use": "read"}),
        ("egress", {"host": "api.example.com", "port": 443, "outcome": "refused", "cause": "x"}),
        ("egress", {"host": "example.com", "port": 0, "outcome": "refused", "cause": "x"}),
        ("state", {"new": "RUNNING"}),
    ]
    assert seen(events) == Seen(
        frozenset({"unshare"}), frozenset({("/srv/data", "read")}), frozenset({("api.example.com", 443)})
    )


def test_nothing_done_is_nothing_granted() -> None:
    assert Seen().nothing
    assert _made(Seen()) == {"description": "what files did", "extends": "default"}
    assert _made(Seen(), "internet")["network"] == "none"


def test_hosts_become_rules() -> None:
    made = _made(Seen(hosts=frozenset({("b.example", 443), ("a.example", 80)})))
    assert made["network"] == {"allow": ["a.example:80", "b.example:443"]}
    assert made["override"] == ["network"]


def test_files_become_mounts_and_many_of_one_directory_the_directory() -> None:
    read = {(f"/data/{name}", "read") for name in "abcd"} | {("/etc/one", "read"), ("/etc/two", "read")}
    made = _made(Seen(files=frozenset(read | {("/srv/out/file", "write"), ("/srv/out/in", "read")})))
    assert made["mounts"] == [
        {"path": "/data", "access": "ro"},
        {"path": "/etc/one", "access": "ro"},
        {"path": "/etc/two", "access": "ro"},
        {"path": "/srv/out", "access": "rw"},
    ]


def test_calls_become_keys_or_a_remark() -> None:
    calls = {"socket (argument 1: 0x1)", "unshare", "ptrace", "keyctl", "clone3", "socket (argument 1: 0x11)"}
    found = suggest("files", "default", "none", Seen(calls=frozenset(calls)))
    assert tomllib.loads(found.text)["seccomp"] == {"ptrace": True, "unix": True, "userns": True}
    assert found.remarks == (
        "no key allows the system call keyctl",
        "no key allows the system call socket (argument 1: 0x11)",
    )


def test_a_shared_network_is_remarked_upon() -> None:
    assert suggest("files", "default", "host", Seen()).remarks


_PARTS = st.lists(st.sampled_from(["a", "b", "c", "d", "e"]), min_size=2, max_size=4)
_PATHS = _PARTS.map(lambda parts: "/" + "/".join(parts))


@given(files=st.frozensets(st.tuples(_PATHS, st.sampled_from(["read", "write"])), max_size=12))
def test_every_file_is_granted_as_it_was_used_and_the_profile_is_one(files: frozenset[tuple[str, str]]) -> None:
    made = _made(Seen(files=files))
    Profile.model_validate(made)
    mounts = {mount["path"]: mount["access"] for mount in made.get("mounts", [])}
    for path, use in files:
        above = [access for place, access in mounts.items() if path == place or path.startswith(f"{place}/")]
        assert above
        assert use == "read" or "rw" in above
