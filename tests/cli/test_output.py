"""What is printed: nothing of a server reaches the terminal as a command."""

from __future__ import annotations

import json
import sys

import pytest

from supervisord_mcp.cli import output
from supervisord_mcp.errors import SmcpError


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("tab\tand\nnewline", "tab\tand\nnewline"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("over\rwrite", "over\\x0dwrite"),
        ("c1 \x9b31m", "c1 \\x9b31m"),
        ("\u202eflow", "\\u202eflow"),
        ("one\u2028two", "one\\u2028two"),
        ("ümläut ✓", "ümläut ✓"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    assert output.printable(text) == shown


@pytest.mark.parametrize(("text", "shown"), [("", ""), ("\n a\nb", "a"), ("x\x1b[K", "x\\x1b[K")])
def test_one_line(text: str, shown: str) -> None:
    assert output.one_line(text) == shown


def test_all_of_it_in_a_line() -> None:
    assert output.in_a_line("a\nb\x1b[K\u2029c") == "a b\\x1b[K\\u2029c"


@pytest.mark.parametrize("terminal", [True, False])
def test_json_commands_no_terminal(
    terminal: bool, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    said = {"a": "\x9b2J\x7f\u202e\u2028 ü \x1b"}
    output.print_json(json.dumps(said, ensure_ascii=False).encode(), indent=-1)
    shown = capsysbinary.readouterr().out
    assert json.loads(shown) == said, "it is the same text"
    assert (shown == b'{"a":"\\u009b2J\\u007f\\u202e\\u2028 \xc3\xbc \\u001b"}\n') is terminal


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, "-"),
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (61, "1m 1s"),
        (3600, "1h"),
        (7384, "2h 3m"),
        (86400, "1d"),
        (200000, "2d 7h"),
    ],
)
def test_span(seconds: float | None, said: str) -> None:
    assert output.span(seconds) == said


def test_count() -> None:
    assert [output.count(number, "session") for number in (0, 1, 2)] == ["0 sessions", "1 session", "2 sessions"]


def test_table_is_not_cut_where_a_program_reads(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("A", "B"), [("x", "y" * 500), ("[bold]", ":smile:")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["A       B", "x       " + "y" * 500, "[bold]  :smile:"]


def test_colours_only_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output.print_table(("STATE", "X"), [("RUNNING", "x")])
    assert "\x1b" not in capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    output.print_table(("STATE", "X"), [("RUNNING", "x")])
    assert "\x1b[32m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    output.print_table(("STATE", "X"), [("RUNNING", "x")])
    assert "\x1b[32m" not in capsys.readouterr().out


def test_the_last_column_is_folded_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    output.print_table(("NAME", "TEXT"), [("a", "some words that are too many for one line")], [["a note"]])
    assert capsys.readouterr().out.splitlines()[1:] == [
        "a     some words that are too many for",
        "      one line",
        "    a note",
    ]
    monkeypatch.setenv("COLUMNS", "20")
    output.print_table(("NAME", "TEXT"), [("a", "some words that are too many")])
    assert capsys.readouterr().out.splitlines()[1:] == ["a     some words that are too many"]


@pytest.mark.parametrize(("width", "gap"), [("9", 2), ("8", 1), ("7", 1), ("6", 2)])
def test_columns_move_together_where_that_makes_them_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str, gap: int
) -> None:
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", width)):
        monkeypatch.setenv(name, value)
    output.print_table(("A", "B", "C"), [("x", "yyy", "z")])
    assert capsys.readouterr().out.splitlines()[1] == (" " * gap).join(("x", "yyy", "z"))


WIDE = (("NAME", "FROM", "SIZE", "KIND"), ("memories", "somewhere", "123456", "kind"))


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        ("100", "memories  somewhere  123456  kind"),
        ("30", "memories somewhere 123456 kind"),
        ("29", "memories somewhere kind"),
        ("22", "memories somewhe… kind"),
        ("20", "memories somew… kind"),
        ("15", "memories kind"),
        # Nothing more is given up: what a row is about stays whole.
        ("10", "memories  kind"),
    ],
)
def test_what_is_spare_is_given_up_in_a_narrow_terminal_and_no_more_than_it_takes(
    width: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    spare = (("SIZE", 0), ("FROM", 5), ("FROM", 0))
    columns, row = WIDE
    output.print_table(columns, [row], spare=spare)
    assert capsys.readouterr().out.splitlines()[1] == "memories  somewhere  123456  kind", "whole for a program"
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", width)):
        monkeypatch.setenv(name, value)
    output.print_table(columns, [row], spare=spare)
    head, line = capsys.readouterr().out.splitlines()
    assert " ".join(line.split()) == " ".join(shown.split())
    assert len(head.split()) == len(shown.split())


def test_a_line_is_folded_between_words_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "2026  git   state  " + "from=RUNNING " * 5 + "error=a\nb"
    output.print_folded(text)
    assert capsys.readouterr().out.splitlines() == [text.replace("\n", " ")]
    for name, value in (("TERM", "xterm"), ("FORCE_COLOR", "1"), ("NO_COLOR", "1"), ("COLUMNS", "50")):
        monkeypatch.setenv(name, value)
    output.print_folded(text)
    assert capsys.readouterr().out.splitlines() == [
        "2026  git   state  from=RUNNING from=RUNNING",
        "    from=RUNNING from=RUNNING from=RUNNING error=a",
        "    b",
    ]
    output.print_folded("short")
    assert capsys.readouterr().out == "short\n"


def test_cells_are_one_line_and_aligned_by_what_they_fill(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("A", "B"), [("日本", "x\ny"), ("a\tb", "")])
    assert capsys.readouterr().out.splitlines() == ["A     B", "日本  x y", "a b"]


def test_error_has_code_place_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    error = SmcpError("something [red]bad[/red] in /a/file", remedy="do this\nthen that")
    error.code = "example"
    output.print_error(error)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == "error[example]: something [red]bad[/red] in /a/file\n  do this\n  then that\n"


def test_long_errors_are_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_error(SmcpError("word " * 100))
    assert capsys.readouterr().err.count("\n") == 1


def test_busy_is_silent_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    with output.busy("waiting"):
        pass
    assert capsys.readouterr() == ("", "")


def test_what_takes_longer_than_usual_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with output.busy("waiting") as tell:
        for text in ("installing a", "installing \x1b[31mb\x07", "installing a"):
            tell(text)
    assert capsys.readouterr() == ("", "installing a\ninstalling b\\x07\n")
