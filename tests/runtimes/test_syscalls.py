"""The table of system calls is complete and right, as far as this machine's headers know them."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import syscalls
from tests.kit.required import need

HEADERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
GENERIC = Path("/usr/include/asm-generic/unistd.h")
#: Names that the header has for several kinds of architectures, and theirs on 64 bits where that is not just the rest.
RENAMED = {"3264_fstatat": "newfstatat"}
#: Only for 32 bits, or no call at all.
OTHERS = {"arch_specific_syscall", "syscalls", "sync_file_range2"}


@pytest.mark.parametrize(("name", "audit", "last"), [("x86_64", 0xC000003E, 469), ("aarch64", 0xC00000B7, 469)])
def test_an_architecture_has_each_number_once(name: str, audit: int, last: int) -> None:
    architecture = syscalls.architectures()[name]
    assert architecture.audit == audit
    numbers = sorted(architecture.numbers.values())
    assert len(numbers) == len(set(numbers))
    # What came with 5.1 and later has the same numbers everywhere, without a gap.
    assert numbers[-46:] == list(range(424, last + 1))


def test_the_numbers_have_no_gap_but_those_that_linux_left() -> None:
    of = {name: set(each.numbers.values()) for name, each in syscalls.architectures().items()}
    assert set(range(470)) - of["x86_64"] == set(range(337, 424))
    assert set(range(470)) - of["aarch64"] == {*range(244, 260), *range(295, 424)}


def test_new_calls_have_the_same_number_everywhere() -> None:
    x86, arm = (each.numbers for each in syscalls.architectures().values())
    new = {name: number for name, number in x86.items() if number >= 424}
    assert new == {name: number for name, number in arm.items() if number >= 424}
    assert (new["cachestat"], new["mseal"], new["file_setattr"]) == (451, 462, 469)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has no headers of another architecture")
def test_x86_64_agrees_with_the_headers() -> None:
    need(HEADERS.exists(), "the headers of the kernel")
    found = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADERS.read_text()))
    numbers = syscalls.architectures()["x86_64"].numbers
    known = {name: int(number) for name, number in found.items() if int(number) <= 469}
    assert {name: numbers.get(name) for name in known} == known


def test_aarch64_agrees_with_the_headers() -> None:
    need(GENERIC.exists(), "the generic headers of the kernel")
    found = dict(re.findall(r"#define __NR_?(\w+) (\d+)\n", GENERIC.read_text()))
    known = {
        RENAMED.get(name, name.removeprefix("3264_")): int(number)
        for name, number in found.items()
        if name not in OTHERS and not 403 <= int(number) <= 423 and int(number) <= 469
    }
    numbers = syscalls.architectures()["aarch64"].numbers
    assert {name: numbers.get(name) for name in known} == known


def test_this_machine_is_found_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for machine in ("x86_64", "aarch64"):
        _machine(monkeypatch, machine)
        assert syscalls.native() is syscalls.architectures()[machine]
    for machine in ("i686", "riscv64", "aarch64_be", ""):
        _machine(monkeypatch, machine)
        with pytest.raises(IsolationError, match="cannot be filtered"):
            syscalls.native()


def test_calls_have_names() -> None:
    architecture = syscalls.architectures()["aarch64"]
    assert architecture.name_of(220) == "clone"
    assert architecture.name_of(600) == "system call 600"
    assert syscalls.known("fork")
    assert not syscalls.known("spoon")


def _machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "mcp", "6.18", "#1", name)))
