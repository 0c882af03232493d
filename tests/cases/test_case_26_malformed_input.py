"""Case 26: malformed input from a host."""

from __future__ import annotations

import asyncio

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake

pytestmark = pytest.mark.bwrap
BAD: dict[str, tuple[bytes, set[str]]] = {
    "bytes FF FE": (b"\xff\xfe", {"null"}),
    "UTF-16": ('{"jsonrpc":"2.0","id":90,"method":"ping"}'.encode("utf-16").replace(b"\n", b""), {"null"}),
    "invalid UTF-8 in a string": (b'{"jsonrpc":"2.0","id":90,"method":"a\xff"}', {"null", "90"}),
    "truncated": (b'{"jsonrpc":"2.0","id":90,"method":"tools/li', {"null", "90"}),
    "an empty array": (b"[]", {"null"}),
    "a batch": (b'[{"jsonrpc":"2.0","id":90,"method":"tools/list"}]', {"null", "90"}),
    "a string": (b'"text"', {"null"}),
    "a number": (b"5", {"null"}),
    "null": (b"null", {"null"}),
    "deep": (b"[" * 100_000, {"null"}),
    "deep in a message": (b'{"jsonrpc":"2.0","id":90,"method":"x","params":' + b"[" * 100_000, {"null", "90"}),
    "a method that is no string": (b'{"jsonrpc":"2.0","id":90,"method":5}', {"null", "90"}),
    "an empty object": (b"{}", {"null"}),
    "a lone surrogate": (b'{"jsonrpc":"2.0","id":90,"method":"tools/list","params":{"x":"\\ud800"}}', {"null", "90"}),
    "a NUL": (b'{"jsonrpc":"2.0","id":90,\x00"method":"ping"}', {"null", "90"}),
    "NaN": (b'{"jsonrpc":"2.0","id":90,"method":"tools/list","params":{"a":NaN}}', {"null", "90"}),
    "wrong version": (b'{"jsonrpc":"1.0","id":90,"method":"tools/list"}', {"null", "90"}),
    "params that are no object": (b'{"jsonrpc":"2.0","id":90,"method":"tools/call","params":5}', {"null", "90"}),
}


@pytest.mark.parametrize("name", BAD)
@bounded(40)
async def test_malformed_lines_cost_one_error_and_reach_nobody(name: str) -> None:
    line, ids = BAD[name]
    async with daemon(fake("s", fragile=True)) as d:
        a, b = await d.connected("s"), await d.connected("s")
        await b.call("echo")
        pid = (await d.instances("s"))[0]["pid"]
        before = len(d.journal("s").events("in"))
        a.raw(line + b"\n")
        await a.wait(lambda: len(a.answers) == 2, "an answer")
        answer = a.answers[-1]
        assert answer.error is not None
        assert answer.error["code"] in ((-32602, -32600) if "params" in name else (-32700, -32600))
        assert answer.id in ids
        assert len(d.journal("s").events("in")) == before, "nothing of it reached the server"
        assert (await b.call("echo", value="b")).text == "b"
        assert (await a.call("echo", value="a")).text == "a"
        assert d.journal("s").events("garbage") == []
        assert (await d.instances("s"))[0]["pid"] == pid


@bounded(40)
async def test_a_bom_and_blanks_are_removed() -> None:
    async with daemon(fake("s", fragile=True)) as d:
        host = d.host("s")
        host.raw(b"\xef\xbb\xbf")
        await host.handshake(timeout=20)
        call = b'{"jsonrpc":"2.0","id":"bom","method":"tools/call","params":{"name":"echo","arguments":{"value":"x"}}}'
        for line in (b"\xef\xbb\xbf" + call, b"  \t" + call + b" \r", b" " * 1_000_000 + call, b"\r\n\n" + call):
            future = host.expect('"bom"')
            host.raw(line + b"\n")
            assert (await host.answer_of(future)).text == "x"
        host.raw(b" " * 10_000_000 + b"\n\n\r\n")
        assert (await host.request("ping")).result == {}
        raw = [event["raw"] for event in d.journal("s").calls()]
        assert len(raw) == 4
        assert all(line.startswith("{") for line in raw)


@bounded(60)
async def test_many_bad_lines_do_not_end_the_session_or_the_daemon() -> None:
    async with daemon(fake("s", fragile=True)) as d:
        a, b = await d.connected("s"), await d.connected("s")
        for line, _ in list(BAD.values()) * 3:
            a.raw(line[:5000] + b"\n")
        await asyncio.gather(*(b.call("echo", value=number) for number in range(20)))
        assert (await a.call("echo", value="a")).text == "a"
        assert len(d.journal("s").runs()) == 1


@bounded(40)
async def test_a_batch_of_the_revision_that_has_them() -> None:
    async with daemon(fake("s", fragile=True)) as d:
        host = await d.connected("s", version="2025-03-26")
        host.raw(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"tools/list"}]\n')
        await host.wait(lambda: host.garbage, "one array with the answers")
        assert host.garbage[0].startswith(b"[")
        assert b'"id":1' in host.garbage[0].replace(b" ", b"")
        assert b'"id":"1"' in host.garbage[0].replace(b" ", b"")
        assert d.journal("s").events("garbage") == []
