"""What status and list say of servers that run, that rest, and that somebody stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.config.document import Origin
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.facts import Facts, Whence
from tests.kit.bounded import bounded
from tests.kit.estate import estate

LIMIT = 40
IN_USR = Whence(Facts("", "/usr"), narrow=True)


@bounded(LIMIT)
async def test_one_that_was_stopped_is_told_from_one_that_was_not_needed_yet(tmp_path: Path) -> None:
    async with estate(tmp_path, {"a": {}, "b": {}, "p": {"entry": {"scope": "project", "era": "legacy"}}}) as one:
        await one.supervisor.stop(["a"])
        await one.supervisor.stop(["p"], IN_USR)
        one.guest("p", project="/usr")
        one.guest("p", project="/tmp")
        a, b, p = one.supervisor.status()
        assert [(server.state, server.held) for server in (a, b, p)] == [
            ("STOPPED", True),
            ("STOPPED", False),
            ("STOPPED", False),
        ]
        assert p.held_except == ("/usr",)
        assert {instance.project: instance.held for instance in p.instances} == {"/usr": True, "/tmp": False}
        await one.supervisor.start(["a"])
        await one.supervisor.start(["p"], IN_USR)
        a, _, p = one.supervisor.status()
        assert (a.held, p.held_except) == (False, ())


@bounded(LIMIT)
async def test_what_a_server_is_shown_and_what_it_lost(tmp_path: Path) -> None:
    entry = {"mounts": [{"path": "${project}", "access": "rw"}, {"path": "/usr/share"}]}
    async with estate(tmp_path, {"s": {"entry": entry, "answer_unknown_id": True}}) as one:
        guest = await one.greeted("s", project="/tmp")
        await guest.call("echo")
        (server,) = one.supervisor.status()
        (instance,) = server.instances
        assert (server.scope, server.network, server.isolation, server.sessions) == ("project", "none", "none", 1)
        assert (instance.project, instance.mounts) == ("/tmp", ("/tmp:rw", "/usr/share:ro"))
        assert instance.dropped.keys() == {"unknown"}
        assert instance.pid == one.instance("s").pid


@bounded(LIMIT)
async def test_what_tells_two_of_the_same_apart(tmp_path: Path) -> None:
    entry = {
        "env": {"TOKEN": "${TOKEN:-}"},
        "args": ["${WORD:-}"],
        "cwd": "${PLACE:-/}",
        "mounts": [{"path": "${PLACE:-/usr}"}],
    }
    async with estate(tmp_path, {"s": {"entry": entry}}) as one:
        await one.greeted("s", environ={"TOKEN": "secret", "WORD": "other", "PLACE": "/tmp"})
        assert one.supervisor.status()[0].instances[0].differs == ()
        await one.greeted("s")
        first, second = one.supervisor.status()[0].instances
        assert first.differs == ("arguments", "cwd /tmp", "variables TOKEN", "mounts")
        assert second.differs == ("arguments", "cwd /", "variables TOKEN", "mounts")


@bounded(LIMIT)
async def test_one_that_could_not_be_resolved_says_so_until_it_can(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"env": {"TOKEN": "${TOKEN}"}}}}) as one:
        with pytest.raises(SmcpError, match="is not set"):
            await one.supervisor.start(["s"])
        (server,) = one.supervisor.status()
        assert (server.state, server.instances) == ("STOPPED", ())
        assert "${TOKEN} is not set" in (server.last_error or "")
        one.guest("s", environ={"TOKEN": "x"})
        assert one.supervisor.status()[0].last_error is None
        one.guest("s")
        assert "is not set" in (one.supervisor.status()[0].last_error or "")
        one.reconfigure({"s": {}})
        assert one.supervisor.status()[0].last_error is None


@bounded(LIMIT)
async def test_entries_know_the_catalogue(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}, "t": {}}) as one:
        await one.supervisor.start(["s"])
        await one.until(lambda: one.events("catalogue"))
        s, t = one.supervisor.entries()
        assert (s.name, s.catalogue, t.catalogue, t.tools) == ("s", True, False, None)
        assert s.tools


@bounded(LIMIT)
async def test_profiles_and_what_entries_grant_beyond_them(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"entry": {"profile": "strict"}}, "t": {}}) as one:
        one.launcher.origins = {"s": Origin(Path("/c.toml"), 1, ("network", "mounts"))}
        assert [(server.profile, server.beyond) for server in one.supervisor.status()] == [
            ("strict", ("network", "mounts")),
            ("default", ()),
        ]
        assert [entry.profile for entry in one.supervisor.entries()] == ["strict", "default"]
