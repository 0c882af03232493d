"""A server is asked what it is, in children of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import ControlError, Daemon, daemon, fake

pytestmark = pytest.mark.bwrap


async def probed(d: Daemon) -> dict[str, dict[str, Any]]:
    """Probe the server; return what was found, by era."""
    result = await d.control("probe", 60, name="s")
    assert result["name"] == "s"
    return {finding["era"]: finding for finding in result["findings"]}


@bounded(90)
async def test_a_server_is_found_to_be_what_it_is_and_nothing_is_left() -> None:
    async with daemon(fake("s", list_pages=3, fetch_roots=True)) as d:
        result = await d.control("probe", 60, name="s")
        legacy, modern = result["findings"]
        assert (legacy["era"], legacy["spoken"], legacy["versions"]) == ("legacy", True, ["2025-11-25"])
        assert legacy["server"]["name"] == "fserver"
        assert "tools" in legacy["capabilities"]
        assert len(legacy["lists"]["tools"]) > 10
        assert legacy["lists"]["resources"] == ["res://r1", "res://r2"]
        assert legacy["difference"] == {}
        assert legacy["asks"] == ["roots/list"]
        assert 0 < legacy["start"] < 60
        assert legacy["memory"] > 1 << 20
        assert (modern["spoken"], modern["trouble"][:9]) == (False, "answered ")
        assert {one["key"]: one["value"] for one in result["suggestions"]} == {
            "scope": "global",
            "callbacks": "on",
            "era": "legacy",
        }
        declared = [event["params"]["capabilities"] for event in d.journal("s").requests("initialize")]
        assert declared[0] == {}
        assert set(declared[1]) == {"roots", "sampling", "elicitation"}
        assert (await d.server("s"))["instances"] == []
        assert len(d.journal("s").runs()) == 3
        assert len(d.journal("s").events("eof")) == 3


@bounded(90)
@pytest.mark.parametrize(
    ("reaction", "trouble"),
    [({"exit": 3}, "ended (exit 3"), ("silent", "did not answer server/discover")],
)
async def test_a_server_that_does_not_stand_the_modern_era_is_a_legacy_one(reaction: Any, trouble: str) -> None:
    async with daemon(fake("s", probe_reaction=reaction)) as d:
        found = await probed(d)
        assert trouble in found["modern"]["trouble"]
        assert found["legacy"]["spoken"]


@bounded(60)
async def test_a_server_that_asks_unasked_is_answered_and_belongs_to_one_session() -> None:
    async with daemon(fake("s", server_request={"kind": "elicitation", "related": False})) as d:
        result = await d.control("probe", 60, name="s")
        assert result["findings"][0]["asks"] == ["elicitation/create"]
        assert result["suggestions"][0]["value"] == "session"
        assert d.journal("s").answers()[-1]["result"] == {"action": "cancel"}


@bounded(60)
async def test_a_server_that_cannot_be_started_is_an_error() -> None:
    async with daemon(fake("s", entry={"command": ["/nonexistent/server"]})) as d:
        with pytest.raises(ControlError, match="/nonexistent/server"):
            await probed(d)


@bounded(60)
async def test_a_server_that_speaks_neither_is_said_to() -> None:
    async with daemon(fake("s", exit_before_init={"code": 4})) as d:
        found = await probed(d)
        assert not found["legacy"]["spoken"]
        assert "ended (exit 4)" in found["legacy"]["trouble"]


@bounded(60)
async def test_a_server_of_no_known_revision_is_not_taken_for_a_legacy_one() -> None:
    async with daemon(fake("s", era="1999-01-01")) as d:
        found = await probed(d)
        # What a host would be told of it, too.
        assert found["legacy"]["trouble"] == "speaks protocol version '1999-01-01', which smcp does not know"
        assert not found["legacy"]["spoken"]


@pytest.mark.parametrize("eras", [["legacy"], ["modern"]])
@bounded(60)
async def test_what_a_server_says_of_itself_in_the_wrong_form_is_left_out(eras: list[str]) -> None:
    told: dict[str, Any] = {"capabilities": []} if eras == ["legacy"] else {}
    async with daemon(fake("s", eras=eras, server_info=["s"], **told)) as d:
        found = (await probed(d))[eras[0]]
        assert (found["spoken"], found["server"]) == (True, {})
        assert isinstance(found["capabilities"], dict)


@bounded(60)
async def test_a_command_that_leaves_takes_the_child_with_it() -> None:
    async with daemon(fake("s", probe_reaction="silent", ignore_eof=True)) as d:
        asking = asyncio.create_task(d.control("probe", 60, name="s"))
        await d.journal("s").wait(lambda j: j.runs(), 20, "a child")
        assert probe.children(await d.pid())
        asking.cancel()
        await asyncio.wait([asking])
        while probe.children(await d.pid()):
            await asyncio.sleep(0.02)
