"""Which system calls a sandboxed server may make: a policy, and the filter that the kernel is given for it.

Every call that Linux is known to have is allowed but for what stands here. A number that is not known yet is answered
as an older kernel would, so programs fall back to what they used before. The same goes for calls with flags that no
filter can read (clone3), and for those that reach files and sockets past the others (io_uring). The rest of what is
refused is refused as to a program without rights.

Programs filter themselves too (landlock, seccomp, prctl): that stays allowed, it can only take away.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from supervisord_mcp.runtimes import syscalls
from supervisord_mcp.runtimes.bpf import Answer, Decision, Switch, Table, assemble
from supervisord_mcp.runtimes.syscalls import Architecture

#: A kind of socket that a server may make. A pair of unix sockets is always allowed, but for datagrams: an end
#: of such a pair can send to every socket that has a name.
Family = Literal["inet", "inet6", "netlink-route", "unix"]

_FAMILIES: Mapping[Family, int] = {"unix": 1, "inet": 2, "inet6": 10, "netlink-route": 16}
_UNIX = _FAMILIES["unix"]


def _errno(number: int) -> Answer:
    return Answer(0x00050000 | number)


ALLOW = Answer(0x7FFF0000)
#: Asks the program that listens, see `audit`.
NOTIFY = Answer(0x7FC00000)
KILL = Answer(0x80000000)
_MISSING = _errno(errno.ENOSYS)
_REFUSED = _errno(errno.EPERM)
_NO_FAMILY = _errno(errno.EAFNOSUPPORT)

#: Answered as by a kernel that does not have them.
_ABSENT = (
    # A filter cannot read its flags, and libraries fall back to clone only if there is no clone3.
    "clone3",
    *("io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr"),
    *("statmount", "listmount", "memfd_secret"),
)
_DENIED = (
    # Modules, and other code and data for the kernel.
    *("create_module", "init_module", "delete_module", "finit_module", "query_module"),
    *("bpf", "kexec_load", "kexec_file_load", "modify_ldt", "perf_event_open", "userfaultfd", "uselib"),
    # What belongs to the whole machine.
    *("acct", "reboot", "swapon", "swapoff", "quotactl", "quotactl_fd", "syslog", "sysfs", "ustat", "vhangup"),
    *("settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname"),
    *("ioperm", "iopl", "lookup_dcookie", "nfsservctl", "fanotify_init", "lsm_set_self_attr"),
    # Keys of the session that the daemon runs in.
    *("add_key", "keyctl", "request_key"),
    # Files by other ways than their names, and what they are mounted on.
    *("mount", "umount2", "pivot_root", "chroot", "open_by_handle_at", "name_to_handle_at"),
    # Other processes.
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "pidfd_getfd", "kcmp"),
    # Namespaces (clone: see below).
    *("setns", "unshare"),
    # Placement of memory, and calls with a past of faults that nearly nobody needs.
    *("mbind", "set_mempolicy", "set_mempolicy_home_node", "migrate_pages", "move_pages", "vmsplice"),
    *("io_setup", "io_destroy", "io_getevents", "io_pgetevents", "io_submit", "io_cancel"),
)

#: Calls that look for a file by its name: which argument is the name, and which one are the flags.
OPENING: Mapping[str, tuple[int, int]] = {"open": (0, 1), "openat": (1, 2)}
#: Calls that give a file its mode: which argument that is, and for those that only do where they make one, the flags.
MODES: Mapping[str, tuple[int, int | None]] = {
    **dict.fromkeys(("chmod", "fchmod", "creat", "mknod"), (1, None)),
    **dict.fromkeys(("fchmodat", "fchmodat2", "mknodat"), (2, None)),
    "open": (2, 1),
    "openat": (3, 2),
}
_SET_ID = 0o6000
#: Calls that give a file attributes; one of them is what its program may do (security.capability).
_ATTRIBUTES = ("setxattr", "lsetxattr", "fsetxattr", "setxattrat")
#: O_CREAT, and what O_TMPFILE has beside O_DIRECTORY.
_MAKING = 0o20000100
_NEW_NAMESPACES = 0x7E020000
#: Commands that put words into the terminal of whoever started the daemon, or change what it is.
_TERMINAL = {"TIOCSTI": 0x5412, "TIOCLINUX": 0x541C, "TIOCCONS": 0x541D, "TIOCSETD": 0x5423}
_PERSONALITIES = (0, 0xFFFFFFFF)
_SOCKET_TYPE = 0xF
_STREAM, _RAW, _SEQPACKET, _PACKET = 1, 3, 5, 10

#: A pair of sockets that stay connected with each other.
_CONNECTED = Switch(1, ((_STREAM, ALLOW), (_SEQPACKET, ALLOW)), _NO_FAMILY, mask=_SOCKET_TYPE)

#: Further denials that look at an argument: the call, the argument's position and its value.
_PARTS: Mapping[str, tuple[str, int, int]] = {"prctl(PR_SET_MM)": ("prctl", 0, 35)}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a server may ask of the kernel; the default is the base that every profile starts from.

    ``userns`` allows namespaces of its own to a server that puts its parts into sandboxes, ``ptrace`` the tools of a
    debugger. ``deny`` names further calls, or ``prctl(PR_SET_MM)``. With ``audit`` what is refused is also reported.
    ``lent`` is for a server that makes files which belong to somebody else, to root or to a person: none gets the bit
    by which whoever runs it is its owner, nor rights of its own from the root of a namespace that is the server's.
    Raise `ValueError` for words that have no meaning.
    """

    families: frozenset[Family] = frozenset({"inet", "inet6", "netlink-route"})
    userns: bool = False
    ptrace: bool = False
    deny: frozenset[str] = frozenset()
    audit: bool = False
    lent: bool = False

    def __post_init__(self) -> None:
        if strange := sorted(self.families - set(get_args(Family))):
            raise ValueError(f"{strange[0]}: no such family of sockets; there are {', '.join(get_args(Family))}")
        for name in sorted(self.deny):
            if name not in _PARTS and not syscalls.known(name):
                raise ValueError(f"{name}: Linux has no such system call")

    @property
    def words(self) -> tuple[str, ...]:
        """The policy in words of a configuration, the same for equal ones."""
        switches = [name for name in ("userns", "ptrace", "audit", "lent") if getattr(self, name)]
        return (*sorted(self.families), *switches, *(f"-{name}" for name in sorted(self.deny)))


