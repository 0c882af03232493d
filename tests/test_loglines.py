"""The parts of a line, written and read again."""

from __future__ import annotations

import pytest

from supervisord_mcp.loglines import parse, parse_stamp, repetition, speaker, stamp


@pytest.mark.parametrize("source", ["stderr", "smcp", "message"])
@pytest.mark.parametrize("instance", ["", "/src/my site", "/odd[1] x]\\", "0123456789abcdef"])
@pytest.mark.parametrize("session", [0, 3])
@pytest.mark.parametrize("text", ["", "plain", " leading [brackets] ", "Z smcp text"])
def test_the_parts_of_a_line_are_read_as_they_were_written(source: str, instance: str, session: int, text: str) -> None:
    line = f"{stamp(1.25)} {speaker(source, instance, session)} {text}"
    [found] = parse([line], "git")
    assert (found.line, found.server, found.time) == (line, "git", 1.25)
    assert (found.source, found.instance, found.session, found.text) == (source, instance, session, text)


def test_times_are_in_utc_and_have_milliseconds() -> None:
    assert stamp(0.0015) == "1970-01-01T00:00:00.001Z"
    assert parse_stamp("1970-01-01T00:00:00.001Z") == 0.001


@pytest.mark.parametrize("line", ["", "no line of ours", "1970-99-99T00:00:00.000Z stderr x", "XZ stderr x"])
def test_what_is_no_line_of_ours_is_text_of_the_time_before(line: str) -> None:
    first, second = parse([f"{stamp(7.0)} stderr x", line], "git")
    assert (second.text, second.source, second.time) == (line, "", first.time)
    assert [one.time for one in parse([line], "git")] == [0.0]


def test_a_repetition_is_the_line_before_it() -> None:
    again = f"{stamp(9.0)} {speaker('smcp', '/src', 3)} {repetition(4, 5.0)}"
    _, second = parse([f"{stamp(2.0)} {speaker('stderr', '/src', 3)} x", again], "git")
    assert (second.line, second.text, second.source, second.session) == (again, "x", "stderr", 3)
    assert (second.time, second.repeated, second.since) == (9.0, 4, 5.0)
    [alone] = parse([again], "git")
    assert (alone.text, alone.repeated) == (repetition(4, 5.0), 0)


def test_a_server_cannot_say_that_a_line_came_again() -> None:
    lines = [f"{stamp(1.0)} stderr x", f"{stamp(1.0)} stderr {repetition(4, 5.0)}"]
    assert [one.repeated for one in parse(lines, "git")] == [0, 0]


@pytest.mark.parametrize(
    "text", ["last line repeated 3 times since soonZ", f"last line repeated {'9' * 5000} times since {stamp(1.0)}"]
)
def test_what_only_looks_like_a_repetition_is_text(text: str) -> None:
    _, second = parse([f"{stamp(2.0)} stderr x", f"{stamp(3.0)} smcp {text}"], "git")
    assert (second.source, second.text, second.time, second.repeated, second.since) == ("smcp", text, 3.0, 0, 0.0)


def test_a_number_that_no_session_has_is_none() -> None:
    [found] = parse([f"{stamp(2.0)} smcp[session-{'9' * 5000}] x"], "git")
    assert (found.session, found.text) == (0, "x")
