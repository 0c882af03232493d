"""Our decisions about system calls as the engines take them: the JSON of a seccomp profile.

Engines apply it with libseccomp, which cannot say all that we do: an argument may be compared once in a rule, and a
rule that refuses cannot lie in another that allows. Where a decision does not fit, the profile is the wider one. It
need not be exact: `gate` puts the very filter of the native sandbox over it before the server runs.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import json
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import syscalls
from supervisord_mcp.runtimes.bpf import Answer, Decision, Switch
from supervisord_mcp.runtimes.seccomp import ALLOW, Policy, decisions
from supervisord_mcp.runtimes.syscalls import Architecture

_ERRNO, _NUMBER = 0x00050000, 0xFFFF
_ARCHITECTURES = {"x86_64": "SCMP_ARCH_X86_64", "aarch64": "SCMP_ARCH_AARCH64"}
_WORD = 0xFFFFFFFF

Condition = dict[str, Any]


@functools.lru_cache(maxsize=16)
def profile(policy: Policy, architecture: Architecture | None = None) -> str:
    """Return the profile for a policy, on this machine unless another architecture is named.

    What is not known is answered as by an older kernel. Raise `IsolationError` for a machine that cannot be filtered.
    """
    architecture = architecture or syscalls.native()
    decided = decisions(policy)
    plain = sorted(name for name in architecture.numbers if decided.get(name, ALLOW) == ALLOW)
    rules: list[Condition] = [{"names": plain, "action": "SCMP_ACT_ALLOW"}]
    refused: dict[int, list[str]] = {}
    for name, decision in sorted(decided.items()):
        if name not in architecture.numbers or decision == ALLOW:
            continue
        if isinstance(decision, Answer):
            refused.setdefault(_number(decision), []).append(name)
        else:
            rules += [_allowing([name], args) for args in _allowed(decision)]
    for number, names in sorted(refused.items()):
        rules.append({"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": number})
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": errno.ENOSYS,
            "architectures": [_ARCHITECTURES[architecture.name]],
            "syscalls": rules,
        }
    )


def profile_file(directory: Path, text: str) -> str:
    """Return the path of a file with a profile. Raise `IsolationError` where it cannot be written."""
    path = directory / f"seccomp-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
    try:
        if not path.exists():
            directory.mkdir(parents=True, exist_ok=True)
            begun = path.with_suffix(f".{secrets.token_hex(4)}")
            begun.write_text(text, encoding="ascii")
            begun.rename(path)
    except OSError as error:
        raise IsolationError(f"a filter for system calls cannot be written to {path}: {error.strerror}") from error
    return str(path)


def _allowing(names: list[str], args: list[Condition]) -> Condition:
    rule: Condition = {"names": names, "action": "SCMP_ACT_ALLOW"}
    return {**rule, "args": args} if args else rule


def _allowed(decision: Switch) -> Iterator[list[Condition]]:
    """Yield, for every way through a decision that allows, what is compared on it; wider where that cannot be said."""
    if decision.otherwise == ALLOW:
        values = [value for value, each in decision.cases if each != ALLOW]
        # Several values of one argument cannot be excepted at once.
        yield [_unequal(decision, values[0])] if len(values) == 1 and decision.mask == _WORD else []
        return
    for value, each in decision.cases:
        for rest in _ways(each):
            yield [_equal(decision, value), *rest]
    if isinstance(decision.otherwise, Switch):
        yield from _allowed(decision.otherwise)


def _ways(decision: Decision) -> Iterator[list[Condition]]:
    if isinstance(decision, Switch):
        yield from _allowed(decision)
    elif decision == ALLOW:
        yield []


def _equal(decision: Switch, value: int) -> Condition:
    if decision.mask == _WORD:
        return {"index": decision.argument, "value": value, "op": "SCMP_CMP_EQ"}
    return {"index": decision.argument, "value": decision.mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _unequal(decision: Switch, value: int) -> Condition:
    return {"index": decision.argument, "value": value, "op": "SCMP_CMP_NE"}


def _number(answer: Answer) -> int:
    return answer.value & _NUMBER if answer.value & ~_NUMBER == _ERRNO else errno.EPERM
