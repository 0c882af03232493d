"""Case 36: is the sandbox really on? Where a step fails nothing runs, and what a person is told says why.

What a server can do inside is tried in `tests/probes`; each step of the set-up is made to fail in
`tests/cases/test_case_36_every_step.py`.
"""

from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.test_real_servers import servers
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, ControlError, daemon, shim

pytestmark = pytest.mark.bwrap

INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
_TEXTS = {
    "userns": ("bwrap: No permissions to creating new namespace, likely because the kernel does not allow", "sysctl"),
    "apparmor": ("bwrap: setting up uid map: Permission denied", "AppArmor"),
    "network": ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "AppArmor"),
    "unknown": ("bwrap: something that nobody has seen before", "something that nobody has seen before"),
}


def _stand_in(directory: Path, text: str) -> None:
    """Put a bubblewrap first in PATH that knows its options and always fails."""
    program = directory / "bwrap"
    real = "/usr/bin/bwrap"
    program.write_text(f"#!/bin/sh\ncase $1 in --help|--version) exec {real} $1;; esac\necho '{text}' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


@pytest.mark.parametrize("name", _TEXTS)
@bounded(120)
async def test_where_the_sandbox_cannot_be_set_up_nothing_runs_and_the_cause_is_told(name: str, tmp_path: Path) -> None:
    text, told = _TEXTS[name]
    _stand_in(tmp_path, text)
    ran = tmp_path / "ran"
    entry = {"command": ["/bin/sh", "-c", f"touch {ran}; cat"], "mounts": [{"path": str(tmp_path), "access": "rw"}]}
    async with daemon(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, start=False) as d:
        d.write_config(servers(x=entry))
        await d.start()
        host = d.host("x")
        answer = await host.request("initialize", INITIALIZE, timeout=60)
        assert answer.error is not None
        assert told in answer.error["message"]
        assert "sandbox cannot be set up" in answer.error["message"]
        assert not ran.exists()
        status = await d.server("x")
        assert status["state"] in {"BACKOFF", "FATAL"}
        assert told in status["last_error"]
        # A command that is refused the same can be told from others by its code, and says what to do.
        with pytest.raises(ControlError) as refused:
            await d.control("start", names=["x"], timeout=60)
        error = refused.value.error
        assert (error["code"], error["exit"]) == ("isolation", 7)
        assert 'runtime = "bare"' in error["remedy"]
        assert not ran.exists()


@bounded(60)
async def test_a_shim_that_the_sandbox_of_its_host_keeps_from_sockets_says_so() -> None:
    async with daemon() as d:
        script = f"""
import ctypes, os, struct, sys
sys.path.insert(0, {str(ROOT)!r})
from supervisord_mcp.runtimes import audit, seccomp
audit.install(seccomp.program(seccomp.Policy()))
os.execv(sys.argv[1], sys.argv[1:])
"""
        words = [sys.executable, "-c", script, *shim("x")]
        before = await d.pid()
        done = await asyncio.to_thread(
            subprocess.run, words, env=d.env, input=b"", capture_output=True, timeout=40, check=False
        )
        assert b"blocked by the host's sandbox" in done.stderr
        assert done.returncode != 0
        assert await d.pid() == before
