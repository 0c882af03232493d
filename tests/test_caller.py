"""A host inside the daemon at real children."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from supervisord_mcp.caller import Caller, CallError, calling
from supervisord_mcp.errors import FatalServerError, NotRunningError
from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.server import ManagedServer
from tests.kit.bounded import bounded
from tests.kit.workshop import Workshop, workshop

LIMIT = 30


@asynccontextmanager
async def caller(shop: Workshop, instance: ManagedServer) -> AsyncIterator[Caller]:
    """A caller that has greeted."""
    shop.guests += 1
    async with calling(instance, shop.guests) as one:
        await one.greet()
        yield one


def params(tool: str, **arguments: object) -> bytes:
    return json.dumps({"name": tool, "arguments": arguments}).encode()


@bounded(LIMIT)
async def test_a_result_is_returned_as_it_was_sent(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop, caller(shop, shop.instance()) as one:
        odd = '{"n":1e400,"big":123456789012345678901234567890,"s":"\\u2028"}'
        assert bytes(await one.request("tools/call", params("raw", result=odd))) == odd.encode()
        assert shop.journal.requests("initialize")[0]["params"]["clientInfo"]["name"] == "smcp"


@bounded(LIMIT)
async def test_all_pages_of_a_list_are_returned(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"list_pages": 4})
        instance.start()
        await instance.settled()
        async with caller(shop, instance) as one:
            names = [json.loads(item)["name"] for item in await one.list_all("tools/list")]
            assert len(names) == len(set(names)) == 16
            assert len(shop.journal.requests("tools/list")) == 8, "four of our own at the start, and four now"


@bounded(LIMIT)
async def test_an_error_of_the_server_is_raised_with_its_code(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop, caller(shop, shop.instance()) as one:
        with pytest.raises(CallError, match=r"Unknown tool: nonsense \(error -32602\)") as raised:
            await one.request("tools/call", params("nonsense"))
        assert (raised.value.code, raised.value.exit_status) == ("call-failed", 1)


@bounded(LIMIT)
async def test_a_crash_is_raised_as_such(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop, caller(shop, shop.instance()) as one:
        with pytest.raises(NotRunningError, match="exit 3"):
            await one.request("tools/call", params("crash", code=3))


@bounded(LIMIT)
async def test_a_server_that_gave_up_is_raised_as_such(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance({"exit_before_init": {"code": 2}})
        instance.start()
        await shop.in_state(instance, "FATAL")
        with pytest.raises(FatalServerError, match="not restarted any more"):
            async with caller(shop, instance):
                pytest.fail("there is nothing to call")


@bounded(LIMIT)
async def test_who_gives_up_waiting_cancels_the_call(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop:
        instance = shop.instance()
        gone: list[bool] = []
        with anyio.move_on_after(0.5) as scope:
            async with calling(instance, 1, lambda: gone.append(True)) as one:
                await one.greet()
                await one.request("tools/call", params("slow", seconds=60))
        assert scope.cancelled_caught
        assert gone == [True]
        assert instance.sessions == ()
        await shop.journal.wait(lambda j: j.notes("notifications/cancelled"))
        call = shop.journal.calls("slow")[0]
        assert shop.journal.notes("notifications/cancelled")[0]["params"]["requestId"] == call["id"]


@bounded(LIMIT)
async def test_who_is_sent_away_is_told_why(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop, caller(shop, shop.instance()) as one, anyio.create_task_group() as tasks:

        async def call() -> None:
            with pytest.raises(NotRunningError, match="server 's' was removed"):
                await one.request("tools/call", params("slow", seconds=60))

        tasks.start_soon(call)
        await shop.journal.wait(lambda j: j.calls("slow"))
        one.finish(4, "server 's' was removed")
    with pytest.raises(NotRunningError, match="was removed"):
        await one.request("ping")


@bounded(LIMIT)
async def test_what_is_no_answer_to_a_question_is_let_go(tmp_path: Path) -> None:
    async with workshop(tmp_path) as shop, caller(shop, shop.instance()) as one:
        for line in (b"no JSON\n", b'{"jsonrpc":"2.0","id":99,"result":{}}\n', jsonrpc.notification_line("x")):
            one.send(line, Weight.MUST, ())
        one.opened(b"1")
        one.dropped(b"1")
        one.remember(State())
        one.pause()
        one.resume()
        assert json.loads(bytes(await one.request("tools/call", params("echo", value=1))))["content"]
        one._answers[b"5"] = None
        one.send(b'{"jsonrpc":"2.0","id":5,"error":"nonsense"}\n', Weight.MUST, ())
        answer = one._answers[b"5"]
        assert answer is not None
