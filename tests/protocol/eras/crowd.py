"""The crowd around a modern child: it asks for input, serves listens, and everybody does anything in any order."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hypothesis import strategies as st

from supervisord_mcp.protocol.calls import SessionKey
from tests.kit.conversation import Talk, cancelled, complete, discovered, needs, notification, progress
from tests.protocol.crowd import URIS, Crowd, Draw, Member
from tests.protocol.eras.talking import FORM, PINNED, acknowledged, tagged

CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
    "logging": {},
}


class ModernCrowd(Crowd):
    """Everybody, and the referee, who also knows which question belongs to which host."""

    def __init__(self) -> None:
        super().__init__(relay=False)
        self.talk = Talk(terms=PINNED)
        self.listens: list[int] = []
        self.questions: dict[SessionKey, list[int]] = defaultdict(list)

    def moves(self) -> Any:
        """Return the moves of every crowd, and that time passes."""
        return {**super().moves(), "time": self.wait}

    def wait(self, draw: Draw) -> None:
        """Time passes: what waits for that goes on."""
        self._after(lambda: self.talk.passes(draw(st.sampled_from([0.05, 1, 60]))))

    def die(self, _draw: Draw | None = None) -> None:
        """The child is gone, and its listens with it."""
        self.listens.clear()
        super().die()

    # The child

    def answer(self, draw: Draw) -> None:
        """The child answers one of the requests it has, not in their order."""
        asked = self.asked.pop(draw(st.integers(0, len(self.asked) - 1)))
        self._reply(asked, draw(st.integers(0, 6)))

    def _reply(self, asked: dict[str, Any], mood: int) -> None:
        identity, method = asked["id"], asked["method"]
        meta = asked["params"]["_meta"]
        assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
        if mood == 0:
            self.answered.append(asked)
            self._child({"jsonrpc": "2.0", "id": identity, "error": {"code": -32603, "message": "no"}})
        elif method == "subscriptions/listen":
            wanted = asked["params"]["notifications"]
            self.listens.append(identity)
            self._child(acknowledged(identity, **({} if mood == 3 else wanted)))
        else:
            self.answered.append(asked)
            value = self._result(asked, mood)
            self._child({"jsonrpc": "2.0", "id": str(identity) if mood == 5 else identity, "result": value})

    def _result(self, asked: dict[str, Any], mood: int) -> dict[str, Any]:
        arguments = asked["params"].get("arguments") or {}
        match asked["method"]:
            case "server/discover":
                return discovered(CAPABILITIES)
            case "tools/call":
                state = json.dumps([arguments, mood])
                if mood == 3:
                    question = {"method": "elicitation/create", "params": {**FORM, "of": arguments["of"]}}
                    return needs({"k": question, "r": {"method": "roots/list"}}, state)
                return needs(state=state) if mood == 4 else complete(arguments)
            case "tools/list":
                more = {} if "cursor" in asked["params"] else {"nextCursor": ""}
                return {**complete({"tools": [{"name": str(mood)}]}), "ttlMs": mood * 100, **more}
        return needs(state="s") if mood == 4 else complete()

    def child_says(self, draw: Draw) -> None:
        """The child says something for a listen, ends one, reports, or says what it must not say."""
        tag = draw(st.sampled_from([*self.listens, 4711]))
        about = draw(st.sampled_from([*self.asked, *self.answered, {"id": "x", "params": {}}]))
        report = progress(about["id"], draw(st.integers(0, 9)))
        report["params"].update((about["params"] or {}).get("arguments") or {"of": -1})
        said = draw(
            st.sampled_from(
                [
                    tagged("notifications/resources/updated", tag, {"uri": draw(URIS)}),
                    tagged("notifications/tools/list_changed", tag),
                    notification("notifications/tools/list_changed"),
                    notification("notifications/message", {"level": "error", "data": 1}),
                    report,
                    cancelled(tag),
                    {"jsonrpc": "2.0", "id": tag, "result": complete()},
                    {"jsonrpc": "2.0", "id": "q", "method": "roots/list"},
                    "noise",
                ]
            )
        )
        if said in (cancelled(tag), {"jsonrpc": "2.0", "id": tag, "result": complete()}) and tag in self.listens:
            self.listens.remove(tag)
        self._child(said)

    # The referee

    def _to_child(self, message: dict[str, Any]) -> None:
        if message.get("method") == "notifications/cancelled":
            gone = message["params"]["requestId"]
            self.listens = [listen for listen in self.listens if listen != gone]
            return
        params = message.get("params") or {}
        if "requestState" not in params:
            super()._to_child(message)
            return
        arguments, mood = json.loads(params["requestState"])
        assert arguments == params["arguments"], "the state of another call"
        assert ("inputResponses" in params) == (mood == 3)
        for reply in params.get("inputResponses", {}).values():
            assert reply.get("of", arguments["of"]) == arguments["of"], "the answer of another host"
        if self.runs:
            self.asked.append(message)

    def _to_host(self, member: Member, line: str) -> None:
        super()._to_host(member, line)
        if line.startswith("{") and "method" in (message := json.loads(line)) and "id" in message:
            self.questions[member.host.key].append(message["id"])

    # The end

    def settle(self) -> None:
        """The child answers everything, and the hosts what they are asked, until nothing is open any more."""
        if self.runs and not self.talk.mux.ready:
            self.die()
        if not self.runs:
            self.start()
        for _ in range(300):
            if not (self.asked or any(self.questions.values()) or self.talk.mux._talk.bridge):
                break
            if self.asked:
                self._reply(self.asked.pop(0), 1)
                continue
            for member in self.members:
                for question in self.questions.pop(member.host.key, []):
                    reply = {"jsonrpc": "2.0", "id": question, "result": {"of": member.host.key}}
                    self._says(member, json.dumps(reply))
            self.questions.clear()
            self._after(lambda: self.talk.passes(60))
        super().settle()

    def go(self) -> None:
        """Everybody leaves, and nothing is left."""
        for member in list(self.members):
            self.members.remove(member)
            self._after(member.host.leaves)
        while self.asked:
            self._reply(self.asked.pop(0), 1)
        talk = self.talk.mux._talk
        bridge: Any = talk.bridge
        assert not bridge
        assert not bridge._uris
        assert len(bridge.listens._open) <= 1, "only the listen for lists stays"
        assert talk.pending.keys() == bridge.listens._open.keys()
        self.die()
        super().go()
        self._after(lambda: self.talk.passes(100))
        assert len(talk.alarms) == 0
        assert not bridge.listens._open
