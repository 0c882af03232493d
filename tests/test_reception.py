"""Shims that come, wait, come back and go, at real instances and on real pipes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp import admission, session
from supervisord_mcp import reception as module
from supervisord_mcp.caller import calling
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import NotRunningError
from supervisord_mcp.facts import Facts
from supervisord_mcp.journal import Journal, leftovers
from supervisord_mcp.protocol import anteroom
from supervisord_mcp.reception import Reception
from tests.kit.bounded import bounded
from tests.kit.estate import PipeGuest, estate
from tests.kit.fhost import hello
from tests.kit.workshop import text

LIMIT = 40
PROJECT = {"entry": {"scope": "project"}}
MIB = 1 << 20


def roots(*paths: Path | str) -> dict[str, Any]:
    return {"roots": [{"uri": path if isinstance(path, str) else path.as_uri()} for path in paths]}


async def asked(guest: PipeGuest) -> dict[str, Any]:
    """Return the question for the roots, once it came."""
    return (await guest.note("roots/list"))[-1]


async def name_roots(guest: PipeGuest, *paths: Path | str) -> None:
    question = await asked(guest)
    guest.raw({"jsonrpc": "2.0", "id": question["id"], "result": roots(*paths)})


# Coming and going


@pytest.mark.parametrize("scope", ["session", "global"])
@bounded(LIMIT)
async def test_who_comes_after_a_session_that_was_promised_too_much_is_told_the_truth(
    scope: str, tmp_path: Path
) -> None:
    less: dict[str, Any] = {"capabilities": {"tools": {}}}
    server = {"entry": {"scope": scope}, "starts_file": str(tmp_path / "starts"), "per_start": [{}, less]}
    async with estate(tmp_path, {"s": server}) as one:
        first = await one.greeted("s")
        assert (await first.ask("prompts/list"))["result"]["prompts"]
        await one.until(lambda: one.supervisor.catalogue_of("s"))
        first.close_stdin()
        await first.over()
        for instance in one.instances("s"):
            instance.restart()
        second = await one.greeted("s")
        # Where its child is its alone, that ends with it, and has no time to tell what it offers.
        await second.ask("tools/call", {"name": "echo"})
        if scope == "session":
            assert "does not offer" in await second.over()
        third = await one.greeted("s")
        assert text(await third.call("echo", value="x")) == "x"
        known = one.supervisor.catalogue_of("s")
        assert known is not None
        assert known.capabilities == {"tools": {}}


@bounded(LIMIT)
async def test_a_host_is_served_and_leaves_orderly(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s", project="/p", pid=1)
        assert len(guest.token) > 20
        assert len(leftovers(one.paths.sessions_dir)) == 1
        assert text(await guest.call("echo", value="x")) == "x"
        assert one.reception.sessions == 1
        guest.close_stdin()
        assert await guest.over() == "0"
        assert one.reception.sessions == 0
        assert leftovers(one.paths.sessions_dir) == frozenset()
        (opened,), (closed,) = one.events("session-opened"), one.events("session-closed")
        assert opened.data == {"session": 1, "pid": os.getpid(), "project": "/p", "resumed": False}
        assert closed.data == {"session": 1, "reason": "ended"}


@pytest.mark.parametrize(
    ("server", "word"),
    [
        ("nonsense", "no 4 no server 'nonsense' in the configuration (known: bad, s)"),
        ("bad", "servers.bad.env.X: ${NOT_SET_ANYWHERE} is not set"),
    ],
)
@bounded(LIMIT)
async def test_who_cannot_be_served_is_told_why(server: str, word: str, tmp_path: Path) -> None:
    servers = {"s": {}, "bad": {"entry": {"env": {"X": "${NOT_SET_ANYWHERE}"}}}}
    async with estate(tmp_path, servers) as one:
        guest = one.guest(server)
        said = await guest.over()
        assert said.startswith("no ")
        assert word in said
        assert one.reception.sessions == 0
        assert leftovers(one.paths.sessions_dir) == frozenset()


@bounded(LIMIT)
async def test_a_shim_that_is_gone_before_it_is_accepted(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        for server in ("s", "nonsense"):
            guest = PipeGuest(server)
            one.guests.append(guest)
            guest.kill_shim()
            one.reception.receive(guest.greeting)
        await one.until(lambda: one.events("session-closed"))
        assert one.reception.sessions == 0
        assert one.instances("s") == []


@bounded(LIMIT)
async def test_a_shim_that_is_killed_frees_what_its_session_held(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest, other = await one.greeted("s"), await one.greeted("s")
        guest.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        guest.kill_shim()
        await one.journal("s").wait(lambda j: j.notes("notifications/cancelled"))
        assert one.reception.sessions == 1
        assert text(await other.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_everybody_is_sent_home_at_the_end(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guests = [await one.greeted("s") for _ in range(3)]
        one.reception.close_all()
        assert [await guest.over() for guest in guests] == ["0", "0", "0"]
        assert one.reception.sessions == 0


@bounded(LIMIT)
async def test_a_session_that_cannot_be_written_down_works_all_the_same(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        one.paths.sessions_dir.rmdir()
        one.paths.sessions_dir.write_text("in the way")
        guest = await one.greeted("s")
        assert text(await guest.call("echo", value="x")) == "x"
        one.paths.sessions_dir.unlink()
        one.paths.sessions_dir.mkdir()


# The project is asked for


@bounded(LIMIT)
async def test_a_host_is_asked_for_its_roots(tmp_path: Path) -> None:
    a = tmp_path / "a"
    a.mkdir()
    async with estate(tmp_path / "home", {"s": PROJECT}) as one:
        guest = one.guest("s")
        answer = await guest.greet(roots={})
        assert answer["result"]["protocolVersion"] == "2025-11-25"
        calls = [guest.post_call("echo", value=number) for number in range(3)]
        assert one.journal("s").runs() == []
        await name_roots(guest, "https://example.org/x", a, tmp_path)
        assert [text(await guest.answer(call)) for call in calls] == ["0", "1", "2"]
        assert one.instance("s").key.project == str(a)
        assert one.reception._sessions[1].facts.project == str(a)
        assert text(await guest.call("echo", value="later")) == "later"
        assert [call["params"]["arguments"]["value"] for call in one.journal("s").calls()][:3] == [0, 1, 2]


@bounded(LIMIT)
async def test_a_root_and_a_project_that_are_the_same_share(tmp_path: Path) -> None:
    a, link = tmp_path / "a", tmp_path / "link"
    a.mkdir()
    link.symlink_to(a)
    async with estate(tmp_path / "home", {"s": PROJECT}) as one:
        first, second = one.guest("s"), await one.greeted("s", project=str(a))
        await first.greet(roots={})
        await name_roots(first, link)
        for guest in (first, second):
            await guest.call("echo")
        assert len(one.instances("s")) == 1


@bounded(LIMIT)
async def test_two_roots_are_two_children(tmp_path: Path) -> None:
    async with estate(tmp_path / "home", {"s": PROJECT}) as one:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
            guest = one.guest("s")
            await guest.greet(roots={})
            await name_roots(guest, tmp_path / name)
            await guest.call("echo")
        assert len(one.journal("s").runs()) == 2


@bounded(LIMIT)
async def test_a_host_without_roots_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        error = (await guest.ask("initialize", hello()))["error"]
        assert "write --project DIRECTORY after 'smcp connect s'" in error["message"]
        assert (await guest.over()).startswith("1 server 's' works on a project")
        assert one.reception.sessions == 0


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ((), "project of this session is not known"),
        (("https://example.org/x",), "project of this session is not known"),
        (("file:///no/such/directory",), "The host works on /no/such/directory: HOME, / and what is no directory"),
        (("file:///", "file:///etc/passwd"), "The host works on /, /etc/passwd: HOME, / and what is no directory"),
    ],
)
@bounded(LIMIT)
async def test_roots_that_are_no_directory_are_refused(named: tuple[str, ...], said: str, tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        held = guest.post_call("echo")
        await name_roots(guest, *named)
        message = (await guest.answer(held))["error"]["message"]
        assert said in message
        assert "write --project DIRECTORY" in message
        assert said in await guest.over()
        assert one.journal("s").runs() == []


@bounded(LIMIT)
async def test_home_is_no_project_and_what_comes_after_it_is(tmp_path: Path) -> None:
    home, work = tmp_path / "me", tmp_path / "me" / "work"
    work.mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s", environ={"HOME": str(home)})
        await guest.greet(roots={})
        held = guest.post_call("echo")
        await name_roots(guest, tmp_path / "link")
        assert f"The host works on {tmp_path}/link: HOME, / and what" in (await guest.answer(held))["error"]["message"]
        await guest.over()
        assert one.journal("s").runs() == []
        other = one.guest("s", environ={"HOME": str(home)})
        await other.greet(roots={})
        await name_roots(other, home, tmp_path / "none", work)
        assert text(await other.call("echo", value="x")) == "x"
        assert [instance.key.project for instance in one.instances("s")] == [str(work)]


@bounded(LIMIT)
async def test_a_host_that_does_not_name_its_roots_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "ROOTS_PATIENCE", 0.1)
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        held = guest.post_call("echo")
        assert "not known" in (await guest.answer(held))["error"]["message"]
        assert "not known" in await guest.over()


@bounded(LIMIT)
@pytest.mark.parametrize("stays", [True, False])
async def test_a_host_that_needs_no_project_is_served_without_roots_if_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    monkeypatch.setattr(admission, "ROOTS_PATIENCE", 0.2)
    async with estate(tmp_path, {"s": {"entry": {"callbacks": "on"}}}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        if stays:
            assert text(await guest.call("echo", value="x")) == "x"
            return
        guest.close_stdin()
        await guest.over()
        await anyio.sleep(0.4)
        assert one.reception._where == {}


@bounded(LIMIT)
async def test_a_host_that_named_its_roots_in_time_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "ROOTS_PATIENCE", 0.2)
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        await name_roots(guest, tmp_path)
        assert text(await guest.call("slow", seconds=0.4)) == "slow"


@bounded(LIMIT)
async def test_a_host_that_says_too_much_while_it_waits_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(anteroom, "MAX_HELD", 1000)
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        held = guest.post_call("echo", value="x" * 2000)
        assert "error" in await guest.answer(held)
        await guest.over()
        assert one.reception.sessions == 0


@bounded(LIMIT)
async def test_a_host_may_leave_while_it_is_asked(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        await asked(guest)
        guest.close_stdin()
        assert await guest.over() == "0"
        assert one.instances("s") == []


@bounded(LIMIT)
async def test_a_host_may_answer_and_leave_at_once(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        await name_roots(guest, tmp_path)
        guest.close_stdin()
        guest.close_stdout()
        await guest.over()
        assert one.reception.sessions == 0
        assert all(instance.sessions == () for instance in one.instances("s"))


# Coming back after the death of the daemon


@bounded(LIMIT)
async def test_a_session_goes_on_after_the_death_of_the_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s", project="/p")
        await guest.ask("resources/subscribe", {"uri": "res://r1"})
        await guest.ask("logging/setLevel", {"level": "debug"})
        slow = guest.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        one.die()
    async with estate(tmp_path, {"s": {}}) as two:
        two.back(guest, project=None)
        error = (await guest.answer(slow))["error"]
        assert error["data"] == {"reason": "daemon_restarted"}
        assert text(await guest.call("echo", value="goes on")) == "goes on"
        run = two.journal("s").runs()[1]
        assert [e["params"] for e in two.journal("s").requests("resources/subscribe", run)] == [{"uri": "res://r1"}]
        assert [e["params"] for e in two.journal("s").requests("logging/setLevel", run)] == [{"level": "debug"}]
        assert len(two.journal("s").calls("slow")) == 1, "nothing is executed twice"
        assert len(guest.answers(slow)) == 1
        await guest.call("touch", uri="res://r1")
        assert guest.notes("notifications/resources/updated")
        assert two.events("session-opened")[0].data["resumed"]
        assert two.reception._sessions[1].facts.project == "/p"


@bounded(LIMIT)
async def test_a_listen_of_a_modern_host_goes_on_after_the_death_of_the_daemon(tmp_path: Path) -> None:
    prefix = "io.modelcontextprotocol/"
    meta: dict[str, object] = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    async with estate(tmp_path, {"s": {}}) as one:
        guest = one.guest("s")
        wanted = {"resourceSubscriptions": ["res://r1"]}
        listen = guest.post("subscriptions/listen", {"notifications": wanted, "_meta": meta})
        await guest.note("notifications/subscriptions/acknowledged")
        slow = guest.post("tools/call", {"name": "slow", "arguments": {"seconds": 60}, "_meta": meta})
        await one.journal("s").wait(lambda j: j.calls("slow"))
        one.die()
    async with estate(tmp_path, {"s": {}}) as two:
        two.back(guest)
        assert (await guest.answer(slow))["error"]["data"] == {"reason": "daemon_restarted"}
        missed = (await guest.note("notifications/resources/updated"))[0]
        assert missed["params"] == {"uri": "res://r1", "_meta": {f"{prefix}subscriptionId": listen}}
        touch = {"name": "touch", "arguments": {"uri": "res://r1"}, "_meta": meta}
        assert "result" in await guest.ask("tools/call", touch)
        await guest.note("notifications/resources/updated", 2)
        assert guest.answers(listen) == []
        assert len(guest.notes("notifications/subscriptions/acknowledged")) == 1
        guest.say("notifications/cancelled", {"requestId": listen})
        run = two.journal("s").runs()[1]
        await two.journal("s").wait(lambda j: j.requests("resources/unsubscribe", run))
        assert two.reception._sessions[1].principal == f"uid {os.getuid()}"


@bounded(LIMIT)
async def test_it_survives_more_than_one_death(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        one.die()
    for _ in range(3):
        async with estate(tmp_path, {"s": {}}) as again:
            again.back(guest)
            assert text(await guest.call("echo", value="x")) == "x"
            again.die()
    async with estate(tmp_path, {"s": {}}) as last:
        last.back(guest)
        assert text(await guest.call("echo", value="y")) == "y"
        assert len(last.journal("s").runs()) == 5


@bounded(LIMIT)
async def test_a_host_that_waited_for_its_project_is_asked_again(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        await asked(guest)
        held = guest.post_call("echo")
        while not one.reception._sessions[1]._journal._slots:
            await anyio.lowlevel.checkpoint()
        one.die()
    async with estate(tmp_path, {"s": PROJECT}) as two:
        two.back(guest)
        assert (await guest.answer(held))["error"]["data"] == {"reason": "daemon_restarted"}
        await guest.note("roots/list", 2)
        await name_roots(guest, tmp_path)
        assert text(await guest.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_a_project_that_was_asked_for_is_remembered(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": PROJECT}) as one:
        guest = one.guest("s")
        await guest.greet(roots={})
        await name_roots(guest, tmp_path)
        await guest.call("echo")
        one.die()
    async with estate(tmp_path, {"s": PROJECT}) as two:
        two.back(guest)
        assert text(await guest.call("echo", value="x")) == "x"
        assert len(guest.notes("roots/list")) == 1
        assert two.instance("s").key.project == str(tmp_path)


@bounded(LIMIT)
async def test_an_unfinished_handshake_is_answered_by_the_next_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"init_delay": 60_000}}) as one:
        guest = one.guest("s")
        greeting = guest.post("initialize", hello())
        await one.journal("s").wait(lambda j: j.requests("initialize"))
        one.die()
    async with estate(tmp_path, {"s": {}}) as two:
        two.back(guest)
        assert (await guest.answer(greeting))["result"]["protocolVersion"] == "2025-11-25"
        guest.say("notifications/initialized")
        assert text(await guest.call("echo", value="x")) == "x"


@pytest.mark.parametrize("fault", ["unknown token", "record is gone", "record is cut", "state is damaged"])
@bounded(LIMIT)
async def test_a_session_that_was_not_kept_is_refused(fault: str, tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        one.die()
    async with estate(tmp_path, {"s": {}}) as two:
        changes: dict[str, Any] = {}
        for file in list(two.paths.sessions_dir.iterdir()):
            match fault, file.suffix:
                case ("unknown token", _):
                    changes = {"resume": "x" * 32}
                case ("record is gone", _):
                    file.unlink()
                case ("record is cut", ".map"):
                    os.truncate(file, 1000)
                case ("state is damaged", ".json"):
                    file.write_text('{"state":{"version":5}}')
        two.back(guest, **changes)
        assert (await guest.over()).startswith("no 1 the session was not kept over the restart of the daemon")
        assert two.reception.sessions == 0
        two.reception._forget_missing()


@bounded(LIMIT)
async def test_a_session_whose_state_is_no_json_is_refused(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        one.die()
    async with estate(tmp_path, {"s": {}}) as two:
        for file in two.paths.sessions_dir.glob("*.json"):
            file.write_text("{")
        two.back(guest)
        assert "was not kept" in await guest.over()
        two.reception._forget_missing()


@bounded(LIMIT)
async def test_a_session_in_use_cannot_be_taken_over(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        other = PipeGuest("s", resume=guest.token)
        one.guests.append(other)
        one.reception.receive(other.greeting)
        assert "was not kept" in await other.over()
        assert text(await guest.call("echo", value="x")) == "x"


@pytest.mark.parametrize(
    ("servers", "word"),
    [
        ({"t": {}}, "no 4 no server 's'"),
        ({"s": {"entry": {"env": {"X": "${NOT_SET_ANYWHERE}"}}}}, "2 "),
    ],
)
@bounded(LIMIT)
async def test_a_server_that_is_no_longer_there_ends_the_session(
    servers: dict[str, Any], word: str, tmp_path: Path
) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        one.die()
    async with estate(tmp_path, servers) as two:
        two.back(guest)
        assert (await guest.over()).startswith(word)
        assert two.reception.sessions == 0


@bounded(LIMIT)
async def test_a_host_that_left_while_there_was_no_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        guest.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: j.calls("slow"))
        one.die()
    guest.close_stdout()
    async with estate(tmp_path, {"s": {}}) as two:
        os.close(guest._kept[1])
        two.guests.append(guest)
        guest._kept = (guest._kept[0], os.open("/dev/null", os.O_WRONLY))
        read_end, stdout = os.pipe()
        os.close(read_end)
        os.dup2(stdout, guest._kept[1])
        os.close(stdout)
        two.back(guest)
        await guest.over()
        assert two.reception.sessions == 0
        assert two.instances("s") == []


@bounded(LIMIT)
async def test_records_that_nobody_comes_back_for_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        first, second = await one.greeted("s"), await one.greeted("s")
        one.die()
    second.close()
    monkeypatch.setattr(module, "RETURN_PATIENCE", 1.5)
    async with estate(tmp_path, {"s": {}}) as two:
        two.back(first)
        new = await two.greeted("s")
        assert len(leftovers(two.paths.sessions_dir)) == 3
        while len(leftovers(two.paths.sessions_dir)) > 2:
            await anyio.sleep(0.02)
        for guest in (first, new):
            assert text(await guest.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_what_the_host_said_and_nobody_heard_is_answered_or_goes_on(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest = await one.greeted("s")
        await guest.call("echo")
        one.die()
    call = {"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "echo", "arguments": {"value": 7}}}
    # Written while there is no daemon: it waits in the pipe, nobody lost it.
    guest.raw(call)
    async with estate(tmp_path, {"s": {}}) as two:
        two.back(guest)
        assert text(await guest.answer(77)) == "7"


# Moving


@bounded(LIMIT)
async def test_a_host_that_was_slowed_goes_on_where_it_is_moved_to(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {"init_delay": 60_000}}) as one:
        guest = one.guest("s")
        guest.post("initialize", hello())
        await one.until(lambda: [each.state for each in one.instances("s")] == ["STARTING"])
        data = b"".join(
            b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"value":"%b"}}}\n'
            % (number, b"x" * 60_000)
            for number in range(100, 140)
        )
        os.set_blocking(guest._write_end, False)
        while data:
            try:
                data = data[os.write(guest._write_end, data) :]
            except BlockingIOError:
                if one.reception._sessions[1]._paused:
                    break
                await anyio.sleep(0.005)
        assert one.reception._sessions[1]._paused
        one.reconfigure({"s": {}})
        while data:
            await anyio.wait_writable(guest._write_end)
            data = data[os.write(guest._write_end, data) :]
        os.set_blocking(guest._write_end, True)
        assert (await guest.answer(139))["error"]["message"] == "initialize comes first"


@bounded(LIMIT)
async def test_a_caller_is_told_that_its_server_changed(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        supervisor = one.supervisor
        facts = Facts("s")
        for change in ({"s": {"tools_extra": 1}}, {}):
            instance = supervisor.house(supervisor.plan(facts), facts, key := supervisor.next_key())
            async with calling(instance, key, lambda instance=instance: supervisor.released(instance)) as caller:  # type: ignore[misc]
                await caller.greet()
                one.reconfigure(change)
                with pytest.raises(NotRunningError, match="in the configuration"):
                    await caller.request("tools/list")


@bounded(LIMIT)
async def test_a_host_that_leaves_while_it_is_moved(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": {}}) as one:
        guest, other = await one.greeted("s"), await one.greeted("s")
        for each in (guest, other):
            each.post_call("slow", seconds=60)
        await one.journal("s").wait(lambda j: len(j.calls("slow")) == 2)
        guest.close_stdout()
        os.close(guest._kept[1])
        one.reconfigure({"s": {"tools_extra": 1}})
        await guest.over()
        assert text(await other.call("echo", value="x")) == "x"
        assert one.reception.sessions == 1
        guest._kept = (guest._kept[0], -1)


@bounded(LIMIT)
async def test_a_host_that_does_not_read_is_let_go_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "HOST_PATIENCE", 0.2)
    async with estate(tmp_path, {"s": {}}, {"client_buffer": "64K"}) as one:
        guest, other = await one.greeted("s"), await one.greeted("s")
        guest.stop_reading()
        guest.post_call("big", bytes=400_000)
        await one.journal("s").wait(lambda j: j.calls("big"))
        while not guest.ended:
            guest.post("ping")
            await anyio.sleep(0.02)
        assert guest.word.startswith("1 the host does not read")
        assert text(await other.call("echo", value="x")) == "x"


@bounded(LIMIT)
async def test_what_is_left_of_the_daemon_before_is_known(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    journal = Journal.create(theirs, "token")
    async with estate(tmp_path / "home") as one:
        reception = Reception(one.supervisor, theirs, one.observers)
        assert reception._missing == {journal.name}
        reception._missing.clear()
    journal.remove()


@bounded(LIMIT)
async def test_a_shim_that_is_refused_and_gone() -> None:
    guest = PipeGuest("s")
    guest.kill_shim()
    module.refuse(guest.greeting, 1, "no such command: /odd\udcff")
    assert guest.greeting.connection.fileno() == -1
    for descriptor in guest.greeting.fds:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
    guest.close()


@bounded(LIMIT)
async def test_how_a_host_names_itself_is_told_in_short_and_in_one_line(tmp_path: Path) -> None:
    masker.learn("s3cret-name-of-it", "vault:x")
    try:
        async with estate(tmp_path, {"s": {}}) as one:
            guest = one.guest("s")
            said = {"name": "s3cret-name-of-it\nRUNNING -> FATAL" + "x" * 10_000, "version": "1\n"}
            asked = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": said}
            await guest.ask("initialize", asked)
            [told] = [event.data for event in one.observers.recent if event.kind == "session-greeted"]
            assert told["host"].startswith("***\ufffdRUNNING -> FATALxxx")
            assert len(told["host"]) == 64
            assert told["version"] == "1\ufffd"
    finally:
        masker.clear()
