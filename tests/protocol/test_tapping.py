"""What a message is, which request an answer belongs to, and which messages were asked for."""

from __future__ import annotations

import pytest

from supervisord_mcp.protocol.tapping import MOST_OPEN, Asked, Direction, Matcher, Seen, Tap, TapRecord

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def look(matcher: Matcher, direction: Direction, line: bytes, now: float = 0.0, session: int = 7) -> Seen:
    return matcher.look("i", session, direction, line, now)


@pytest.mark.parametrize(
    ("asks", "answers"),
    [("from-host", "to-host"), ("to-host", "from-host"), ("to-server", "from-server"), ("from-server", "to-server")],
)
def test_an_answer_finds_its_request(asks: Direction, answers: Direction) -> None:
    matcher = Matcher()
    assert look(matcher, asks, CALL, 1.0) == Seen("request", "tools/call", "echo", "1")
    assert look(matcher, asks, RESULT, 1.5) == Seen("result", id="1"), "one does not answer oneself"
    assert look(matcher, answers, RESULT, 2.5, session=8) == Seen("result", id="1"), "that is of another session"
    assert look(matcher, answers, RESULT, 3.0) == Seen("result", "tools/call", "echo", "1", 2.0)
    assert look(matcher, answers, RESULT, 4.0) == Seen("result", id="1"), "it is answered once"


def test_ids_keep_their_type() -> None:
    matcher = Matcher()
    look(matcher, "from-host", b'{"id":"1","method":"ping"}')
    assert look(matcher, "to-host", RESULT).method == ""
    assert look(matcher, "to-host", b'{"id":"1","error":{"code":1}}') == Seen("error", "ping", "", '"1"', 0.0)


def test_a_host_introduces_itself() -> None:
    line = b'{"id":0,"method":"initialize","params":{"clientInfo":{"name":"editor"}}}'
    assert look(Matcher(), "from-host", line).host == "editor"
    assert look(Matcher(), "from-host", b'{"id":0,"method":"initialize"}').host == ""
    assert look(Matcher(), "from-host", b'{"id":0,"method":"tools/call","params":[]}').tool == ""


def test_what_needs_no_answer() -> None:
    assert look(Matcher(), "to-host", b'{"method":"notifications/progress"}') == Seen(
        "notification", "notifications/progress"
    )


@pytest.mark.parametrize("line", [b"hello", b"", b"7", b'{"jsonrpc":"2.0"}', b"[" * 100_000])
def test_what_is_no_message(line: bytes) -> None:
    assert look(Matcher(), "from-server", line) == Seen("noise")


def test_an_error_without_an_id() -> None:
    assert look(Matcher(), "to-host", b'{"error":{"code":1}}') == Seen("error", id="null")


def test_an_array_is_taken_apart() -> None:
    matcher = Matcher()
    asked = look(matcher, "from-host", b'[%b, 7, {"method":"notifications/initialized"}]' % CALL, 1.0)
    assert asked == Seen("batch", "tools/call, notifications/initialized")
    assert look(matcher, "to-host", b"[%b]" % RESULT, 2.0) == Seen("batch", "tools/call")


def test_what_was_asked_before_is_known_where_somebody_says_it() -> None:
    matcher = Matcher()
    matcher.expect("i", 7, b"1", Asked("tools/call", "slow", 5.0))
    assert look(matcher, "to-host", RESULT, 9.0) == Seen("result", "tools/call", "slow", "1", 4.0)


def test_what_is_never_answered_is_not_remembered_for_ever() -> None:
    matcher = Matcher()
    for number in range(MOST_OPEN + 1):
        look(matcher, "from-host", b'{"id":%d,"method":"ping"}' % number)
    assert look(matcher, "to-host", b'{"id":0,"result":{}}').method == ""
    assert look(matcher, "to-host", b'{"id":1,"result":{}}').method == "ping"


@pytest.mark.parametrize(
    ("tap", "wanted"),
    [
        (Tap(name="s"), True),
        (Tap(name="s", side="server"), False),
        (Tap(name="s", side="both"), True),
        (Tap(name="s", methods=("tools/call",)), True),
        (Tap(name="s", methods=("ping", "tools/*")), True),
        (Tap(name="s", methods=("resources/*",)), False),
        (Tap(name="s", methods=("Tools/call",)), False),
        (Tap(name="s", hosts=("Cursor*",)), True),
        (Tap(name="s", hosts=("cursor",)), False),
        (Tap(name="s", hosts=("cursor*",), methods=("ping",)), False),
    ],
)
def test_who_taps_says_what_they_want(tap: Tap, wanted: bool) -> None:
    record = TapRecord(time=0.0, direction="to-host", session=1, host="cursor-vscode", method="tools/call")
    assert tap.wants(record) is wanted


def test_one_of_the_methods_of_an_array_is_enough() -> None:
    record = TapRecord(time=0.0, direction="from-server", kind="batch", method="ping, tools/call")
    assert Tap(name="s", side="server", methods=("tools/call",)).wants(record)
    assert not Tap(name="s", side="server", hosts=("*x",)).wants(record), "on that side there is no host"
