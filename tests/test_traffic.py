"""Every call is told once, with how it ended; nothing is done for nobody."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from supervisord_mcp.observer import Bundle, Message, Observers
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.calls import NAMELESS, Call, Outcome
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.traffic import MANY, MANY_KEPT, MANY_KINDS, Around, Traffic

KEY = InstanceKey("s", "abc")
OK = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n'


class World:
    """Traffic of one instance, and what was told of it."""

    def __init__(self, *, watched: bool = True, summed: bool = True) -> None:
        self.observers = Observers()
        self.told: list[Call] = []
        self.sums: list[Bundle] = []
        self.messages: list[Message] = []
        self.names = {1: "editor", 2: ""}
        self.asked = 0
        if watched:
            self.observers.calls.add(self.told.append)
        if summed:
            self.observers.bundles.add(self.sums.append)
        self.later: list[Callable[[], None]] = []
        self.waiting: list[Call] = []
        around = Around(self.name, lambda: self.waiting, lambda seconds, call: self.later.append(call))
        self.traffic = Traffic(KEY, self.observers, around)

    @property
    def calls(self) -> list[Call]:
        """What was told, once what is done later was done."""
        while self.later:
            self.later.pop()()
        return self.told

    @property
    def bundles(self) -> list[Bundle]:
        """The sums that were told, once what is done later was done."""
        assert len(self.calls) == sum(bundle.calls for bundle in self.sums)
        return self.sums

    def name(self, session: int) -> str:
        self.asked += 1
        return self.names.get(session, "")

    def open(self, session: int = 1, identity: bytes = b"1", method: str = "tools/call", tool: bytes = b'"t"') -> Call:
        call = Call(session, identity, method, tool)
        self.traffic.heard = b"x" * 40
        self.traffic.opened(call, time.monotonic())
        self.waiting.append(call)
        return call

    def answer(self, *calls: Call, line: bytes = OK) -> None:
        for call in calls:
            self.waiting.remove(call)
        self.traffic.answered(calls, line, time.monotonic())


def test_a_call_is_told_when_it_is_answered() -> None:
    world = World()
    one = world.open()
    assert world.calls == []
    [pending] = world.traffic.open
    assert (pending.host, pending.tool) == ("editor", b'"t"')
    assert pending is not one, "it is not over yet"
    world.answer(one)
    [call] = world.calls
    assert (call.server, call.instance, call.session, call.host) == ("s", str(KEY), 1, "editor")
    assert (call.method, call.tool, call.asked, call.told) == ("tools/call", b'"t"', 40, len(OK))
    assert call.outcome is Outcome.OK
    assert call.ended >= call.began
    assert list(world.traffic.open) == []


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        (OK, False),
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}\n', True),
        (b'{"error":{"code":1,"message":"x"},"id":1,"jsonrpc":"2.0"}\n', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}\n', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"isError" : true,"content":[]}}\n', True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false}}\n', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"isError":false,"content":[{"type":"text","text":"error"}]}}\n', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\\"isError\\":true"}]}}\n', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"structuredContent":{"isError":true}}}\n', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"error":"a word of the tool"}}\n', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"isError":"maybe"}}\n', False),
        (b'[{"jsonrpc":"2.0","id":1,"error":{}}]\n', True),
        (b'{"error":{}, and no JSON any more', False),
        (b'{"jsonrpc":"2.0","id":1,"result":{"content":["%b"],"isError":true}}\n' % (b"x" * 70_000), True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":["%b"]}}\n' % (b"x" * 70_000), True),
        (b'{"jsonrpc":"2.0","id":1,"result":{"isError":false,"content":["%b"]}}\n' % (b"x" * 70_000), False),
    ],
)
def test_an_answer_may_be_a_failure(line: bytes, failed: bool) -> None:
    world = World()
    world.answer(world.open(), line=line)
    assert world.calls[0].outcome is (Outcome.ERROR if failed else Outcome.OK)
    assert world.bundles[0].errors == failed


def test_an_array_answers_several_each_for_itself() -> None:
    world = World()
    answers = {
        b"1": (b'{"jsonrpc":"2.0","id":1,"result":{"isError":"maybe"}}', Outcome.OK),
        b'"1"': (b'{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"no"}}', Outcome.ERROR),
        b"2": (b'{"jsonrpc":"2.0","id":2,"result":{"content":[],"isError":false}}', Outcome.OK),
        b"3": (b'{"jsonrpc":"2.0","id":3,"result":{"content":["%b"],"isError":true}}' % (b"x" * 70_000), Outcome.ERROR),
        b"4": (b'{"jsonrpc":"2.0","id":4,"result":{"content":[]}}', Outcome.OK),
    }
    calls = [world.open(identity=identity) for identity in answers]
    line = b"[" + b",".join(text for text, _ in answers.values()) + b"]\n"
    # The last one was refused at once, so it never waited.
    world.traffic.answered((*calls, Call(1, b"5", "tools/call")), line, time.monotonic())
    assert {call.identity: call.outcome for call in world.calls} == {key: end for key, (_, end) in answers.items()}
    assert [(len(bundle.seconds), bundle.errors) for bundle in world.bundles] == [(5, 2)]


def test_a_host_may_give_up() -> None:
    world = World()
    world.traffic.dropped(world.open(identity=b"1"), overdue=False)
    world.traffic.dropped(world.open(identity=b"2"), overdue=True)
    world.traffic.dropped(world.open(identity=b"3", method=""), overdue=False)
    assert [call.outcome for call in world.calls] == [Outcome.CANCELLED, Outcome.TIMEOUT]
    assert [(one.cancelled, one.timeouts, one.asked, one.seconds) for one in world.bundles] == [(1, 1, 80, [])]


def test_a_host_that_leaves_gives_up_everything() -> None:
    world = World()
    calls = [world.open(1, b"1"), world.open(1, b"2"), world.open(1, b"3", method="")]
    world.traffic.left(1, calls)
    told = [(call.host, call.identity, call.outcome) for call in world.calls]
    assert told == [("editor", b"1", Outcome.CANCELLED), ("editor", b"2", Outcome.CANCELLED)]
    assert [(one.caller.host, one.cancelled) for one in world.bundles] == [("editor", 2)]


def test_a_host_is_asked_for_its_name_until_it_says_it() -> None:
    world = World()
    for _ in range(2):
        world.answer(world.open(2))
        world.traffic.tell()
        assert world.calls[-1].host == NAMELESS
    world.names[2] = "late\x1b[31m" + "x" * 100
    for _ in range(3):
        world.answer(world.open(2))
        world.traffic.tell()
    assert {call.host for call in world.calls[2:]} == {("late\ufffd[31m" + "x" * 100)[:64]}
    # Before it has one, it is asked by who sums and by who keeps calls.
    assert world.asked == 5
    assert [(one.caller.host, one.calls) for one in world.bundles] == [
        *[(NAMELESS, 1)] * 2,
        *[(world.calls[-1].host, 1)] * 3,
    ]


def test_a_listen_is_no_call() -> None:
    world = World()
    one = world.open(method="")
    assert list(world.traffic.open) == []
    world.answer(one)
    assert world.calls == []


def test_nothing_is_kept_for_nobody() -> None:
    world = World(watched=False, summed=False)
    world.answer(world.open())
    world.traffic.dropped(world.open(), overdue=True)
    world.traffic.left(1, [world.open()])
    assert world.later == []
    assert world.asked == 0


def test_calls_are_told_together() -> None:
    world = World()
    for number in range(MANY_KEPT - 2):
        world.answer(world.open(identity=b"%d" % number))
    assert len(world.later) == 1
    assert world.told == []
    assert len(world.calls) == MANY_KEPT - 2
    world.traffic.dropped(world.open(), overdue=False)
    assert len(world.later) == 1
    world.traffic.tell()
    assert len(world.told) == MANY_KEPT - 1


def test_many_calls_are_told_at_once() -> None:
    world = World()
    for number in range(MANY_KEPT - 1):
        world.answer(world.open(identity=b"%d" % number))
    assert len(world.later) == 1
    assert (world.told, world.sums) == ([], [])
    world.answer(world.open(identity=b"x"))
    assert len(world.told) == MANY_KEPT
    assert len(world.calls) == MANY_KEPT, "and none is told twice"
    assert [bundle.calls for bundle in world.sums] == [MANY_KEPT]


def test_very_many_of_a_kind_are_summed_at_once() -> None:
    world = World(watched=False)
    for number in range(MANY - 1):
        world.answer(world.open(identity=b"%d" % number))
    assert world.sums == []
    world.answer(world.open(identity=b"x"))
    assert [bundle.calls for bundle in world.sums] == [MANY]
    assert world.calls == []
    assert len(world.sums) == 1, "and none is told twice"


def test_a_host_that_gets_its_name_is_summed_by_it_at_once() -> None:
    world = World()
    for name in ("", "", "late", "late"):
        world.names[2] = name
        world.answer(world.open(2))
    assert [(one.caller.host, one.calls) for one in world.bundles] == [(NAMELESS, 2), ("late", 2)]


def test_who_counts_is_told_sums_by_caller_and_kind() -> None:
    world = World(watched=False)
    world.names[3] = "editor"
    for session, tool in ((1, b'"t"'), (2, b'"t"'), (1, b'"u"'), (3, b'"t"'), (1, b'"t"')):
        world.answer(world.open(session, tool=tool))
    world.answer(world.open(2, method="prompts/get", tool=b""), world.open(2, b"2"))
    assert world.sums == []
    assert world.calls == [], "nobody wants each of them"
    told = [(one.caller.host, one.method, one.tool, len(one.seconds), one.asked, one.told) for one in world.sums]
    assert told == [
        ("editor", "tools/call", b'"t"', 3, 120, 3 * len(OK)),
        (NAMELESS, "tools/call", b'"t"', 2, 80, 2 * len(OK)),
        ("editor", "tools/call", b'"u"', 1, 40, len(OK)),
        (NAMELESS, "prompts/get", b"", 1, 40, len(OK)),
    ]
    assert all(taken >= 0 for one in world.sums for taken in one.seconds)
    assert (world.sums[0].caller.server, world.sums[0].caller.instance) == ("s", str(KEY))
    world.traffic.tell()
    assert len(world.sums) == 4, "what was told is over"


def test_a_host_that_makes_up_names_is_told_of_before_they_are_many() -> None:
    world = World(watched=False)
    for number in range(MANY_KINDS):
        world.answer(world.open(tool=b'"%d"' % number))
    assert world.sums == []
    world.traffic.dropped(world.open(tool=b'"one more"'), overdue=True)
    assert len(world.sums) == MANY_KINDS
    world.traffic.tell()
    assert [bundle.tool for bundle in world.sums[MANY_KINDS:]] == [b'"one more"']


def test_a_host_that_called_nothing_yet_has_its_name_in_messages() -> None:
    world = World()
    world.observers.messages["s"].add(world.messages.append)
    for name in ("", "late"):
        world.names[2] = name
        world.traffic.line(2, b"{}", "from-host")
    world.open(2)
    world.traffic.line(2, b"{}", "from-host")
    assert [one.host for one in world.messages] == [NAMELESS, "late", "late"]


def test_messages_are_told_as_they_are() -> None:
    world = World()
    world.observers.messages["s"].add(world.messages.append)
    world.traffic.line(1, b'{"a":1}', "from-host")
    world.traffic.line(0, b'{"a":1}\n', "to-server")
    world.traffic.line(0, Oversized(b"head", b"tail", 1 << 30), "from-server")
    assert [(one.session, one.host, one.direction, one.line, one.size) for one in world.messages] == [
        (1, "editor", "from-host", b'{"a":1}', 7),
        (0, "", "to-server", b'{"a":1}', 7),
        (0, "", "from-server", b"head", 1 << 30),
    ]


def test_what_waits_is_known_with_its_id() -> None:
    world = World()
    world.open(identity=b'"x"')
    [call] = world.traffic.waiting
    assert (call.session, call.identity, call.method) == (1, b'"x"', "tools/call")
    assert call.began <= time.monotonic()


def test_hosts_of_one_name_are_one_caller() -> None:
    world = World()
    world.names[3] = "editor"
    for session in (1, 2, 3):
        world.answer(world.open(session))
    first, other, third = (call.caller for call in world.calls)
    assert first is third
    assert (first.host, other.host) == ("editor", NAMELESS)
