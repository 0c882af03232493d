"""The filter as a person reads it says what the filter does."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes import syscalls
from supervisord_mcp.runtimes.bpf import Answer, decide
from supervisord_mcp.runtimes.filter_text import filter_lines
from supervisord_mcp.runtimes.seccomp import ALLOW, BASE, Policy, decisions

ARCHITECTURES = sorted(syscalls.architectures())
_policies = st.builds(
    Policy,
    families=st.frozensets(st.sampled_from(["inet", "inet6", "netlink-route", "unix"])),
    userns=st.booleans(),
    ptrace=st.booleans(),
    deny=st.frozensets(st.sampled_from(["prctl(PR_SET_MM)", "memfd_create", "kcmp", "read"])),
    lent=st.booleans(),
)


def lines(policy: Policy, architecture: str = "x86_64") -> dict[str, str]:
    found = (line.partition(": ") for line in filter_lines(policy, syscalls.architectures()[architecture]))
    return {name: text for name, _, text in found}


def test_the_base() -> None:
    found = lines(BASE)
    assert found["architecture other than x86_64"] == "the process is killed"
    assert found["a number that is not known"] == "ENOSYS"
    assert found["ptrace"] == "EPERM"
    assert found["clone3"] == "ENOSYS"
    assert found["clone"] == "flags no CLONE_NEW* flag → allowed; else EPERM"
    assert found["ioctl"] == (
        "command TIOCSTI → EPERM; command TIOCLINUX → EPERM; command TIOCCONS → EPERM; command TIOCSETD → EPERM;"
        " else allowed"
    )
    assert found["socket"] == (
        "family AF_INET → (type SOCK_RAW → EPERM; type SOCK_PACKET → EPERM; else allowed);"
        " family AF_INET6 → (type SOCK_RAW → EPERM; type SOCK_PACKET → EPERM; else allowed);"
        " family AF_NETLINK → (protocol NETLINK_ROUTE → allowed; else EAFNOSUPPORT); else EAFNOSUPPORT"
    )
    assert found["socketpair"] == (
        "family AF_UNIX → (type SOCK_STREAM → allowed; type SOCK_SEQPACKET → allowed; else EAFNOSUPPORT);"
        " else EAFNOSUPPORT"
    )
    assert found["personality"] == "persona 0x0 → allowed; persona 0xffffffff → allowed; else EPERM"


def test_what_a_policy_changes() -> None:
    found = lines(Policy(frozenset({"unix"}), userns=True, ptrace=True, deny=frozenset({"prctl(PR_SET_MM)", "kcmp"})))
    assert found["socket"] == found["socketpair"] == "family AF_UNIX → allowed; else EAFNOSUPPORT"
    assert found["prctl"] == "option PR_SET_MM → EPERM; else allowed"
    assert not {"clone", "unshare", "ptrace", "personality"} & set(found)
    assert lines(Policy(audit=True)) == lines(BASE)
    found = lines(Policy(lent=True))
    assert found["openat2"] == "ENOSYS"
    assert found["fchmod"] == "mode without set-user-id and set-group-id → allowed; else EPERM"
    assert found["openat"] == f"opened and not made → allowed; else {found['fchmod']}"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@given(policy=_policies)
def test_every_call_that_is_not_allowed_is_named_with_its_answer(architecture: str, policy: Policy) -> None:
    found = lines(policy, architecture)
    numbers = syscalls.architectures()[architecture].numbers
    decided = decisions(policy)
    allowed = {name for name in numbers if decided.get(name, ALLOW) == ALLOW}
    assert found[f"{len(allowed)} known calls"] == "allowed"
    assert set(found) - {f"{len(allowed)} known calls", "a number that is not known"} == {
        f"architecture other than {architecture}",
        *(set(numbers) - allowed),
    }
    for name in set(numbers) - allowed:
        if isinstance(answer := decided[name], Answer):
            assert found[name] == errno.errorcode[answer.value & 0xFFFF]
        else:
            word = found[name].rpartition("else ")[2].removesuffix(")")
            assert word == "allowed" if decide(answer, [0x7FFFFFF5] * 6) == ALLOW else word in ("EPERM", "EAFNOSUPPORT")
