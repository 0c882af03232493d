"""The switches of the fake server do what they say, seen from a fake host that talks to it directly."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON
from tests.kit.fhost import Host, hello
from tests.kit.journal import Journal
from tests.kit_tests.direct import environment, server


@bounded(10)
async def test_handshake_lists_and_the_simple_methods(tmp_path: Path) -> None:
    async with server(tmp_path, shake=False) as (host, journal):
        answer = await host.handshake("2024-11-05")
        assert answer.result["protocolVersion"] == "2024-11-05"
        assert "completions" not in answer.result["capabilities"]
        tools = (await host.request("tools/list")).result["tools"]
        assert "echo" in [tool["name"] for tool in tools]
        prompt = await host.request("prompts/get", {"name": "p1", "arguments": {"who": "me"}})
        assert prompt.result["messages"][0]["content"]["text"] == "p1 for me"
        completion = {"ref": {"type": "ref/prompt", "name": "p1"}, "argument": {"name": "who", "value": "x"}}
        assert (await host.request("completion/complete", completion)).result["completion"]["values"] == ["x1", "x2"]
        assert (await host.request("no/such")).error == {"code": -32601, "message": "Method not found: no/such"}
        assert (await host.request("ping")).result == {}
        assert [event["event"] for event in journal.events()][:2] == ["started", "in"]
        host.close_stdin()
        assert await host.exit_status() == 0
        assert [event["event"] for event in journal.events()][-2:] == ["eof", "leaving"]


@bounded(10)
async def test_requests_are_served_concurrently_and_cancelled(tmp_path: Path) -> None:
    async with server(tmp_path, answer_after_cancel=True) as (host, _):
        slow = host.post_call("slow", id=7, seconds=5)
        deaf = host.post_call("deaf", id=8, seconds=0.2)
        assert (await host.call("echo", value="é\u2028")).text == "é\u2028"
        for id_ in (7, 8):
            host.notify("notifications/cancelled", {"requestId": id_})
        assert (await host.answer_of(slow)).error == {"code": 0, "message": "Request cancelled"}
        assert (await host.answer_of(deaf)).text == "deaf"


@bounded(10)
async def test_ids_keep_their_type_unless_told(tmp_path: Path) -> None:
    async with server(tmp_path, reverse=50) as (host, _):
        futures = [host.post_call("echo", id=raw, value=raw) for raw in ("1", '"1"', "-5", '""')]
        answers = [await host.answer_of(future) for future in futures]
        assert [answer.id for answer in answers] == ["1", '"1"', "-5", '""']
        assert [frame.id for frame in host.answers[1:]] == ['""', "-5", '"1"', "1"]


@pytest.mark.parametrize(
    ("switch", "strays"),
    [("answer_unknown_id", ["987654321"] * 2), ("answer_null_id", ["null"] * 2), ("duplicate_answer", ["1", "2"])],
)
@bounded(10)
async def test_answers_that_nobody_asked_for(tmp_path: Path, switch: str, strays: list[str]) -> None:
    async with server(tmp_path, **{switch: True}) as (host, _):
        await host.call("echo", id=2, value=1)
        await host.wait(lambda: len(host.answers) == 4)
        ids = [frame.id for frame in host.answers]
        for id_ in ("1", "2"):
            ids.remove(id_)
        assert ids == strays


@bounded(10)
async def test_id_as_string_late_and_serial(tmp_path: Path) -> None:
    async with server(tmp_path, shake=False, id_as_string=True, late=100, serial=True) as (host, _):
        begin = time.monotonic()
        answer = host.expect('"5"')
        host.post("initialize", hello(), id=5)
        assert (await host.answer_of(answer)).result
        assert time.monotonic() - begin > 0.09


@bounded(10)
async def test_strict_init_and_strict_order(tmp_path: Path) -> None:
    async with server(tmp_path, shake=False, strict_order=True, strict_init=True) as (host, _):
        early = (await host.request("tools/list")).error
        assert early is not None
        assert early["data"] == {"method": "tools/list"}
        assert (await host.request("ping")).result == {}
        await host.handshake()
        again = (await host.request("initialize", hello())).error
        assert again is not None
        assert again["code"] == -32600
        assert await host.exit_status() == 1


@bounded(10)
async def test_progress_flood_and_big_lines(tmp_path: Path) -> None:
    async with server(tmp_path, invent_token=True, progress=1) as (host, _):
        await host.answer_of(host.post_call("progress", meta={"progressToken": "t"}, n=100))
        tokens = [(note.params["progressToken"], note.params["progress"]) for note in host.notes]
        assert tokens == [("invented", 1), ("t", 0), *(("t", number) for number in range(100))]
        await host.call("flood", bytes=1 << 20)
        assert len(host.notes_of("notifications/message")) == 128
        for newline in ("same", "later"):
            answer = await host.call("big", bytes=70000, newline=newline, then=True)
            assert len(answer.raw) == 70000
            assert answer.text.startswith("0123456789abcdef0123")
        await host.note("notifications/message", 130)


@bounded(10)
async def test_requests_from_the_server(tmp_path: Path) -> None:
    async with server(tmp_path, fetch_roots=True, copy_trace=True) as (host, journal):
        host.replies["roots/list"] = {"roots": [{"uri": "file:///p"}]}
        host.notify("notifications/roots/list_changed")
        await host.server_request("roots/list", 2)
        ask = host.post_call("ask", kind="elicitation", ask_id="1", meta={"traceparent": "00-ab"})
        request = await host.server_request("elicitation/create")
        assert (request.id, request.params["_meta"]) == ('"1"', {"traceparent": "00-ab"})
        refused = (await host.answer_of(ask)).value
        assert refused["error"]["code"] == -32601
        await journal.wait(lambda j: len(j.answers()) == 3)
        assert (await host.call("where")).value["roots"] == [{"uri": "file:///p"}]
        assert (await host.call("ask", kind="ping", ask_id=1)).value["result"] == {}
        assert (await host.call("ask", kind="ping", later_ms=20)).text == "later"
        await host.server_request("ping", 2)
        host.respond(request, result={})
        await journal.wait(lambda j: j.events("stray"))


@bounded(10)
async def test_subscriptions_levels_pages_and_changes(tmp_path: Path) -> None:
    async with server(tmp_path, list_pages=3) as (host, _):
        await host.call("touch", uri="res://r1")
        assert not host.notes
        await host.request("resources/subscribe", {"uri": "res://r1"})
        await host.call("touch", uri="res://r1", sub="/part")
        assert [note.params for note in host.notes] == [{"uri": "res://r1/part"}]
        read = await host.request("resources/read", {"uri": "res://r1"})
        assert read.result["contents"][0]["text"] == "res://r1 version 2"
        missing = (await host.request("resources/read", {"uri": "res://r9"})).error
        assert missing is not None
        assert missing["code"] == -32002
        await host.request("logging/setLevel", {"level": "error"})
        await host.call("log", level="info")
        await host.call("log", level="info", force=True)
        assert len(host.notes_of("notifications/message")) == 1
        names: list[str] = []
        cursor: dict[str, Any] = {}
        pages = 0
        while pages == 0 or cursor:
            page = (await host.request("tools/list", cursor)).result
            names += [tool["name"] for tool in page["tools"]]
            cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else {}
            pages += 1
        assert (pages, len(names), len(set(names))) == (3, 16, 16)
        wrong = (await host.request("tools/list", {"cursor": "old:1"})).error
        assert wrong is not None
        assert wrong["code"] == -32602
        await host.call("change_tools")
        assert len(host.notes_of("notifications/tools/list_changed")) == 1


@bounded(10)
async def test_tasks(tmp_path: Path) -> None:
    async with server(tmp_path, tasks=True) as (host, _):
        params = {"name": "echo", "arguments": {"value": "done", "delay": 0.1}, "task": {"ttl": 1000}}
        task = (await host.request("tools/call", params)).result["task"]
        assert task["status"] == "working"
        result = (await host.request("tasks/result", {"taskId": task["taskId"]})).result
        assert result["content"][0]["text"] == "done"
        assert (await host.request("tasks/get", {"taskId": task["taskId"]})).result["status"] == "completed"
        slow = {"name": "slow", "arguments": {"seconds": 60}, "task": {}}
        other = (await host.request("tools/call", slow)).result["task"]["taskId"]
        assert (await host.request("tasks/cancel", {"taskId": other})).result["status"] == "cancelled"
        assert len((await host.request("tasks/list")).result["tasks"]) == 2
        assert len(host.notes_of("notifications/tasks/status")) == 2


@bounded(10)
async def test_the_ways_to_leave(tmp_path: Path) -> None:
    async with server(tmp_path) as (host, _):
        host.post_call("crash", code=9, stderr="oh no")
        assert await host.exit_status() == 9
        await host.wait(lambda: host.stderr == b"oh no\n")
    async with server(tmp_path) as (host, _):
        host.post_call("crash", signal=signal.SIGSEGV)
        assert await host.exit_status() == -signal.SIGSEGV
    async with server(tmp_path, shake=False, exit_before_init={"code": 3, "stderr": "x"}) as (host, _):
        assert await host.exit_status() == 3
    async with server(tmp_path, exit_after={"n": 3, "code": 4}) as (host, _):
        host.post_call("echo")
        assert await host.exit_status() == 4
    async with server(tmp_path, exit_after={"ms": 100, "code": 5}) as (host, _):
        assert await host.exit_status() == 5
    async with server(tmp_path, exit_idle=100) as (host, _):
        assert await host.exit_status() == 0
    async with server(tmp_path, shake=False, need_env="NO_SUCH") as (host, _):
        assert await host.exit_status() == 1


@bounded(15)
async def test_eof_and_term_can_be_ignored(tmp_path: Path) -> None:
    async with server(tmp_path, ignore_eof=True, ignore_term=True) as (host, journal):
        host.close_stdin()
        await journal.wait(lambda j: j.events("eof"))
        host.signal(signal.SIGTERM)
        await journal.wait(lambda j: j.events("signal"))
        host.signal(signal.SIGKILL)
        assert await host.exit_status() == -signal.SIGKILL
    async with server(tmp_path, busy_at_eof=200) as (host, _):
        begin = time.monotonic()
        host.close_stdin()
        assert await host.exit_status() == 0
        assert time.monotonic() - begin > 0.19
    async with server(tmp_path, wait_at_eof=True, ignore_eof=False) as (host, journal):
        host.replies["elicitation/create"] = None
        host.post_call("ask", kind="elicitation")
        await host.server_request("elicitation/create")
        host.close_stdin()
        await journal.wait(lambda j: len(j.events("eof")) == 3)
        with pytest.raises(AssertionError, match="waited"):
            await host.exit_status(0.2)
        host.signal(signal.SIGTERM)
        assert await host.exit_status() == -signal.SIGTERM


@pytest.mark.parametrize("kind", ["setsid", "group", "holds_stdout", "reads_stdin"])
@bounded(15)
async def test_children_left_behind(tmp_path: Path, kind: str) -> None:
    mark = f"kit-{os.getpid()}-{kind}"
    told = f'{{"journal":"{tmp_path}/journal","spawn_child":"{kind}","child_ignores_term":true,"ignore_eof":true}}'
    journal = Journal(tmp_path / "journal")
    host = Host([PYTHON, "-I", "-S", str(KIT / "fserver.py")]).start(env=environment(FSRV=told, MCPT_RUN=mark))
    async with host:
        await journal.wait(lambda j: j.events("child"))
        leader = host.pid
        child = next(process for process in probe.find([mark]) if process.pid != leader)
        assert (child.sid == probe.find([mark])[0].sid) == (kind != "setsid")
        assert child.pid in probe.descendants(leader) or kind == "setsid"
        host.signal(signal.SIGKILL)
        await host.exit_status()
        await asyncio.sleep(0.05)
        assert host.eof == (kind != "holds_stdout")
        assert [process.pid for process in probe.find([mark])] == [child.pid]
    probe.kill_all([mark])
    await probe.nothing_left([mark])


@bounded(15)
async def test_fork_on_term_leaves_a_new_process(tmp_path: Path) -> None:
    mark = f"kit-{os.getpid()}-fork"
    told = f'{{"journal":"{tmp_path}/journal","fork_on_term":true}}'
    host = Host([PYTHON, "-I", "-S", str(KIT / "fserver.py")]).start(env=environment(FSRV=told, MCPT_RUN=mark))
    async with host:
        await host.handshake()
        host.signal(signal.SIGTERM)
        assert await host.exit_status() == 143
        assert (await host.call("echo", value="still here")).text == "still here"
    await probe.nothing_left([mark])


@bounded(10)
async def test_stop_self_and_not_reading(tmp_path: Path) -> None:
    async with server(tmp_path, stop_self=0) as (host, _):
        end = time.monotonic() + 5
        while (found := probe.look(host.pid)) and found.state != "T" and time.monotonic() < end:
            await asyncio.sleep(0.01)
        assert found is not None
        assert found.state == "T"
        host.kill()
    async with server(tmp_path, not_reading={"after": 3}) as (host, journal):
        host.post_call("echo", value="p" * 1_000_000)
        await journal.wait(lambda j: j.events("not_reading"))
        host.raw(b"x" * 1_000_000)
        await asyncio.sleep(0.1)
        assert host.unsent > 0
        host.kill()


@pytest.mark.parametrize(
    ("switches", "wanted"),
    [
        ({"crlf": True}, b'"text": "\\u00e9"}]}}\r'),
        ({"raw_unicode": True}, '"text": "é"}]}}'.encode()),
        ({"noise": {"kind": "text", "place": "same_line"}}, b'(this is no JSON){"jsonrpc": "2.0", "id": 2'),
        ({"chunk": 1}, b'{"jsonrpc": "2.0", "id": 2, "result"'),
    ],
)
@bounded(10)
async def test_odd_lines(tmp_path: Path, switches: dict[str, Any], wanted: bytes) -> None:
    async with server(tmp_path, shake=False, **switches) as (host, _):
        host.post("initialize", hello())
        host.notify("notifications/initialized")
        host.post_call("echo", value="é")
        await host.wait(
            lambda: any(wanted in raw for raw in [*host.garbage, *(frame.raw for frame in host.answers)]), repr(wanted)
        )


@bounded(10)
async def test_noise_before_and_bom(tmp_path: Path) -> None:
    async with server(tmp_path, shake=False, noise={"kind": "scalar", "place": "before"}, bom=True) as (host, _):
        host.post("initialize", hello())
        await host.wait(lambda: host.answers)
        assert host.garbage == [b"\xef\xbb\xbf42"]


@bounded(15)
async def test_stderr_and_frames_on_stderr(tmp_path: Path) -> None:
    async with server(tmp_path, stderr={"bytes": 300_000, "cr_only": True}, frames_on_stderr=True) as (host, _):
        await host.call("stderr", bytes=100_000, newline=False)
        await host.wait(lambda: len(host.stderr) > 400_000)
        assert host.stderr[:300_000].count(b"\n") == 0
        assert b'{"jsonrpc": "2.0", "id": 2' in host.stderr


@bounded(10)
async def test_raw_and_emit_write_these_very_bytes(tmp_path: Path) -> None:
    async with server(tmp_path) as (host, _):
        odd = '{"a":1e400,"b":12345678901234567890,"a":2,"c":"\\ud800"}'
        assert (await host.call("raw", result=odd)).parts["result"] == odd
        await host.call("emit", data="\xff no json\n")
        assert host.garbage == [b"\xff no json"]
        answer = await host.call("emit", data='{"jsonrpc":"2.0","id":@ID@,"result":{}}\n', answer=False)
        assert answer.result == {}


@bounded(10)
async def test_switches_per_start_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "switches"
    file.write_text(
        f'{{"starts_file":"{tmp_path}/starts","per_start":[{{"exit_before_init":{{"code":6}}}},{{"tools_extra":2}}]}}'
    )
    argv = [PYTHON, "-I", "-S", str(KIT / "fserver.py"), f"@{file}"]
    async with Host(argv).start(env=environment()) as first:
        assert await first.exit_status() == 6
    for _ in range(2):
        async with Host(argv).start(env=environment()) as later:
            await later.handshake()
            assert len((await later.request("tools/list")).result["tools"]) == 18


@bounded(10)
async def test_locks_ports_memory_threads_and_environment(tmp_path: Path) -> None:
    lock = str(tmp_path / "lock")
    async with server(tmp_path, exclusive_lock=lock, alloc=50, threads=2) as (host, _):
        assert probe.rss(host.pid) > 50 << 20
        assert len(os.listdir(f"/proc/{host.pid}/task")) == 3
        async with server(tmp_path, shake=False, exclusive_lock=lock) as (other, _):
            assert await other.exit_status() == 1
            assert b"holds the lock" in other.stderr
        assert "PATH" in (await host.call("env")).value["env"]
    state = tmp_path / "state"
    async with server(tmp_path, write_state={"path": str(state), "how": "rename"}) as (host, _):
        await host.call("echo")
        assert state.read_text() == "1"


@bounded(10)
async def test_the_first_open_descriptors_are_journalled(tmp_path: Path) -> None:
    async with server(tmp_path) as (_, journal):
        assert journal.events("started")[0]["fds"] == [0, 1, 2]
