"""A filter for system calls as a person reads it: every call that is not simply allowed, with the answer it gets."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from supervisord_mcp.runtimes import syscalls
from supervisord_mcp.runtimes.bpf import Answer, Decision, Switch
from supervisord_mcp.runtimes.seccomp import ALLOW, KILL, MODES, NOTIFY, Policy, decisions
from supervisord_mcp.runtimes.syscalls import Architecture

_ERRNO = 0x00050000
_WHOLE = 0xFFFFFFFF
#: The names of arguments that decide, and of their values.
_ARGUMENTS = {
    ("clone", 0): "flags",
    ("ioctl", 1): "command",
    ("personality", 0): "persona",
    ("socket", 0): "family",
    ("socket", 1): "type",
    ("socket", 2): "protocol",
    ("socketpair", 0): "family",
    ("socketpair", 1): "type",
    ("prctl", 0): "option",
    **{(name, argument): "mode" for name, (argument, _) in MODES.items()},
    **{(name, flags): "opened" for name, (_, flags) in MODES.items() if flags is not None},
}
_VALUES = {
    ("family", 1): "AF_UNIX",
    ("family", 2): "AF_INET",
    ("family", 10): "AF_INET6",
    ("family", 16): "AF_NETLINK",
    ("type", 1): "SOCK_STREAM",
    ("type", 3): "SOCK_RAW",
    ("type", 5): "SOCK_SEQPACKET",
    ("type", 10): "SOCK_PACKET",
    ("protocol", 0): "NETLINK_ROUTE",
    ("command", 0x5412): "TIOCSTI",
    ("command", 0x541C): "TIOCLINUX",
    ("command", 0x541D): "TIOCCONS",
    ("command", 0x5423): "TIOCSETD",
    ("option", 35): "PR_SET_MM",
    ("flags", 0): "no CLONE_NEW* flag",
    ("mode", 0): "without set-user-id and set-group-id",
    ("opened", 0): "and not made",
}
#: What is only looked at in part, which the name of the value says.
_PARTLY = ("flags", "type", "mode", "opened")


def filter_lines(policy: Policy, architecture: Architecture | None = None) -> tuple[str, ...]:
    """Return the rules of a policy, one in a line, on this machine unless another architecture is named.

    Raise `IsolationError` where the machine is of a kind that cannot be filtered.
    """
    architecture = architecture or syscalls.native()
    decided = {name: each for name, each in decisions(policy).items() if name in architecture.numbers}
    allowed = sum(decided.get(name, ALLOW) == ALLOW for name in architecture.numbers)
    return (
        f"architecture other than {architecture.name}: the process is killed",
        "a number that is not known: ENOSYS",
        f"{allowed} known calls: allowed",
        *(f"{name}: {_text(name, each)}" for name, each in sorted(decided.items()) if each != ALLOW),
    )


def _text(call: str, decision: Decision) -> str:
    if isinstance(decision, Answer):
        return _answer(decision)
    return "; ".join((*_cases(call, decision), f"else {_text(call, decision.otherwise)}"))


def _cases(call: str, switch: Switch) -> Iterator[str]:
    argument = _ARGUMENTS.get((call, switch.argument), f"argument {switch.argument}")
    named = argument if switch.mask == _WHOLE or argument in _PARTLY else f"{argument} & {switch.mask:#x}"
    for value, decision in switch.cases:
        shown = _VALUES.get((argument, value), f"{value:#x}")
        what = _text(call, decision)
        yield f"{named} {shown} → {f'({what})' if isinstance(decision, Switch) else what}"


def _answer(answer: Answer) -> str:
    match answer:
        case _ if answer == ALLOW:
            return "allowed"
        case _ if answer == KILL:
            return "the process is killed"
        case _ if answer == NOTIFY:
            return "refused and reported"
        case _:
            return errno.errorcode[answer.value & ~_ERRNO]
