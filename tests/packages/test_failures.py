"""What the words of installers mean for another try."""

from __future__ import annotations

import pytest

from supervisord_mcp.packages.failures import install_failure


@pytest.mark.parametrize(
    ("line", "how", "retryable"),
    [
        ("npm error code E404", "exit 1", False),
        ("npm error code ETARGET", "exit 1", False),
        ("npm error code ENOTFOUND", "exit 1", True),
        ("npm error code ECONNREFUSED", "exit 1", True),
        ("npm error code E503", "exit 1", True),
        ("npm error code E500 but E404 before", "exit 1", False),
        ("ERROR: No matching distribution found for nowhere", "exit 1", False),
        ("WARNING: NewConnectionError x\nERROR: No matching distribution found for nowhere", "exit 1", True),
        ("Because nowhere was not found in the package registry", "exit 1", False),
        ("error: Failed to fetch: `x`\n  Caused by: dns error", "exit 2", True),
        ("OSError: [Errno 28] No space left on device", "exit 1", True),
        ("error: command 'gcc' failed", "exit 1", False),
        ("", "killed by SIGKILL", True),
    ],
)
def test_whether_to_try_again(line: str, how: str, retryable: bool) -> None:
    error = install_failure("server", how, line.splitlines())
    assert error.retryable is retryable
    assert error.message.startswith(f"cannot install server ({how})")
    assert error.remedy


@pytest.mark.parametrize(
    ("line", "unreachable"),
    [
        ("npm error code ENOTFOUND", True),
        ("npm error code ENOTFOUND\nnpm error code E404", False),
        ("OSError: [Errno 28] No space left on device", False),
        ("", False),
    ],
)
def test_what_only_the_network_did(line: str, unreachable: bool) -> None:
    assert install_failure("server", "killed by SIGKILL", line.splitlines()).unreachable is unreachable


def test_only_the_last_lines_are_shown() -> None:
    message = install_failure("server", "exit 1", [f"line {n}" for n in range(50)] + [""]).message
    assert "line 49" in message
    assert "line 42" in message
    assert "line 41" not in message


def test_hosts_that_were_refused_are_named_with_what_allows_them() -> None:
    error = install_failure("server", "exit 1", ["client error (Connect)"], ("a.test:443", "b.test:80"))
    assert "it was not let to a.test:443, b.test:80" in error.message
    assert error.remedy.endswith('install = { allow = ["a.test:443", "b.test:80"] }')
    assert not error.retryable, "it would be refused again"


@pytest.mark.parametrize(
    "line", ["hint: `x` (v1.0) has no usable wheels", "because building from source is disabled for x"]
)
def test_what_has_to_be_built_is_said(line: str) -> None:
    error = install_failure("server", "exit 1", [line])
    assert "scripts" in error.remedy
    assert not error.retryable
