"""Case 2: id types, duplicates and odd ids."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit.bounded import bounded
from tests.kit.daemon import daemon, fake
from tests.kit.fhost import hello
from tests.kit.rawjson import members

pytestmark = pytest.mark.bwrap
ODD = ["1", '"1"', "1.0", "0", "-5", '""', '"é\u2028"', '"\\u00e9"', "9007199254740993", f'"{"x" * 300}"', '"0"']


@bounded(40)
async def test_each_answer_carries_the_very_id_text_of_its_request() -> None:
    async with daemon(fake("s", reverse=150)) as d:
        host = await d.connected("s")
        futures = {raw: host.post_call("echo", id=raw, value=raw) for raw in ODD}
        for raw, future in futures.items():
            answer = await host.answer_of(future, f"the answer to {raw}")
            assert (answer.id, answer.text) == (raw, raw)
        assert sorted(str(frame.id) for frame in host.answers) == sorted([*ODD, '"hello"'])


@bounded(40)
async def test_duplicates_null_and_objects_are_refused() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        first = host.post_call("echo", id=1, value="first", delay=0.5)
        host.send(
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"value":"second"}}}'
        )
        host.send('{"jsonrpc":"2.0","id":null,"method":"tools/list"}')
        host.send('{"jsonrpc":"2.0","id":{"a":1},"method":"tools/list"}')
        host.send('{"jsonrpc":"2.0","id":4.5,"method":"tools/list"}')
        assert (await host.answer_of(first)).text == "first"
        await host.wait(lambda: len(host.answers) == 6, "an answer to each")
        refused = [frame for frame in host.answers if frame.error is not None]
        assert [frame.error["code"] for frame in refused if frame.error] == [-32600] * 4
        assert len(host.answers_to("1")) == 1, "id 1 is answered once"
        assert len(host.answers_to("null")) >= 1
        assert [event["params"]["arguments"]["value"] for event in d.journal("s").calls()] == ["first"]


@pytest.mark.parametrize(
    ("switch", "kind"),
    [("answer_unknown_id", "unknown"), ("answer_null_id", "unknown"), ("duplicate_answer", "late")],
)
@bounded(40)
async def test_answers_that_belong_to_nobody_are_dropped_and_counted(switch: str, kind: str) -> None:
    switches: dict[str, Any] = {switch: True}
    async with daemon(fake("s", **switches)) as d:
        hosts = [await d.connected("s"), await d.connected("s")]
        for host in hosts:
            for number in range(5):
                said = f"{host.name}/{number}"
                assert (await host.call("echo", id=number, value=said)).text == said
        for host in hosts:
            assert (await host.request("ping")).result == {}
            assert [frame.id for frame in host.answers] == ['"hello"', "0", "1", "2", "3", "4", "1"], host.show()
        (instance,) = await d.instances("s")
        assert set(instance["dropped"]) == {kind}
        assert instance["dropped"][kind] >= 10, "one beside each answer"


@bounded(40)
async def test_a_server_that_answers_numbers_as_text_is_understood_or_refused_but_never_hangs() -> None:
    async with daemon(fake("s", id_as_string=True, entry={"start_timeout": "2s", "budget": {"restarts": 0}})) as d:
        host = d.host("s")
        host.post("initialize", hello(), id=0)
        await host.wait(lambda: host.answers, "any answer to initialize", 15)
        assert host.answers[0].id == "0"


#: Values that a parser and an encoder would change.
BODIES = [
    '{"big":12345678901234567890123,"huge":1e400,"tiny":1.0,"neg":-0}',
    '{"twice":1,"twice":2}',
    '{"escapes":"\\u00e9\\/\\u2028","raw":"é\u2028","pair":"\\ud83d\\ude00"}',
    '{ "blanks" : [ 1 , 2 ] }',
]


@bounded(40)
async def test_bodies_pass_in_their_own_bytes() -> None:
    async with daemon(fake("s")) as d:
        host = await d.connected("s")
        for number, body in enumerate(BODIES):
            assert (await host.call("raw", result=body)).parts["result"] == body
            params = f'{{"name":"echo","arguments":{{"value":1}},"extra":{body}}}'
            answer = host.expect(f'"p{number}"')
            host.send(f'{{"jsonrpc":"2.0","id":"p{number}","method":"tools/call","params":{params}}}')
            assert (await host.answer_of(answer)).text == "1"
            arrived = d.journal("s").calls("echo")[-1]["raw"].encode("latin-1").decode()
            assert members(arrived)["params"] == params
