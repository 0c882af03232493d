"""Case 6: progress tokens."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import Host

pytestmark = pytest.mark.bwrap
NOTES = 1000


def tokens(host: Host) -> list[tuple[object, int]]:
    """Return token and number of each progress note of a host."""
    return [(frame.params["progressToken"], frame.params["progress"]) for frame in host.notes]


@bounded(60)
async def test_each_host_sees_its_own_notes_in_order_before_the_result() -> None:
    async with daemon(fake("s", invent_token=True)) as d:
        hosts = [await d.connected("s") for _ in range(4)]
        metas: list[dict[str, Any]] = [{"progressToken": 1}, {"progressToken": 1}, {"progressToken": "1"}, {}]
        calls = []
        for host, meta in zip(hosts, metas, strict=True):
            extra = meta | {"traceparent": f"00-{host.name}", "vendor/x": {"a": [1, None]}}
            calls.append(host.answer_of(host.post_call("progress", meta=extra, n=NOTES)))
        answers = await asyncio.gather(*calls)
        for host, meta, answer in zip(hosts, metas, answers, strict=True):
            wanted = [(meta["progressToken"], number) for number in range(NOTES)] if meta else []
            assert tokens(host) == wanted
            assert [type(token) for token, _ in tokens(host)] == [type(token) for token, _ in wanted]
            assert all(note.at <= answer.at for note in host.notes)
            seen = answer.value["meta"]
            assert seen["traceparent"].startswith(f"00-{host.name}")
            assert seen["vendor/x"] == {"a": [1, None]}
            assert ("progressToken" in seen) == bool(meta), "no token upstream where the host gave none"


@bounded(40)
async def test_meta_comes_back_unchanged() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        meta = {"vendor/b": 9007199254740993, "é": "\u2028", "progressToken": "t"}
        params = {"name": "echo", "arguments": {"value": 1, "meta": True}, "_meta": meta}
        answer = await host.request("tools/call", params)
        assert answer.result["_meta"] == {"vendor/b": 9007199254740993, "é": "\u2028"}


@bounded(40)
async def test_no_progress_after_a_cancel() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        meta = {"progressToken": 5}
        host.post_call("slow", id=7, meta=meta, seconds=10)
        await d.journal("s").wait(lambda j: j.calls("slow"))
        host.cancel(7)
        upstream = d.journal("s").calls("slow")[0]["params"]["_meta"]["progressToken"]
        for token in (upstream, 424242, "t"):
            params = json.dumps({"progressToken": token, "progress": 1})
            note = f'{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}\n'
            await host.call("emit", data=note)
        assert host.notes == []
