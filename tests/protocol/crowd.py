"""A crowd around one multiplexer: hosts and a child that do anything in any order, and a referee that keeps the score.

A *move* is something that somebody may do next. Every call carries a nonce, which the child gives back, so that the
referee knows whose answer an answer is. What must never be true is an assertion in here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from supervisord_mcp.protocol.callbacks import Rules
from supervisord_mcp.protocol.framing import Oversized
from tests.kit import rawjson
from tests.kit.conversation import Host, Talk, changed, notification, progress, request

Draw = Callable[[st.SearchStrategy[Any]], Any]

IDS = st.sampled_from(["0", '"0"', "1", '"1"', "1.0", '"a\\u2028"', "-7", "18446744073709551617"])
URIS = st.sampled_from(["u:1", "u:2", "u:2/part", 7])
VERSIONS = st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "nonsense"])
LEVELS = st.sampled_from(["debug", "error", "loud"])
GARBAGE = st.sampled_from(
    [b"", b"x", b"[]", b"[1]", b'{"id":{}}', b'{"jsonrpc":"2.0","id":null,"method":"x"}', b"\xff", b"{" * 5000]
)
CAPABILITIES = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "tasks": {"requests": {"tools": {"call": {}}}},
}


@dataclass
class Member:
    """What the referee knows of one host."""

    host: Host
    waiting: Counter[str] = field(default_factory=Counter)


class Crowd:
    """Everybody, and the referee."""

    def __init__(self, *, relay: Rules) -> None:
        self.talk = Talk(relay=relay)
        self.most = 1 if relay is True else 4
        self.unanswered: set[str] = set()
        self.questioned = 0
        self.members: list[Member] = []
        self.runs = False
        self.asked: list[dict[str, Any]] = []
        self.answered: list[dict[str, Any]] = []
        self.nonce = 0
        self.seen: dict[int, int] = {}
        self.tokens: dict[int, str] = {}

    # What can happen

    def moves(self) -> dict[str, Callable[[Draw], None]]:
        """Return the moves that are possible now, by name."""
        moves: dict[str, Callable[[Draw], None]] = {"child": self.start if not self.runs else self.die}
        if len(self.members) < self.most:
            moves["join"] = self.join
        if self.members:
            moves |= {name: self._one(move) for name, move in self._host_moves().items()}
        if self.runs:
            moves |= {"child says": self.child_says, "stop": self.stop}
            if self.asked:
                # Three names for it, so that it happens as often as requests do.
                moves |= {"answer": self.answer, "answer 2": self.answer, "answer 3": self.answer}
        else:
            moves["give up"] = lambda _: self._after(self.talk.gives_up)
        return moves

    def _host_moves(self) -> dict[str, Callable[[Member, Draw], None]]:
        return {
            "initialize": self.initialize,
            "initialized": lambda member, _: self._says(member, notification("notifications/initialized")),
            "call": self.call,
            "call 2": self.call,
            "ask": self.ask,
            "subscribe": self.subscribe,
            "batch": self.batch,
            "cancel": self.cancel,
            "answer back": self.answer_back,
            "garbage": lambda member, draw: self._says(member, draw(GARBAGE)),
            "leave": self.leave,
        }

    def _one(self, move: Callable[[Member, Draw], None]) -> Callable[[Draw], None]:
        return lambda draw: move(draw(st.sampled_from(self.members)), draw)

    # Hosts

    def join(self, draw: Draw) -> None:
        """A host connects; half of them make their handshake at once."""
        member = Member(self.talk.joins(f"h{len(self.seen)}"))
        self.seen[member.host.key] = 0
        self.members.append(member)
        if draw(st.booleans()):
            self._request(member, '"hello"', "initialize", self._opening("2025-03-26"))
            self._says(member, notification("notifications/initialized"))

    def leave(self, member: Member, _draw: Draw) -> None:
        """A host is gone."""
        self.members.remove(member)
        self._after(member.host.leaves)

    def initialize(self, member: Member, draw: Draw) -> None:
        """A host makes its handshake, perhaps once more."""
        self._request(member, draw(IDS), "initialize", self._opening(draw(VERSIONS)))

    @staticmethod
    def _opening(version: str) -> dict[str, Any]:
        capabilities: dict[str, Any] = {"elicitation": {}, "roots": {}, "sampling": {}}
        return {"protocolVersion": version, "capabilities": capabilities}

    def call(self, member: Member, draw: Draw) -> None:
        """A host calls a tool."""
        self._request(member, draw(IDS), "tools/call", self._call(member, draw))

    def _call(self, member: Member, draw: Draw) -> dict[str, Any]:
        self.nonce += 1
        params: dict[str, Any] = {"name": "x", "arguments": {"nonce": self.nonce, "of": member.host.key}}
        if draw(st.booleans()):
            token = draw(st.sampled_from([1, "1", self.nonce]))
            params["_meta"] = {"progressToken": token}
            self.tokens[self.nonce] = json.dumps(token)
        if draw(st.integers(0, 9)) == 0:
            params["task"] = {}
        return params

    def ask(self, member: Member, draw: Draw) -> None:
        """A host asks something else."""
        method = draw(
            st.sampled_from(
                ["ping", "tools/list", "prompts/list", "vendor/x", "server/discover", "tasks/get", "tasks/list"]
            )
        )
        params: Any = {"taskId": "1"} if method == "tasks/get" else draw(st.sampled_from([None, {}, {"cursor": "2"}]))
        self._request(member, draw(IDS), method, params)

    def subscribe(self, member: Member, draw: Draw) -> None:
        """A host subscribes, lets go, or sets its log level."""
        method = draw(st.sampled_from(["resources/subscribe", "resources/unsubscribe", "logging/setLevel"]))
        params = {"level": draw(LEVELS)} if method == "logging/setLevel" else {"uri": draw(URIS)}
        self._request(member, draw(IDS), method, params)

    def batch(self, member: Member, draw: Draw) -> None:
        """A host sends an array; the referee only keeps the score of it where the revision has arrays."""
        if self.talk.mux._talk.sessions[member.host.key].version != "2025-03-26":
            return
        lines = []
        taken = set(self._open(member))
        for identity in draw(st.lists(IDS, min_size=1, max_size=4)):
            method = draw(st.sampled_from(["ping", "tools/call", "notifications/vendor"]))
            if method == "notifications/vendor":
                lines.append(json.dumps(notification(method)))
                continue
            lines.append(_text(identity, method, self._call(member, draw) if method == "tools/call" else None))
            if identity not in taken:
                member.waiting[identity] += 1
                taken.add(identity)
        self._says(member, f"[{','.join(lines)}]")

    def cancel(self, member: Member, draw: Draw) -> None:
        """A host gives up a request, if it is one that can be given up."""
        identity = draw(IDS)
        line = f'{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{identity}}}}}'
        was_open = identity in self._open(member)
        self._says(member, line)
        if was_open and identity not in self._open(member):
            member.waiting[identity] -= 1

    def answer_back(self, member: Member, draw: Draw) -> None:
        """A host answers a callback, or one that does not exist, or reports on it."""
        number = draw(st.integers(1, 5))
        message = draw(
            st.sampled_from(
                [
                    {"jsonrpc": "2.0", "id": number, "result": {}},
                    {"jsonrpc": "2.0", "id": number, "error": {"code": 1, "message": "no"}},
                    progress(number, 1),
                    Oversized(b'{"jsonrpc":"2.0","id":%d,"result":{' % number, b"}}", 999),
                ]
            )
        )
        self._says(member, message)

    def _request(self, member: Member, identity: str, method: str, params: Any) -> None:
        # A duplicate is refused without its id, for that would settle the first one.
        if identity not in self._open(member):
            member.waiting[identity] += 1
        self._says(member, _text(identity, method, params))

    def _open(self, member: Member) -> list[str]:
        attachment = self.talk.mux._talk.sessions[member.host.key]
        return [identity.decode() for identity in {**attachment.open, **attachment.batches}]

    def _says(self, member: Member, message: Any) -> None:
        self._after(lambda: member.host.says(message))

    # The child

    def start(self, _draw: Draw | None = None) -> None:
        """A child starts and is asked for its handshake."""
        self.runs = True
        self._after(lambda: self.talk._apply(self.talk.mux.child_started(self.talk.terms)))

    def die(self, _draw: Draw | None = None) -> None:
        """The child is gone."""
        self.runs = False
        self.asked.clear()
        self.unanswered.clear()
        self.answered.clear()
        self._after(self.talk.child_dies)

    def stop(self, _draw: Draw) -> None:
        """The child is about to be stopped."""
        self._after(self.talk.child_stops)

    def answer(self, draw: Draw) -> None:
        """The child answers one of the requests it has, not in their order."""
        asked = self.asked.pop(draw(st.integers(0, len(self.asked) - 1)))
        self.answered.append(asked)
        self._child(_answer_to(asked, draw(st.integers(0, 5))))

    def child_says(self, draw: Draw) -> None:
        """The child says something that nobody asked for."""
        token, about = draw(st.sampled_from([*map(_subject, (*self.asked, *self.answered)), ("x", {"of": -1})]))
        kind = draw(st.integers(0, 9))
        self._child(
            [
                self._question(draw) if kind == 0 else None,
                request(1, "ping"),
                _report(token, draw(st.integers(0, 9)), about),
                _report(str(token), draw(st.integers(0, 9)), about),
                changed(draw(st.sampled_from(["tools", "prompts"]))),
                notification("notifications/message", {"level": "info", "data": 1}),
                notification("notifications/resources/updated", {"uri": draw(URIS)}),
                {"jsonrpc": "2.0", "id": draw(st.sampled_from([*(a["id"] for a in self.answered), 4711])), "result": 1},
                "noise",
                notification("notifications/tasks/status", {"taskId": "1", "status": "completed"}),
            ][kind]
        )

    def _question(self, draw: Draw) -> dict[str, Any]:
        """Return a question of the child for one of its calls, with or without a proof, or for none of them."""
        self.questioned += 1
        name = f"q{self.questioned}"
        self.unanswered.add(name)
        method = draw(st.sampled_from(["elicitation/create", "roots/list", "sampling/createMessage", "vendor/y"]))
        calls = [asked for asked in self.asked if "arguments" in (asked.get("params") or {})]
        if self.most == 1 or not calls or draw(st.integers(0, 9)) == 0:
            return request(name, method, {})
        params = draw(st.sampled_from(calls))["params"]
        meta: dict[str, Any] = {}
        if draw(st.booleans()):
            meta["traceparent"] = params.get("_meta", {}).get("traceparent")
        return request(name, method, {"of": params["arguments"]["of"], "_meta": meta})

    def _child(self, message: Any) -> None:
        self._after(lambda: self.talk.server.says(message))

    # The referee

    def _after(self, act: Callable[[], None]) -> None:
        act()
        while self.talk.server.inbox:
            self._to_child(json.loads(self.talk.server.inbox.popleft()))
        for member in self.members:
            while member.host.inbox:
                self._to_host(member, member.host.inbox.popleft().decode())
            member.host.inbox.clear()

    def _to_child(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            assert message["id"] == 1 or message["id"] in self.unanswered, "an answer to no question of the child"
            self.unanswered.discard(message["id"])
            return
        if "id" not in message:
            return
        arguments = (message.get("params") or {}).get("arguments") or {}
        if "nonce" in arguments:
            assert self.seen[arguments["of"]] < arguments["nonce"], "calls of one host overtook each other"
            self.seen[arguments["of"]] = arguments["nonce"]
        if self.runs:
            self.asked.append(message)

    def _to_host(self, member: Member, line: str) -> None:
        for text in _items(line):
            members = rawjson.members(text)
            message = json.loads(text)
            if "method" in members:
                params = message.get("params") or {}
                assert params.get("of", member.host.key) == member.host.key, "a notification for another host"
                if message["method"] == "notifications/progress":
                    token = rawjson.members(members["params"])["progressToken"]
                    assert token == self.tokens[params["nonce"]], "the progress token of another call"
                continue
            if members["id"] == "null":
                assert "error" in message
                continue
            value = message.get("result")
            if isinstance(value, dict) and "nonce" in value:
                assert value["of"] == member.host.key, "an answer for another host"
            member.waiting[members["id"]] -= 1
            assert member.waiting[members["id"]] >= 0, f"{members['id']} is answered twice"

    # The end

    def settle(self) -> None:
        """The child answers everything, until nothing is open any more."""
        if self.runs and not self.talk.mux.ready:
            self.die()
        if not self.runs:
            self.start()
        for _ in range(1000):
            if not self.asked:
                break
            asked = self.asked.pop(0)
            self.answered.append(asked)
            self._child(_answer_to(asked, 1))
        assert not self.asked
        for member in self.members:
            assert not +member.waiting, f"{member.host.name} still waits for {dict(+member.waiting)}"
            assert not self.talk.waiting(member.host)
            attachment = self.talk.mux._talk.sessions[member.host.key]
            assert not attachment.open
            assert not attachment.batches

    def go(self) -> None:
        """Everybody leaves, and nothing is left."""
        for member in list(self.members):
            self.members.remove(member)
            self._after(member.host.leaves)
        while self.asked:
            self._child(_answer_to(self.asked.pop(0), 1))
        talk = self.talk.mux._talk
        assert not self.unanswered, "questions of the child without an answer"
        assert not talk.turns
        assert not talk.callbacks._attribution.lingering
        assert not talk.callbacks._dialogues
        assert not talk.sessions
        assert not talk.pending
        assert not talk.held
        assert talk.held.size == 0
        assert not talk.subscriptions
        assert not talk.callbacks
        assert not talk.tasks
        assert not any(task.session for task in talk.tasks._tasks.values())
        assert not self.talk.mux.busy


def _subject(asked: dict[str, Any]) -> tuple[Any, dict[str, int]]:
    """Return the progress token of a request, and whose and which call it is (nobody's if it is none)."""
    return asked["id"], (asked.get("params") or {}).get("arguments") or {"of": -1}


def _report(token: Any, value: int, about: dict[str, int]) -> dict[str, Any]:
    message = progress(token, value)
    message["params"].update(about)
    return message


def _text(identity: str, method: str, params: Any) -> str:
    tail = "" if params is None else f',"params":{json.dumps(params)}'
    return f'{{"jsonrpc":"2.0","id":{identity},"method":{json.dumps(method)}{tail}}}'


def _answer_to(asked: dict[str, Any], mood: int) -> dict[str, Any]:
    """Return the child's answer: an error in one mood, else what the method is for."""
    identity, params = asked["id"], asked.get("params") or {}
    if mood == 0:
        return {"jsonrpc": "2.0", "id": identity, "error": {"code": -32603, "message": "no"}}
    value: dict[str, Any] = {}
    if asked["method"] == "initialize":
        value = {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "s", "version": "1"},
        }
    elif "arguments" in params:
        value = dict(params["arguments"])
        if "task" in params:
            value["task"] = {"taskId": str(value["nonce"]), "status": "completed" if mood == 2 else "working"}
    elif asked["method"] == "tools/list":
        value = {"tools": [{"name": str(mood)}], **({"nextCursor": "2"} if not params else {})}
    return {"jsonrpc": "2.0", "id": str(identity) if mood == 5 else identity, "result": value}


def _items(line: str) -> list[str]:
    if not line.startswith("["):
        return [line]
    decoder, at, items = json.JSONDecoder(), 1, []
    while line[at] != "]":
        _, end = decoder.raw_decode(line, at)
        items.append(line[at:end])
        at = end + 1 if line[end] == "," else end
    return items
