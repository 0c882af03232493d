"""Our decisions as a profile of the engines: nothing that is refused is allowed by it, but what it cannot say."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.container.filter import profile
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from supervisord_mcp.runtimes.seccomp import BASE, Policy
from supervisord_mcp.runtimes.syscalls import architectures

X86 = architectures()["x86_64"]


def rules(policy: Policy, name: str, machine: str = "x86_64") -> list[dict[str, Any]]:
    """Return what a profile says about one call."""
    told = json.loads(profile(policy, architectures()[machine]))
    return [{k: v for k, v in rule.items() if k != "names"} for rule in told["syscalls"] if name in rule["names"]]


def test_what_is_not_known_is_answered_as_by_an_older_kernel() -> None:
    told = json.loads(profile(BASE, X86))
    assert (told["defaultAction"], told["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", errno.ENOSYS)
    assert told["architectures"] == ["SCMP_ARCH_X86_64"]
    arm = json.loads(profile(BASE, architectures()["aarch64"]))
    assert arm["architectures"] == ["SCMP_ARCH_AARCH64"]
    assert rules(BASE, "mount", "aarch64") == rules(BASE, "mount")


@pytest.mark.parametrize(
    ("name", "number"), [("mount", errno.EPERM), ("bpf", errno.EPERM), ("clone3", errno.ENOSYS), ("setns", errno.EPERM)]
)
def test_what_is_refused_is_refused_in_the_same_words(name: str, number: int) -> None:
    assert rules(BASE, name) == [{"action": "SCMP_ACT_ERRNO", "errnoRet": number}]


def test_what_is_simply_allowed_is() -> None:
    for name in ("read", "execve", "openat", "futex"):
        assert rules(BASE, name) == [{"action": "SCMP_ACT_ALLOW"}]


def test_sockets_are_those_of_the_policy() -> None:
    families = {rule["args"][0]["value"] for rule in rules(BASE, "socket")}
    assert families == {2, 10, 16}
    with_unix = Policy(BASE.families | {"unix"})
    assert {rule["args"][0]["value"] for rule in rules(with_unix, "socket")} == {1, 2, 10, 16}
    netlink = next(rule for rule in rules(BASE, "socket") if rule["args"][0]["value"] == 16)
    assert netlink["args"][1] == {"index": 2, "value": 0, "op": "SCMP_CMP_EQ"}


def test_flags_are_compared_under_their_mask() -> None:
    (clone,) = rules(BASE, "clone")
    assert clone["args"] == [{"index": 0, "value": 0x7E020000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    assert rules(Policy(userns=True), "clone") == [{"action": "SCMP_ACT_ALLOW"}]


def test_what_is_made_gets_no_bit_of_its_owner_where_files_belong_to_somebody_else() -> None:
    runtime, spec = ContainerRuntime(Path("/nowhere")), LaunchSpec("x", ("/bin/true",))
    assert not runtime.policy(spec).lent
    policy = runtime.policy(replace(spec, mounts=(Mount("/a", "rw"),)))
    without = {"value": 0o6000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}
    assert [rule["args"] for rule in rules(policy, "fchmodat")] == [[{"index": 2, **without}]]
    making, mode = rules(policy, "openat")
    assert making["args"] == [{"index": 2, "value": 0o20000100, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}]
    assert mode["args"] == [{"index": 3, **without}]
    assert rules(policy, "openat2") == [{"action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS}]


def test_one_exception_can_be_said_and_several_cannot() -> None:
    (prctl,) = rules(Policy(deny=frozenset({"prctl(PR_SET_MM)"})), "prctl")
    assert prctl["args"] == [{"index": 0, "value": 35, "op": "SCMP_CMP_NE"}]
    # Our own filter in the container refuses what types into terminals.
    assert rules(BASE, "ioctl") == [{"action": "SCMP_ACT_ALLOW"}]


def test_no_argument_is_compared_twice_in_a_rule() -> None:
    for policy in (BASE, Policy(userns=True, ptrace=True), Policy(lent=True)):
        for rule in json.loads(profile(policy, X86))["syscalls"]:
            places = [condition["index"] for condition in rule.get("args", ())]
            assert len(places) == len(set(places))