#: What a server may do whose profile says nothing about it.
BASE = Policy()


def decisions(policy: Policy) -> dict[str, Decision]:
    """Return what is decided about the calls that are not simply allowed, by name."""
    decided: dict[str, Decision] = dict.fromkeys(_ABSENT, _MISSING)
    decided |= dict.fromkeys(_DENIED, _REFUSED)
    decided |= {
        "clone": Switch(0, ((0, ALLOW),), _REFUSED, mask=_NEW_NAMESPACES),
        "ioctl": Switch(1, _cases(_TERMINAL.values(), _REFUSED), ALLOW),
        "personality": Switch(0, _cases(_PERSONALITIES, ALLOW), _REFUSED),
        "socket": _sockets(policy.families),
        "socketpair": Switch(0, ((_UNIX, ALLOW if "unix" in policy.families else _CONNECTED),), _NO_FAMILY),
    }
    if policy.userns:
        decided |= dict.fromkeys(("clone", "unshare", "setns", "chroot"), ALLOW)
    if policy.ptrace:
        decided |= dict.fromkeys(("ptrace", "process_vm_readv", "personality"), ALLOW)
    if policy.lent:
        # What openat2 is told no filter can read.
        decided |= {"openat2": _MISSING, **{name: _mode(*places) for name, places in MODES.items()}}
    if policy.lent and policy.userns:
        # Who is root there may, and is the owner of the file to the disk. No filter can read which attribute it is.
        decided |= dict.fromkeys(_ATTRIBUTES, _REFUSED)
    for name in sorted(policy.deny):
        if name in _PARTS:
            call, argument, value = _PARTS[name]
            decided.setdefault(call, Switch(argument, ((value, _REFUSED),), ALLOW))
        elif name not in _ABSENT:
            decided[name] = _REFUSED
    return decided


