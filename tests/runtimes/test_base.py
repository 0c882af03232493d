"""The values of the runtime interface."""

from __future__ import annotations

import pytest

from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec


@pytest.mark.parametrize(
    ("status", "text", "success"),
    [
        (ExitStatus(code=0), "exit 0", True),
        (ExitStatus(code=7), "exit 7", False),
        (ExitStatus(signal=9), "killed by SIGKILL", False),
        (ExitStatus(signal=31), "killed by SIGSYS (blocked syscall)", False),
        (ExitStatus(signal=40), "killed by signal 40", False),
    ],
)
def test_exit_status_is_shown(status: ExitStatus, text: str, success: bool) -> None:
    assert str(status) == text
    assert status.success is success


def test_environment_is_not_shown() -> None:
    assert "s3cret" not in repr(LaunchSpec("name", ("/bin/true",), env=(("TOKEN", "s3cret"),)))
