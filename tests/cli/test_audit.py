"""``smcp audit``: what was recorded, as a table and as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.text import Text

from tests.cli.conftest import Smcp
from tests.cli.daemon import clean_lines


def record(second: int, **more: Any) -> dict[str, Any]:
    time = f"2026-11-30T08:00:{second:02}.000Z"
    own = {"time": time, "host": "editor", "pid": 77, "session": 3, "server": "git", "instance": "git-1", "tool": "log"}
    return {**own, "outcome": "ok", "duration": 0.25, "digest": "ab" * 32, **more}


RECORDS = [
    record(1),
    record(2, server="time", tool="now", pid=None, arguments={"zone": "UTC"}),
    {"time": "2026-11-30T08:00:03.000Z", "missing": 4, "cause": "No space left"},
    record(4, tool="push", outcome="error", digest=""),
]


@pytest.fixture
def recorded(home: Path) -> Path:
    directory = home / "state" / "audit"
    directory.mkdir(parents=True)
    older, newest = directory / "audit.jsonl.1", directory / "audit.jsonl"
    older.write_text(f"{json.dumps(RECORDS[0])}\nno record\n[]\n{'[' * 100_000}\n")
    newest.write_text("".join(f"{json.dumps(one)}\n" for one in RECORDS[1:]))
    return newest


@pytest.mark.usefixtures("recorded")
def test_calls_are_shown_as_a_table(smcp: Smcp) -> None:
    head, *rows = clean_lines(smcp("audit").out)
    assert head.split() == ["TIME", "HOST", "PID", "SERVER", "TOOL", "OUTCOME", "TOOK", "ARGUMENTS"]
    assert [row.split(maxsplit=7)[1:] for row in rows] == [
        ["editor", "77", "git", "log", "ok", "250ms", "abababababab"],
        ["editor", "-", "time", "now", "ok", "250ms", '{"zone":"UTC"}'],
        ["-", "-", "-", "-", "-", "-", "4 records are missing here (No space left)"],
        ["editor", "77", "git", "push", "error", "250ms", "-"],
    ]


@pytest.mark.parametrize("arguments", [None, {"path": "/home/me/src/a/file", "tail": 20, "head": None}])
def test_calls_fit_80_columns(arguments: object, smcp: Smcp, recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = record(5, host="Visual Studio Code", server="filesystem", tool="read_multiple_files")
    recorded.write_text(json.dumps({**told, "arguments": arguments} if arguments else told) + "\n")
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    head, *_, line = [Text.from_ansi(line).plain for line in smcp("audit", "-n", "1").out.splitlines()]
    assert max(len(head), len(line)) <= 80
    host = [] if arguments else ["HOST"]
    assert head.split() == ["TIME", *host, "SERVER", "TOOL", "OUTCOME", "ARGUMENTS"]
    if not arguments:
        assert line == "2026-11-30T08:00:05Z Visual St… filesystem read_multiple_f… ok      abababababab"


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), [0, 1, 2, 3]),
        (("-n", "2"), [2, 3]),
        (("--server", "git"), [0, 2, 3]),
        (("--tool", "push"), [2, 3]),
        (("--server", "time", "--tool", "push"), [2]),
        (("--since", "2026-11-30T08:00:04"), [3]),
        (("--since", "2026-11-30T08:00:02", "-n", "1"), [3]),
    ],
)
def test_calls_are_chosen(smcp: Smcp, words: tuple[str, ...], wanted: list[int]) -> None:
    found = [json.loads(line) for line in smcp("audit", "--json", *words).out.splitlines()]
    assert found == [RECORDS[number] for number in wanted]


def test_where_nothing_is_recorded_it_says_what_to_do(smcp: Smcp) -> None:
    for words in ((), ("--server", "git")):
        ran = smcp("audit", *words)
        assert (ran.status, "[audit] enabled = true" in ran.out) == (0, True)
    assert smcp("audit", "--json").out == ""
    assert smcp("audit", "--since", "yesterday").status == 2


@pytest.mark.usefixtures("recorded")
def test_where_nothing_was_chosen_it_does_not_say_that_nothing_is_recorded(smcp: Smcp) -> None:
    for words in (("--since", "9999-12-31"), ("--since", "2026-12-01", "--server", "gti"), ("-n", "0")):
        ran = smcp("audit", *words)
        assert (ran.status, ran.out) == (0, "no such calls were recorded\n"), words