def table(policy: Policy, architecture: Architecture) -> Table:
    """Return what is decided about every call of an architecture, without regard to ``audit``."""
    decided = decisions(policy)
    calls = {number: decided.get(name, ALLOW) for name, number in architecture.numbers.items()}
    # The calls of x32 have numbers of their own that nobody knows here.
    return Table(architecture.audit, calls, unknown=_MISSING, foreign=KILL)


@functools.lru_cache(maxsize=64)
def program(policy: Policy, architecture: Architecture | None = None) -> bytes:
    """Return the filter for a policy, on this machine unless another architecture is named.

    Raise `IsolationError` where the machine is of a kind that cannot be filtered.
    """
    architecture = architecture or syscalls.native()
    decided = table(policy, architecture)
    return assemble(_reporting(decided, architecture) if policy.audit else decided)


def _reporting(decided: Table, architecture: Architecture) -> Table:
    """Return a table that asks the listener instead of refusing; without one the kernel answers that nothing is there.

    Every new thread is refused its clone3 first, which tells nobody anything. What is opened is asked about as well: it
    is allowed, and shows what a server looks for.
    """
    silent = architecture.numbers["clone3"]
    calls = {number: each if number == silent else _asking(each) for number, each in decided.calls.items()}
    calls |= {architecture.numbers[name]: NOTIFY for name in OPENING if name in architecture.numbers}
    return replace(decided, calls=calls, unknown=NOTIFY)


def _asking(decision: Decision) -> Decision:
    if isinstance(decision, Answer):
        return decision if decision == ALLOW else NOTIFY
    cases = tuple((value, _asking(each)) for value, each in decision.cases)
    return replace(decision, cases=cases, otherwise=_asking(decision.otherwise))


def describe(policy: Policy) -> tuple[str, ...]:
    """Return the rules of a policy in words, for a person."""
    sockets = ", ".join(name for name in get_args(Family) if name in policy.families) or "none"
    words = [
        "system calls: those that Linux is known to have, for this kind of processor; unknown ones are not there",
        f"sockets: {sockets}; raw ones are refused, a pair of unix sockets with a connection is allowed",
        "refused: changes to the machine, mounts, kernel modules, keys, io_uring, typing into terminals",
    ]
    words.append(f"namespaces of its own: {'allowed' if policy.userns else 'refused'}")
    words.append(f"debugging of other processes: {'allowed' if policy.ptrace else 'refused'}")
    if policy.deny:
        words.append(f"also refused: {', '.join(sorted(policy.deny))}")
    if policy.lent:
        refused = "set-user-id and set-group-id bits" + (", and all extended attributes," if policy.userns else "")
        words.append(f"{refused} are refused: the files belong to somebody else")
    if policy.audit:
        words.append("what is refused is reported in the log of the server")
    return tuple(words)


def _mode(argument: int, flags: int | None) -> Decision:
    judged = Switch(argument, ((0, ALLOW),), _REFUSED, mask=_SET_ID)
    return judged if flags is None else Switch(flags, ((0, ALLOW),), judged, mask=_MAKING)


def _sockets(families: Iterable[Family]) -> Decision:
    raw = Switch(1, _cases((_RAW, _PACKET), _REFUSED), ALLOW, mask=_SOCKET_TYPE)
    # The only protocol of netlink that programs without rights need; the others configure and watch the machine.
    kinds: Mapping[Family, Decision] = {
        "unix": ALLOW,
        "inet": raw,
        "inet6": raw,
        "netlink-route": Switch(2, ((0, ALLOW),), _NO_FAMILY),
    }
    return Switch(0, tuple((_FAMILIES[name], kinds[name]) for name in sorted(families)), _NO_FAMILY)


def _cases(values: Iterable[int], decision: Decision) -> tuple[tuple[int, Decision], ...]:
    return tuple((value, decision) for value in values)
