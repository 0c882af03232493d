"""What top shows and what its keys do, without a terminal."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from supervisord_mcp.cli.topview import View, Wish
from supervisord_mcp.protocol.usage import InstanceUsage, ServerUsage, UsageResult
from tests.cli.figures import AT, BUSY, GIT, IDLE, MIB, RESULT

MANY = msgspec.structs.replace(
    RESULT, servers=tuple(msgspec.structs.replace(GIT, name=f"server-{number:02}") for number in range(40))
)


def shown(view: View, result: UsageResult = RESULT, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in view.lines(result, width, height)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (200, 60), (20, 5), (100, 3)])
@pytest.mark.parametrize("result", [RESULT, MANY, UsageResult(at=AT)], ids=["two", "many", "none"])
def test_the_screen_is_filled_and_never_overfilled(result: UsageResult, width: int, height: int) -> None:
    view = View()
    for key in ("down", "enter", "down", "x"):
        view.press(key, result)
        lines = shown(view, result, width, height)
        assert len(lines) == height
        assert all(cell_len(line) <= width for line in lines), lines
    view.asking, view.log = None, [f"line {number} \x1b[31m" + "x" * 300 for number in range(100)]
    lines = shown(view, result, width, height)
    assert len(lines) == height
    assert all(cell_len(line) <= width and "\x1b" not in line for line in lines)


def test_a_server_has_a_line_with_its_figures() -> None:
    lines = shown(View())
    assert lines[0].startswith("smcp top  daemon 0.2% 38M   1 of 2 servers run   sharing saves 160M, 4 processes")
    assert lines[1].split() == ["SERVER", "STATE", "CPU", "MEM", "PROC", "SESS", "CALLS", "ERR", "P95", "CPU"]
    words = lines[2].split()
    assert words[:9] == ["+git", "RUNNING", "42.5%", "91M", "2", "3", "120", "3", "20ms"]
    assert set(words[-1]) <= set("▁▂▃▄▅▆▇█")
    assert lines[3].split() == ["+idle", "STOPPED", "-", "-", "-", "0", "0", "0", "-"]
    assert "sort: cpu" in lines[-1]


def test_the_memory_that_sharing_saves_is_told_in_80_columns() -> None:
    busy = msgspec.structs.replace(
        RESULT,
        daemon=msgspec.structs.replace(RESULT.daemon, load=1.0),
        servers=tuple(msgspec.structs.replace(GIT, name=f"server-{number}") for number in range(12)),
        saved=msgspec.structs.replace(RESULT.saved, processes=1234),
    )
    assert shown(View(), busy)[0].endswith("12 of 12 servers run   sharing saves 160M")


def test_a_wide_screen_has_two_curves() -> None:
    lines = shown(View(), width=140)
    assert lines[1].split()[-2:] == ["CPU", "MEM"]
    assert sum(sign in "▁▂▃▄▅▆▇█" for sign in lines[2]) > 40


def test_enter_shows_the_processes() -> None:
    view = View()
    view.took(RESULT)
    view.press("enter", RESULT)
    later = msgspec.structs.replace(NODE_LATER, at=AT + 2.0)
    view.took(later)
    lines = shown(view, later)
    assert lines[2].startswith("-git")
    assert "   last error: killed by SIGKILL (memory limit 512M)" in lines[3]
    assert lines[4] == "   limits exceeded: memory 2 times"
    assert lines[5] == "   saved by sharing: 4 processes, 160M"
    assert lines[6].split()[:4] == ["12", "threads,", "33", "files,"]
    # A second of a processor within two is a half of one.
    assert lines[7].split() == ["4242", "50.0%", "90M", "11", "thr", "30", "files", "node"]
    view.press(" ", RESULT)
    assert "4242" not in "".join(shown(view))
    view.press("right", RESULT)
    assert "4242" in "".join(shown(view))
    view.press("left", RESULT)
    assert "4242" not in "".join(shown(view))


PROCESSES = (msgspec.structs.replace(BUSY.processes[0], cpu=13.5), BUSY.processes[1])
LATER = msgspec.structs.replace(BUSY, processes=PROCESSES)
INSTANCE = InstanceUsage(key="git/abc", state="RUNNING", pid=4242, sessions=3, figures=LATER)
NODE_LATER = msgspec.structs.replace(
    RESULT, servers=(msgspec.structs.replace(GIT, figures=LATER, instances=(INSTANCE,)), IDLE)
)


def test_a_process_is_one_line_whatever_it_calls_itself() -> None:
    named = msgspec.structs.replace(BUSY.processes[0], name="a\nb")
    figures = msgspec.structs.replace(RESULT.servers[0].figures, processes=(named,))
    instance = msgspec.structs.replace(RESULT.servers[0].instances[0], figures=figures)
    one = msgspec.structs.replace(RESULT.servers[0], instances=(instance,))
    lines = shown(View(expanded={one.name}), msgspec.structs.replace(RESULT, servers=(one,)))
    assert not any("\n" in line for line in lines)
    assert any(line.endswith("a b") for line in lines)


def test_servers_with_several_instances_name_them() -> None:
    two = (INSTANCE, InstanceUsage(key="git/def", state="STOPPED"))
    result = msgspec.structs.replace(RESULT, servers=(msgspec.structs.replace(GIT, instances=two),))
    view = View(expanded={"git"})
    assert {"   git/abc RUNNING", "   git/def STOPPED"} <= set(shown(view, result))


def server(name: str, load: float, memory: int, calls: int) -> ServerUsage:
    figures = msgspec.structs.replace(BUSY, load=load, memory=memory)
    total = msgspec.structs.replace(GIT.total, calls=calls)
    return msgspec.structs.replace(GIT, name=name, figures=figures, total=total)


THREE = msgspec.structs.replace(
    RESULT, servers=(server("a", 0.1, 3 * MIB, 2), server("b", 0.3, MIB, 1), server("c", 0.2, 2 * MIB, 3))
)


@pytest.mark.parametrize(
    ("keys", "order"),
    [
        ("", "bca"),
        ("s", "acb"),
        ("ss", "cab"),
        ("sss", "abc"),
        ("ssss", "bca"),
        ("M", "acb"),
        ("A", "cab"),
        ("N", "abc"),
    ],
)
def test_sorting(keys: str, order: str) -> None:
    view = View()
    for key in keys:
        view.press(key, THREE)
    assert "".join(server.name for server in view.order(THREE)) == order
    view.press("C", THREE)
    assert view.sort == "cpu"


@pytest.mark.parametrize(
    ("keys", "selected"),
    [
        (["down"], "c"),
        (["down", "down", "down"], "a"),
        (["j", "k"], "b"),
        (["up"], "b"),
        (["end"], "a"),
        (["G", "g"], "b"),
        (["?"], "b"),
    ],
)
def test_moving(keys: list[str], selected: str) -> None:
    view = View()
    for key in keys:
        view.press(key, THREE)
    assert view.selected == selected


def test_what_is_selected_is_marked_and_stays_on_the_screen() -> None:
    view = View(sort="name")
    lines = view.lines(MANY, 80, 24)
    assert [line.plain[:12] for line in lines if "reverse" in {str(span.style) for span in line.spans}] == [
        "+server-00  "
    ]
    assert "more lines below" in lines[-2].plain
    view.press("end", MANY)
    assert any(line.startswith("+server-39") for line in shown(view, MANY))
    view.press("enter", MANY)
    assert any("4242" in line for line in shown(view, MANY))


@pytest.mark.parametrize(("key", "verb"), [("r", "restart"), ("x", "stop")])
def test_what_cannot_be_undone_is_asked_for(key: str, verb: str) -> None:
    view = View()
    assert view.press(key, RESULT) is None
    assert shown(view)[-1] == f"{verb} git? y: yes, any other key: no"
    assert view.press("n", RESULT) is None
    assert shown(view)[-1] == "not done"
    view.press(key, RESULT)
    wish = view.press("y", RESULT)
    assert wish is not None
    assert (wish.verb, wish.server) == (verb, "git")


def test_the_log_comes_and_goes() -> None:
    view = View()
    assert view.press("l", RESULT) == Wish("logs", "git")
    view.log = ["one", "two"]
    lines = shown(view)
    assert lines[1:4] == ["log of git", "one", "two"]
    assert view.press("x", RESULT) is None
    view.press("escape", RESULT)
    assert "log of git" not in shown(view)
    assert view.press("q", RESULT) == Wish("quit")


def test_without_servers_the_keys_do_nothing() -> None:
    view, nothing = View(), UsageResult(at=AT, problems=("observer x",))
    for key in ("down", "enter", "x", "l", "s"):
        assert view.press(key, nothing) is None
    lines = shown(view, nothing)
    assert lines[0] == "problem: observer x"
    assert lines[2] == "no servers are configured; add one with: smcp add NAME -- COMMAND"


def test_a_name_that_is_too_long_is_seen_to_be_cut() -> None:
    one = msgspec.structs.replace(GIT, name="n" * 64)
    line = shown(View(), msgspec.structs.replace(RESULT, servers=(one,)))[2]
    assert line.startswith("+" + "n" * 16 + "… RUNNING ")
