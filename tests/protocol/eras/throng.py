"""Hosts of both eras around one multiplexer whose child is now of one era and now of the other, and a referee.

Hosts and child do anything in any order. Every call carries a nonce and its host, which the child gives back with
answers, progress and questions, so that the referee sees what crosses. What must never be true is an assertion in here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from supervisord_mcp.protocol.callbacks import Rules
from supervisord_mcp.protocol.eras import envelope
from supervisord_mcp.protocol.eras.probe import Terms
from tests.kit.conversation import (
    MCP,
    Host,
    Json,
    Talk,
    cancelled,
    changed,
    discovered,
    error,
    modern,
    notification,
    progress,
    request,
    result,
)

IDS = [0, "0", 1, "1", "a", -7]
URIS = ["u:1", "u:2", "u:2/part"]
LEVELS = ["debug", "error"]
FORM: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
ABLE: Json = {"elicitation": {"form": {}}, "roots": {}, "extensions": {f"{MCP}tasks": {}}}
OFFERED: Json = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}
LISTS = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"}
ASKED = [
    *LISTS,
    *("server/discover", "ping", "vendor/x", "resources/subscribe", "resources/unsubscribe"),
    *("logging/setLevel", "tasks/get", "initialize"),
]
TAG = envelope.SUBSCRIPTION_ID
ACCEPTED = {"action": "accept", "content": {}}


@dataclass
class Listen:
    """A listen as its host sees it."""

    kinds: set[str]
    uris: set[str]
    acknowledged: bool = False


@dataclass
class Member:
    """What the referee knows of one host. Ids are kept as JSON text, for ``1`` is not ``"1"``."""

    host: Host
    modern: bool
    principal: str
    waiting: Counter[str] = field(default_factory=Counter)
    listens: dict[str, Listen] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)
    states: list[tuple[str, Json]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)

    @property
    def key(self) -> int:
        """The key of its session."""
        return self.host.key


class Throng:
    """Everybody, and the referee."""

    def __init__(self, rules: Rules, luck: Random) -> None:
        self.talk = Talk(relay=rules)
        self.most = 1 if rules is True else 4
        self.luck = luck
        self.members: list[Member] = []
        self.gone: list[Member] = []
        self.era: str | None = None
        self.asked: list[Json] = []
        self.answered: list[Json] = []
        self.listens: dict[int, bool] = {}
        self.questions: list[str] = []
        self.nonce = 0
        self.tokens: dict[int, list[str]] = {}
        self.used: set[str] = set()
        self.calls: dict[tuple[int, str], Json] = {}
        self.filters: dict[int, Json] = {}

    # What can happen

    def move(self) -> None:
        """Something happens."""
        moves = self.moves()
        moves[self.luck.choice(sorted(moves))]()

    def moves(self) -> dict[str, Callable[[], None]]:
        """Return the moves that are possible now, by name."""
        moves: dict[str, Callable[[], None]] = {"time": self.time_passes}
        if len(self.members) < self.most:
            moves["join"] = self.join
        if self.members:
            names = ("call", "call again", "retry", "ask", "listen", "cancel", "answer back", "leave", "steal")
            moves |= {name: lambda name=name: self._host_move(name) for name in names}  # type: ignore[misc]
        if self.era is not None:
            moves |= {"says": self.child_says, "says more": self.child_says, "ends": self.end}
            if self.asked:
                moves |= {"answer": self.answer, "asks": self.ask_back, "asks more": self.ask_back}
        else:
            moves["start"] = moves["start again"] = self.start
        return moves

    def _host_move(self, name: str) -> None:
        member = self.luck.choice(self.members)
        match name:
            case "call" | "call again":
                self.call(member)
            case "retry":
                self.retry(member)
            case "ask":
                self.ask(member)
            case "listen":
                self.listen(member)
            case "cancel":
                self.cancel(member)
            case "answer back":
                self.answer_back(member)
            case "steal":
                self.steal(member)
            case "leave":
                self.members.remove(member)
                self.gone.append(member)
                self._after(member.host.leaves)

    def time_passes(self) -> None:
        """Time passes, mostly not much of it."""
        seconds = self.luck.choice([0.005, 0.005, 0.005, 1.0, 600.0])
        self._after(lambda: self.talk.passes(seconds))

    # Hosts

    def join(self) -> None:
        """A host of either era connects; a legacy one makes its handshake, a modern one may ask what there is.

        A modern one may be one that left, with the states that it had.
        """
        back = self.gone.pop() if self.gone and self.luck.random() < 0.5 else None
        principal = f"p{self.talk._last_key}" if back is None else back.principal
        host = self.talk.joins(f"h{self.nonce}", principal=principal)
        member = Member(host, self.luck.random() < 0.5 if back is None else back.modern, principal)
        self.members.append(member)
        if member.modern:
            member.states = [] if back is None else back.states
            if back is not None and self.luck.random() < 0.5:
                self.retry(member)
            if self.luck.random() < 0.5:
                self._request(member, "d", "server/discover", None)
            return
        params = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}, "roots": {}}}
        self._request(member, "hello", "initialize", params)
        self._says(member, notification("notifications/initialized"))

    def call(self, member: Member) -> None:
        """A host calls a tool, or something like it."""
        self.nonce += 1
        method = self.luck.choice(["tools/call", "tools/call", "prompts/get", "completion/complete"])
        params: Json = {"name": "x", "arguments": {}, "nonce": self.nonce, "of": member.principal}
        if method == "completion/complete":
            params |= {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": "b"}}
        self._request(member, self.luck.choice(IDS), method, params, self._meta(member, self.nonce))

    def _meta(self, member: Member, nonce: int) -> Json:
        meta: Json = {}
        if self.luck.random() < 0.5:
            meta["progressToken"] = self.luck.choice([1, "1", nonce])
            self.tokens.setdefault(nonce, []).append(json.dumps(meta["progressToken"]))
        if member.modern and self.luck.random() < 0.5:
            meta[f"{MCP}logLevel"] = self.luck.choice(LEVELS)
        return meta

    def retry(self, member: Member) -> None:
        """A host comes back with an answer, right or wrong, now and then twice."""
        if not member.states:
            return
        state, asked = self.luck.choice(member.states)
        params = {key: value for key, value in asked["params"].items() if key not in ("_meta", "inputResponses")}
        params["requestState"] = state
        keys = [f"r{number}" for number in range(1, self.luck.choice([9, 9, 9, 2, 1]))]
        wrong = self.luck.randint(0, 9) == 9
        params["inputResponses"] = {"r1": 7} if wrong else {key: {"roots": [], **ACCEPTED} for key in keys}
        nonce = asked["params"]["nonce"]
        self._request(member, self.luck.choice(IDS), asked["method"], params, self._meta(member, nonce))

    def steal(self, member: Member) -> None:
        """A host comes with the state of another one, which learnt of it somehow: nothing may come of that (6.5)."""
        parking = self.talk.mux._modern.parking
        states = [(one, call) for one, call in parking._states.items() if call.principal != member.principal]
        if not states or not member.modern or self.era != "legacy" or not self.talk.mux.ready:
            return
        state, call = self.luck.choice(states)
        params = {key: json.loads(bytes(text)) for key, text in call.params.items() if key not in ("_meta", "of")}
        params |= {"of": call.principal, "requestState": state, "inputResponses": {"r1": {"roots": [], **ACCEPTED}}}
        identity = self.luck.choice(IDS)
        if json.dumps(identity) not in self._open(member):
            self._request(member, identity, call.method, params)
            assert json.dumps(identity) not in self._open(member), "a state was taken over"
        assert parking._states[state] is call

    def ask(self, member: Member) -> None:
        """A host asks something that is no call."""
        method = self.luck.choice(ASKED)
        if method == "initialize" and not member.modern:
            return
        params: Json = {"uri": self.luck.choice(URIS), "level": self.luck.choice(LEVELS), "taskId": "1"}
        wanted = {"resources/subscribe": ["uri"], "resources/unsubscribe": ["uri"], "logging/setLevel": ["level"]}
        names = wanted.get(method, ["taskId"] if method == "tasks/get" else [])
        self._request(member, self.luck.choice(IDS), method, {name: params[name] for name in names} or None)

    def listen(self, member: Member) -> None:
        """A modern host listens."""
        if not member.modern:
            return
        kinds = {kind for kind in ("tools", "prompts", "resources") if self.luck.random() < 0.5}
        uris = self.luck.sample(URIS, self.luck.randint(0, 2))
        identity = self.luck.choice(IDS)
        text = json.dumps(identity)
        fresh = text not in self._open(member)
        if fresh:
            member.listens[text] = Listen(kinds, set(uris))
        wanted = {f"{kind}ListChanged": True for kind in kinds} | {"resourceSubscriptions": uris}
        self._request(member, identity, "subscriptions/listen", {"notifications": wanted})

    def cancel(self, member: Member) -> None:
        """A host gives up a request."""
        identity = self.luck.choice(IDS)
        text = json.dumps(identity)
        was_open = text in self._open(member)
        listens = member.listens.pop(text, None) if was_open else None
        member.states = [one for one in member.states if json.dumps(one[1]["id"]) != text] if member.modern else []
        self._says(member, cancelled(identity))
        if was_open and text not in self._open(member):
            member.waiting[text] -= 1
        elif listens is not None and text in self._open(member):
            member.listens[text] = listens

    def answer_back(self, member: Member) -> None:
        """A host answers a question, or one that does not exist; a modern one must not, and nothing comes of it."""
        number = self.luck.choice([*member.asked, 1, 2])
        if number in member.asked:
            member.asked.remove(number)
        bad = self.luck.random() < 0.5
        self._says(member, error(number, 1, "no") | {"error": {"code": 1, "message": "no"}} if bad else result(number))

    def _request(self, member: Member, identity: Any, method: str, params: Json, meta: Json = None) -> None:
        text = json.dumps(identity)
        fresh = text not in self._open(member)
        if fresh:
            member.waiting[text] += 1
        if member.modern:
            capabilities = {} if self.luck.randint(0, 5) == 5 else ABLE
            message = modern(identity, method, params, capabilities=capabilities, meta=meta)
        else:
            told = {**(params or {}), "_meta": meta} if meta else params
            message = request(identity, method, told)
        if fresh:
            self.calls[member.key, text] = message
        self._says(member, message)

    def _open(self, member: Member) -> list[str]:
        return [identity.decode() for identity in self.talk.mux._talk.sessions[member.key].open]

    def _says(self, member: Member, message: Json) -> None:
        self._after(lambda: member.host.says(message))

    # The child

    def start(self, era: str | None = None) -> None:
        """A child of some era starts, and mostly is ready at once."""
        self.era = era or self.luck.choice(["legacy", "modern"])
        self.talk.terms = Terms(self.era)  # type: ignore[arg-type]
        self._after(self.talk.child_begins)
        if self.luck.randint(0, 5) < 5:
            self._child(self._answer_to(self.asked.pop(), 1))

    def end(self) -> None:
        """The child is stopped, or dies, which does not happen every day."""
        match self.luck.randint(0, 7):
            case 6:
                self._after(self.talk.child_stops)
            case 7:
                self.die()

    def die(self) -> None:
        """The child is gone, and whoever waits for an answer of it."""
        self.era = None
        self.asked.clear()
        self.answered.clear()
        self.listens.clear()
        self.questions.clear()
        self._after(self.talk.child_dies)

    def answer(self) -> None:
        """The child answers one of its requests."""
        asked = self.asked.pop(self.luck.randint(0, len(self.asked) - 1))
        self.answered.append(asked)
        self._child(self._answer_to(asked, self.luck.choice([6, 2, 1, 0, 3, 4, 5])))

    def ask_back(self) -> None:
        """A legacy child asks something, sometimes with the trace of a call; or it takes a question back."""
        if self.era != "legacy":
            return
        if self.questions and self.luck.randint(0, 5) == 5:
            self._child(cancelled(self.questions.pop()))
            return
        asked = self.luck.choice(self.asked)
        trace = (asked.get("params") or {}).get("_meta", {}).get("traceparent")
        method = self.luck.choice(["elicitation/create"] * 3 + ["roots/list", "sampling/createMessage"])
        self.nonce += 1
        identity = f"q{self.nonce}"
        self.questions.append(identity)
        meta = {"_meta": {"traceparent": trace}} if trace and self.luck.random() < 0.5 else {}
        self._child(request(identity, method, {**FORM, **meta}))

    def child_says(self) -> None:
        """The child says something that nobody asked for, once it knows which era it is in."""
        if not self.talk.mux.ready and self.era == "modern":
            return
        about = self.luck.choice([*self.asked, *self.answered, {"id": 4711}])
        report = progress(about["id"], self.luck.randint(0, 9))
        report["params"].update(_about(about))
        listens = [*self.listens, 4711]
        tag = {"_meta": {TAG: self.luck.choice(listens)}} if self.era == "modern" else {}
        kind = self.luck.choice(["tools", "prompts"])
        uri = {"uri": self.luck.choice(URIS)}
        said = [
            report,
            notification("notifications/message", {"level": "error", "data": 1}),
            {**changed(kind), "params": tag},
            notification("notifications/resources/updated", {**uri, **tag}),
            "noise",
        ][self.luck.randint(0, 4)]
        if self.era == "modern" and self.listens and self.luck.randint(0, 9) == 9:
            upstream = self.luck.choice(sorted(self.listens))
            del self.listens[upstream]
            said = cancelled(upstream) if self.luck.random() < 0.5 else result(upstream, {"resultType": "complete"})
        self._child(said)

    def _child(self, message: Json) -> None:
        self._after(lambda: self.talk.server.says(message))

    def _answer_to(self, asked: Json, mood: int) -> Json:
        identity, method, params = asked["id"], asked["method"], asked.get("params") or {}
        if mood == 0:
            return {"jsonrpc": "2.0", "id": identity, "error": {"code": -32603, "message": "no"}}
        value: Json = {}
        if method == "initialize":
            told = {"capabilities": OFFERED, "serverInfo": {"name": "s", "version": "1"}}
            return result(identity, {"protocolVersion": "2025-11-25", **told})
        if method == "server/discover":
            return result(identity, discovered(OFFERED, ttlMs=mood * 100))
        if method in LISTS:
            value = {LISTS[method]: [{"name": str(mood), "uri": "u:1", "inputSchema": {"type": "object"}}]}
        elif "nonce" in params:
            value = _about(asked)
            pages = {"elicitations": [{"mode": "url", "url": "https://x", "message": "m"}]}
            if mood == 1 and self.era == "legacy":
                refused = {"code": -32042, "message": "pages", "data": pages}
                return {"jsonrpc": "2.0", "id": identity, "error": refused}
        if self.era == "modern":
            value = {"resultType": "complete", "ttlMs": mood * 100, **value}
            if mood == 2 and method in ("tools/call", "prompts/get"):
                value = {"resultType": "input_required", "requestState": f"s{identity}"}
                value["inputRequests"] = {"r1": {"method": "elicitation/create", "params": FORM}}
            elif mood == 3 and method == "tools/call":
                value = {"resultType": "task", "taskId": str(identity), "status": "completed"}
        return result(identity, value)

    # The referee

    def _after(self, act: Callable[[], None]) -> None:
        act()
        while True:
            while self.talk.server.inbox:
                self._to_child(json.loads(self.talk.server.inbox.popleft()))
            heard = [member for member in self.members if member.host.inbox]
            for member in heard:
                while member.host.inbox:
                    self._to_host(member, json.loads(member.host.inbox.popleft()))
            # The child acknowledges a listen at once or later; what follows from that is seen now.
            early = [at for at, told in self.listens.items() if not told and self.luck.random() < 0.5]
            if not early:
                return
            for upstream in early:
                self._acknowledge(upstream)

    def _acknowledge(self, upstream: int) -> None:
        self.listens[upstream] = True
        params = {"notifications": self.filters[upstream], "_meta": {TAG: upstream}}
        self.talk.server.says(notification("notifications/subscriptions/acknowledged", params))

    def _to_child(self, message: Json) -> None:
        if self.era is None:
            return
        if "method" not in message:
            assert message["id"] in self.questions, "an answer to a question that is not open"
            self.questions.remove(message["id"])
            return
        params = message.get("params") or {}
        if "id" not in message:
            self.listens.pop(params.get("requestId", 0), None)
            return
        said = params.get("_meta") or {}
        if self.era == "modern":
            assert f"{MCP}protocolVersion" in said, "a request without its envelope"
        elif message["method"] != "server/discover":
            assert not any(key.startswith(MCP) for key in said), "an envelope for a legacy child"
            assert "requestState" not in params
            assert "inputResponses" not in params
        if message["method"] == "subscriptions/listen":
            assert self.era == "modern"
            self.listens[message["id"]] = False
            self.filters[message["id"]] = params["notifications"]
        else:
            self.asked.append(message)

    def _to_host(self, member: Member, message: Json) -> None:
        if "method" in message:
            self._told(member, message, message.get("params") or {})
            return
        if message["id"] is None:
            assert "error" in message
            return
        text = json.dumps(message["id"])
        member.waiting[text] -= 1
        assert member.waiting[text] >= 0, f"{text} is answered twice"
        if member.listens.pop(text, None) is not None and "result" in message:
            assert message["result"]["_meta"][TAG] == message["id"]
            member.ended.append(text)
        value = message.get("result") or {}
        assert value.get("of", member.principal) == member.principal, "an answer for another host"
        if value.get("resultType") == "input_required":
            assert member.modern, "input_required for a legacy host"
            self._surfaced(member, value, self.calls[member.key, text])
        elif member.modern and "result" in message:
            assert value["resultType"] in ("complete", "task"), value

    def _surfaced(self, member: Member, value: Json, call: Json) -> None:
        said = call["params"]["_meta"][f"{MCP}clientCapabilities"]
        needed = {entry["method"].split("/")[0] for entry in value.get("inputRequests", {}).values()}
        assert needed <= said.keys(), "a question that the request did not declare"
        state = value["requestState"]
        if not state.startswith("s"):
            assert state not in self.used, "a state is minted twice"
            self.used.add(state)
        member.states.append((state, call))

    def _told(self, member: Member, message: Json, params: Json) -> None:
        method, tag = message["method"], (params.get("_meta") or {}).get(TAG)
        if "id" in message:
            assert not member.modern, "a request for a modern host"
            member.asked.append(message["id"])
            return
        if method == "notifications/progress":
            assert params.get("of", member.principal) == member.principal, "progress for another host"
            assert json.dumps(params["progressToken"]) in self.tokens[params["nonce"]], "the token of another call"
        if not member.modern:
            assert tag is None, "a tag for a legacy host"
            return
        if method == "notifications/cancelled":
            assert json.dumps(params["requestId"]) in member.ended, "the end of what did not end by its result first"
            return
        if method in ("notifications/progress", "notifications/message"):
            assert tag is None
            return
        listen = member.listens.get(json.dumps(tag))
        assert listen is not None, f"a tag of no listen: {message}"
        if method == "notifications/subscriptions/acknowledged":
            assert not listen.acknowledged, "acknowledged twice"
            listen.acknowledged = True
            return
        assert listen.acknowledged, "something came before the acknowledgement"
        if method == "notifications/resources/updated":
            assert listen.uris
        else:
            assert method.split("/")[1] in listen.kinds, "a kind that was not asked for"

    # The end

    def settle(self) -> None:
        """Everybody answers everything, until nothing is open but listens."""
        if self.era is not None and not self.talk.mux.ready:
            self.die()
        if self.era is None:
            self.start()
        for _ in range(2000):
            if self.asked:
                asked = self.asked.pop(0)
                self.answered.append(asked)
                self._child(self._answer_to(asked, 6))
            elif unacknowledged := [at for at, told in self.listens.items() if not told]:
                self._after(lambda at=unacknowledged[0]: self._acknowledge(at))  # type: ignore[misc]
            elif waiting := [member for member in self.members if member.asked]:
                self._says(waiting[0], result(waiting[0].asked.pop(), ACCEPTED))
            else:
                # What is put off for a moment is done now.
                self._after(lambda: self.talk.passes(1.0))
                if not self.asked:
                    break
        for member in self.members:
            left = {text for text, count in member.waiting.items() if count}
            assert left == {text for text in member.listens if member.listens[text].acknowledged}, (
                f"{member.host.name} still waits for {left}, listens {member.listens}"
            )
            assert {identity.decode() for identity in self.talk.waiting(member.host)} == left

    def go(self) -> None:
        """Everybody leaves, and nothing is left."""
        for member in list(self.members):
            self.members.remove(member)
            self._after(member.host.leaves)
        while self.asked:
            self._child(self._answer_to(self.asked.pop(0), 6))
        # Nobody comes back for what was parked.
        self._after(lambda: self.talk.passes(600.0))
        while self.asked:
            self._child(self._answer_to(self.asked.pop(0), 6))
        mux = self.talk.mux
        talk, side = mux._talk, mux._modern
        assert not self.questions, "questions of the child without an answer"
        wanted = [self.filters[upstream] for upstream in self.listens]
        assert not any(one.get("resourceSubscriptions") for one in wanted), "listens that nobody wants"
        # The daemon itself listens for changes of lists, once.
        assert len(wanted) <= 1, "more listens than the daemon's own"
        assert not side.parking.calls
        assert not len(side.parking)
        assert not len(side.listening)
        assert not len(side.tunnels)
        assert not side.relay.calls
        assert not talk.sessions
        assert not talk.turns
        assert not [pending for pending in talk.pending.values() if pending.session is not None]
        assert not talk.held
        assert not talk.subscriptions
        assert not talk.callbacks
        assert not mux.busy


def _about(asked: Json) -> Json:
    """Return which and whose call a request is, nothing if it is none."""
    params = asked.get("params") or {}
    return {key: params[key] for key in ("nonce", "of") if key in params}
