"""The runtime without isolation, beyond what every runtime must do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import LaunchSpec
from tests.kit.bounded import bounded
from tests.runtimes.conformance import read, running, shell


def test_says_what_it_is() -> None:
    runtime = BareRuntime()
    assert (runtime.name, runtime.isolation, runtime.check()) == ("bare", "none", ())


def test_filters_nothing() -> None:
    spec = LaunchSpec("x", ("/bin/true",))
    assert BareRuntime().policy(spec) is None
    assert BareRuntime().uncovered(spec) == ()


def test_shows_a_command_line() -> None:
    spec = LaunchSpec("x", ("/bin/echo", "a b"), cwd="/a b", env=(("PATH", "/bin"), ("TOKEN", "s3cret")))
    assert BareRuntime().explain(spec) == "cd '/a b' && env -i PATH=/bin TOKEN=\"$TOKEN\" /bin/echo 'a b'"


@bounded(30)
async def test_promises_no_rules_that_it_cannot_keep() -> None:
    network = Egress(parse_rules(["a.test:443"]))
    with pytest.raises(IsolationError, match="it could reach everything"):
        await BareRuntime().launch(LaunchSpec("x", ("/bin/true",), network=network))


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_sees_the_machine() -> None:
    async with running(BareRuntime(), shell("cat /proc/$PPID/stat")) as child:
        assert (await read(child.stdout)).startswith(f"{os.getpid()} (".encode())


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_passes_variables_on_that_a_shell_would_drop() -> None:
    odd = {"a.b": "1", "npm_config_@x:registry": "2", "É": "ä"}
    spec = LaunchSpec("x", ("/usr/bin/env", "-0"), env=tuple(odd.items()), marker="t-odd")
    async with running(BareRuntime(), spec) as child:
        found = (await read(child.stdout)).decode().split("\0")
        assert {f"{name}={value}" for name, value in odd.items()} <= set(found)
    script = "grep -E '^Sig(Ign|Blk)' /proc/self/status; cat"
    spec = LaunchSpec("x", ("/bin/sh", "-c", script), env=(("a.b", "1"), ("PATH", "/usr/bin:/bin")), marker="t-odd")
    async with running(BareRuntime(), spec) as child:
        os.write(child.stdin, b"rest\n")
        expected = b"SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nrest\n"
        assert await read(child.stdout, b"rest\n") == expected


@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        ("#!/nowhere/interpreter\n", 0o755, "interpreter that its first line names does not exist"),
        ("#!/bin/sh\n", 0o644, "Permission denied"),
        (None, 0, "No such file"),
    ],
)
@bounded(30)
async def test_a_program_that_cannot_start_is_no_riddle(
    tmp_path: Path, content: str | None, mode: int, said: str
) -> None:
    program = tmp_path / "server"
    if content is not None:
        program.write_text(content)
        program.chmod(mode)
    with pytest.raises(LaunchError, match=said) as caught:
        await BareRuntime().launch(LaunchSpec("x", (str(program),)))
    assert not caught.value.retryable
