"""The policy, read once more from its specification: the filter of every policy decides so about every system call."""

from __future__ import annotations

import errno
import fnmatch
import functools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import seccomp, syscalls
from supervisord_mcp.runtimes.seccomp import BASE, Family, Policy
from supervisord_mcp.runtimes.syscalls import Architecture
from tests.runtimes.interpreter import WORD, Call, load, run

ALLOW, KILL, ERRNO, NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
EPERM, ENOSYS, EAFNOSUPPORT = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS, ERRNO | errno.EAFNOSUPPORT
MACHINES = tuple(syscalls.architectures().values())

#: As the specification of the sandbox writes them.
ABSENT = (
    *("clone3", "io_uring_setup", "io_uring_enter", "io_uring_register", "open_tree", "open_tree_attr"),
    *("move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "statmount", "listmount"),
    "memfd_secret",
)
DENIED = (
    *("acct", "add_key", "keyctl", "request_key", "bpf", "chroot", "*_module", "fanotify_init", "ioperm"),
    *("iopl", "kexec_*", "kcmp", "lookup_dcookie", "mount", "umount2", "pivot_root", "move_pages"),
    *("migrate_pages", "mbind", "set_mempolicy", "set_mempolicy_home_node", "nfsservctl"),
    *("open_by_handle_at", "name_to_handle_at", "perf_event_open", "process_vm_*", "process_madvise"),
    *("ptrace", "pidfd_getfd", "quotactl", "quotactl_fd", "reboot", "setns", "unshare", "settimeofday"),
    *("clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "swapon", "swapoff"),
    *("syslog", "sysfs", "uselib", "userfaultfd", "ustat", "vhangup", "modify_ldt", "vmsplice"),
    *("lsm_set_self_attr", "io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents"),
    "io_pgetevents",
)
#: Where each call has the mode of a file, and the flags that say whether one is made.
SET_ID = {
    "chmod": (1, None),
    "fchmod": (1, None),
    "fchmodat": (2, None),
    "fchmodat2": (2, None),
    "creat": (1, None),
    "mknod": (1, None),
    "mknodat": (2, None),
    "open": (2, 1),
    "openat": (3, 2),
}
#: What files are given, file capabilities among it.
ATTRIBUTES = {"setxattr", "lsetxattr", "fsetxattr", "setxattrat"}
TERMINAL = {0x5412, 0x541C, 0x5423, 0x541D}
NUMBERS = (*range(480), *range(512, 548), 600, 0x3FFFFFFF, 0x40000000, 0x40000001, 0x4000003B, 0x40000208, WORD)

NAMES = sorted(set().union(*(machine.numbers for machine in MACHINES)))
REFUSED = {name for name in NAMES if any(fnmatch.fnmatchcase(name, pattern) for pattern in DENIED)}
policies = st.builds(
    Policy,
    families=st.frozensets(st.sampled_from(["inet", "inet6", "netlink-route", "unix"])),
    userns=st.booleans(),
    ptrace=st.booleans(),
    deny=st.one_of(
        st.just(frozenset()),
        st.frozensets(st.sampled_from([*NAMES, "prctl(PR_SET_MM)"]), max_size=8),
        st.frozensets(st.sampled_from(NAMES), min_size=150),
    ),
    audit=st.booleans(),
    lent=st.booleans(),
)
#: Values that the rules ask for, with and without bits that must not matter, and others.
NUMERALS = (0, 1, 2, 3, 5, 9, 10, 15, 16, 17, 35, 38, 40, 0x10000000, 0x00020000, 0x100000, 0x80, WORD, 0x7E020000)
#: To make a file, and modes.
MAKING = (0o100, 0o20200000, 0o4755, 0o2755, 0o755)
interesting = st.sampled_from([*NUMERALS, *TERMINAL, *MAKING])
values = st.one_of(
    interesting,
    st.builds(lambda low, flag: low | flag, interesting, st.sampled_from([0x800, 0x80000, 1 << 32, 1 << 63])),
    st.integers(0, (1 << 64) - 1),
)
arguments = st.tuples(*[values] * 6)


def reference(policy: Policy, machine: Architecture, call: Call) -> int:
    """Return what the specification says about a call."""
    if call.architecture != machine.audit:
        return KILL
    name = _names(machine).get(call.number)
    if name is None:
        return NOTIFY if policy.audit else ENOSYS
    answer = _reference(policy, name, [argument & WORD for argument in call.arguments])
    # An audited server is asked about what it opens as well, to see what it looks for.
    asked = (answer != ALLOW and name != "clone3") or name in ("open", "openat")
    return NOTIFY if policy.audit and asked else answer


@functools.cache
def _names(machine: Architecture) -> dict[int, str]:
    return {number: name for name, number in machine.numbers.items()}


def _reference(policy: Policy, name: str, low: Sequence[int]) -> int:
    if name in ABSENT or (name == "openat2" and policy.lent and name not in policy.deny):
        return ENOSYS
    if name in policy.deny or (name == "prctl" and "prctl(PR_SET_MM)" in policy.deny and low[0] == 35):
        return EPERM
    if policy.userns and name in ("unshare", "setns", "chroot", "clone"):
        return ALLOW
    if policy.ptrace and name in ("ptrace", "process_vm_readv", "personality"):
        return ALLOW
    if name.startswith("socket"):
        return _socket(policy, name, low)
    if policy.lent and policy.userns and name in ATTRIBUTES:
        return EPERM
    if policy.lent and name in SET_ID:
        mode, flags = SET_ID[name]
        made = flags is None or low[flags] & 0o20000100
        return EPERM if made and low[mode] & 0o6000 else ALLOW
    looks = {
        "clone": bool(low[0] & 0x7E020000),
        "ioctl": low[1] in TERMINAL,
        "personality": low[0] not in (0, WORD),
    }
    return EPERM if looks.get(name, name in REFUSED) else ALLOW


def _socket(policy: Policy, name: str, low: Sequence[int]) -> int:
    family, kind, protocol = low[0], low[1] & 0xF, low[2]
    if name == "socketpair":
        # An end of a pair for datagrams may send to any socket that has a name.
        return ALLOW if family == 1 and (kind in (1, 5) or "unix" in policy.families) else EAFNOSUPPORT
    granted = {1: "unix", 2: "inet", 10: "inet6", 16: "netlink-route"}.get(family) in policy.families
    if not granted or (family == 16 and protocol != 0):
        return EAFNOSUPPORT
    return EPERM if family in (2, 10) and kind in (3, 10) else ALLOW


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@given(policy=policies, given_arguments=arguments)
def test_a_filter_decides_as_specified_about_every_call(
    machine: Architecture, policy: Policy, given_arguments: tuple[int, ...]
) -> None:
    program = load(seccomp.program(policy, machine))
    for number in NUMBERS:
        call = Call(machine.audit, number, given_arguments)
        assert run(program, call).value == reference(policy, machine, call), call


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
@given(policy=policies, data=st.data())
def test_a_filter_looks_at_the_right_argument(machine: Architecture, policy: Policy, data: st.DataObject) -> None:
    program = load(seccomp.program(policy, machine))
    looking = ("clone", "ioctl", "personality", "socket", "socketpair", "prctl", *SET_ID)
    for name in (name for name in looking if name in machine.numbers):
        call = Call(machine.audit, machine.numbers[name], data.draw(arguments))
        assert run(program, call).value == reference(policy, machine, call), call


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_another_architecture_ends_the_process(machine: Architecture) -> None:
    program = load(seccomp.program(BASE, machine))
    for audit in (0x40000003, 0x40000028, 0, WORD, *(other.audit for other in MACHINES if other is not machine)):
        for number in NUMBERS:
            assert run(program, Call(audit, number)).value == KILL


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_filter_is_quick(machine: Architecture) -> None:
    program = load(seccomp.program(BASE, machine))
    assert len(program) < 256
    for number in NUMBERS:
        outcome = run(program, Call(machine.audit, number))
        assert outcome.steps < 20
        if outcome.value == ALLOW:
            looks = number in {machine.numbers[name] for name in ("clone", "ioctl", "personality")}
            # The kernel does not run it at all for a call that is always allowed.
            assert outcome.always is not looks


def test_every_name_of_the_specification_is_known() -> None:
    for pattern in (*ABSENT, *DENIED):
        assert fnmatch.filter(NAMES, pattern), pattern


def test_what_servers_filter_themselves_with_is_allowed() -> None:
    decided = seccomp.decisions(BASE)
    for name in ("seccomp", "prctl", "landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"):
        assert name not in decided


def test_the_filter_is_made_once() -> None:
    assert seccomp.program(BASE) is seccomp.program(replace(BASE))
    assert seccomp.program(BASE) != seccomp.program(Policy(families=frozenset()))


def test_words_without_a_meaning_are_refused() -> None:
    with pytest.raises(ValueError, match="spoon: Linux has no such system call"):
        Policy(deny=frozenset({"spoon"}))
    family: Family = "inet"
    with pytest.raises(ValueError, match="vsock: no such family"):
        Policy(families=frozenset({family, "vsock"}))  # type: ignore[arg-type]


def test_an_unknown_machine_gets_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syscalls, "_AUDIT", {})
    syscalls.architectures.cache_clear()
    try:
        with pytest.raises(IsolationError, match="cannot be filtered"):
            seccomp.program(Policy(userns=True, ptrace=True))
    finally:
        syscalls.architectures.cache_clear()


def test_a_policy_is_described() -> None:
    text = "\n".join(seccomp.describe(BASE))
    assert "sockets: inet, inet6, netlink-route;" in text
    assert "debugging of other processes: refused" in text
    wide = Policy(frozenset(), userns=True, ptrace=True, deny=frozenset({"mlock", "execveat"}), audit=True)
    text = "\n".join(seccomp.describe(wide))
    assert "sockets: none;" in text
    assert "namespaces of its own: allowed" in text
    assert "also refused: execveat, mlock" in text
    assert "reported in the log" in text
