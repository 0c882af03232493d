"""The runtime without isolation, beyond what every runtime must do."""

from __future__ import annotations

import os

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.egress.rules import Egress, parse_rules
from tests.kit.bounded import bounded
from tests.runtimes.conformance import read, running, shell


def test_says_what_it_is() -> None:
    runtime = BareRuntime()
    assert (runtime.name, runtime.isolation, runtime.check()) == ("bare", "none", ())


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
