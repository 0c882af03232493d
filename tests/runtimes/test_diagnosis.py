"""Known texts of bubblewrap, each with its cause and remedy."""

from __future__ import annotations

import pytest

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import diagnosis

KNOWN = [
    ("bwrap: setting up uid map: Permission denied", "AppArmor", "apparmor_parser"),
    ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor", "bwrap-userns-restrict"),
    ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "container", "systempaths=unconfined"),
    ("bwrap: No permissions to create new namespace, likely because the kernel does not allow", "namespaces", "sysctl"),
    ("bwrap: No permissions to creating new namespace, likely because", "namespaces", "sysctl"),
    ("bwrap: Creating new namespace failed: Operation not permitted", "namespaces", "sysctl"),
    (
        "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "limit",
        "max_user_namespaces",
    ),
    ("bwrap: Failed to make / slave: Permission denied", "namespaces", "sysctl"),
    ("bwrap: Unexpected capabilities but not setuid, old file caps config?", "capabilities", "apt-get install"),
    ("bwrap: Unknown option --perms", "too old", "0.5"),
    ("bwrap: Unknown option --seccomp", "too old", "0.5"),
    (
        "bwrap: Unable to set up system call filtering as requested: prctl(PR_SET_SECCOMP) reported EINVAL.",
        "filter system calls",
        "CONFIG_SECCOMP_FILTER",
    ),
    ("bwrap: prctl(PR_SET_SECCOMP): Permission denied", "filter system calls", "container"),
    ("bwrap: pivot_root: Invalid argument", "root file system", "bare"),
]


@pytest.mark.parametrize(("text", "cause", "remedy"), KNOWN)
def test_known_texts_have_a_cause_and_a_remedy(text: str, cause: str, remedy: str) -> None:
    error = diagnosis.failure("files", text)
    assert isinstance(error, IsolationError)
    assert "files" in error.message
    assert text in error.message
    assert cause in error.message
    assert remedy in error.remedy
    assert 'runtime = "bare"' in error.remedy
    lack = diagnosis.lack(text)
    assert cause in lack.cause
    assert remedy in lack.remedy


def test_an_unknown_text_is_passed_on() -> None:
    error = diagnosis.failure("files", "bwrap: the moon is full")
    assert isinstance(error, IsolationError)
    assert "the moon is full" in error.message
    assert diagnosis.lack("bwrap: the moon is full").cause == "bwrap: the moon is full"
    assert "without a word" in diagnosis.failure("files", "").message


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("bwrap: Can't chdir to /a/b: No such file or directory", "working directory /a/b"),
        ("bwrap: Can't find source path /c: No such file or directory", "mount of /c"),
    ],
)
def test_a_fault_of_the_entry_is_no_lack_of_isolation(text: str, what: str) -> None:
    error = diagnosis.failure("files", text)
    assert isinstance(error, LaunchError)
    assert not error.retryable
    assert what in error.message


def test_inside_a_container_the_container_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(diagnosis, "_in_container", lambda: True)
    error = diagnosis.failure("files", "bwrap: No permissions to create new namespace")
    assert "container" in error.message
    assert "seccomp=unconfined" in error.remedy
