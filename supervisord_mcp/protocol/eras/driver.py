"""Calls of legacy hosts at a modern child: each is driven through its rounds until it has a result (protocol.md 6.5).

A modern server does not ask its client; it answers ``input_required``, and the call is made again with what it wants to
know. A legacy host knows nothing of this: it made one call, is asked real questions meanwhile, and gets one answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import asking, calls, content, jsonrpc, mcp
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Alarm, Command, ToServer
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras import envelope, probe
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.pending import Pending
from supervisord_mcp.protocol.requests import tool

#: The only methods that may be answered with ``input_required`` (3.5, pitfall 32).
ASKING = frozenset({"tools/call", "prompts/get", "resources/read"})
#: How often a server may ask during one call; SDKs have the same cap (3.6).
MAX_ROUNDS = 10
#: How long to wait before a call is made again that was answered with a state only: the first and the longest wait.
FIRST_WAIT = 0.05
LONGEST_WAIT = 0.25

#: What a server may ask, and the capability that its client needs for it.
_NEEDS = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
#: Parameters that belong to one round (the last two) or do not exist in this era.
_OWN = ("task", "inputResponses", "requestState")


@dataclass(eq=False, slots=True)
class Call:
    """One request of a host: ``params`` have no envelope, ``finish`` takes the result that is final.

    ``failed`` is told that there is an error instead.

    ``upstream`` is the id of the present round, or of the last one while the host is asked. ``pending`` is what was
    pending for it. ``asking`` are the keys that are not answered yet, ``answers`` those that are, ``state`` is what
    the server wants to get back.
    """

    session: SessionKey
    identity: bytes
    method: str
    params: Members
    token: bytes | None
    finish: Callable[[Call, Raw], list[Command]]
    failed: Callable[[], None]
    upstream: int = 0
    pending: Pending | None = None
    rounds: int = 0
    renegotiated: bool = False
    asking: set[str] = field(default_factory=set)
    answers: dict[str, Text] = field(default_factory=dict)
    state: Raw | None = None
    alarm: Alarm | None = None


class Driver:
    """The calls at one child. ``version`` is the revision in which they are written."""

    def __init__(self, talk: Conversation) -> None:
        self._talk = talk
        self.version = mcp.NEWEST_MODERN
        # The calls of which nothing is at the child: their hosts are asked, or a wait is not over.
        self._between: dict[tuple[SessionKey, bytes], Call] = {}

    def __bool__(self) -> bool:
        return bool(self._between)

    # Towards the child

    def start(self, call: Call) -> list[Command]:
        """Make a call for the first time."""
        for key in _OWN if call.method in ASKING else ():
            call.params.pop(key, None)
        return self._send(call, {})

    def _send(self, call: Call, answers: dict[str, Text]) -> list[Command]:
        talk = self._talk
        attachment = talk.sessions[call.session]
        talk.last_id += 1
        call.upstream = talk.last_id
        # Its progress goes on from where the last round ended (pitfall 9).
        before = None if call.pending is None else call.pending.progress
        call.pending = talk.pending[call.upstream] = Pending(
            call.session,
            call.identity,
            call.method,
            call.token,
            progress=before,
            offset=before or 0,
            reply=lambda answer: self._answered(call, answer),
        )
        named = tool(call.method, call.params)
        opened = attachment.opens(calls.Call(call.session, call.identity, call.method, named, call.upstream))
        token = None if call.token is None else call.upstream
        told = envelope.write(jsonrpc.object_text({**call.params, **answers}), self.envelope(attachment), token)
        return [*opened, ToServer(jsonrpc.request_line(call.upstream, call.method, told))]

    def envelope(self, attachment: Attachment) -> Envelope:
        """Return what a request says of a host: what it can do, its name, the log level if it ever set one."""
        return Envelope(self.version, capabilities(attachment), attachment.client or None, attachment.level)

    # From the child

    def _answered(self, call: Call, answer: Message) -> list[Command]:
        raw = answer.members.get("result")
        if raw is None:
            return self._failed(call, answer)
        result = jsonrpc.members_of(raw)
        kind = jsonrpc.string_of(result["resultType"]) if "resultType" in result else "complete"
        if kind == "complete":
            return call.finish(call, raw)
        if kind == "input_required" and call.method in ASKING:
            return self._ask(call, result)
        # A task needs an extension that was not declared (pitfall 45), anything else is not known (pitfall 35).
        shown = bytes(result["resultType"])[:100].decode(errors="replace")
        return self.fail(call, f"answered {call.method} with resultType {shown}")

    def _failed(self, call: Call, answer: Message) -> list[Command]:
        if probe.refuses_version(answer) and not call.renegotiated:
            others = [v for v in probe.offered(answer) if v in mcp.MODERN_VERSIONS and v != self.version]
            if others:
                # The server refused before it did anything: the same call may be made in another revision.
                self.version, call.renegotiated = max(others), True
                return self._send(call, self._given(call))
        call.failed()
        attachment = self._talk.sessions[call.session]
        line = jsonrpc.encode({**answer.members, "id": Raw(call.identity)})
        return [*attachment.answer(call.identity, line)]

    # Rounds

    def _ask(self, call: Call, result: Members) -> list[Command]:
        call.rounds += 1
        state = result.get("requestState")
        call.state = None if state == jsonrpc.NULL else state
        call.answers = {}
        requests = result.get("inputRequests", jsonrpc.NULL)
        if requests != jsonrpc.NULL and not content.is_object(requests):
            return self.fail(call, "wants more input, but inputRequests is no object")
        wanted = jsonrpc.members_of(requests)
        if not wanted and call.state is None:
            return self.fail(call, "wants more input, but does not say which")
        if call.rounds > MAX_ROUNDS:
            return self._give_up(call, f"still wants more input after {MAX_ROUNDS} rounds")
        self._talk.sessions[call.session].open[call.identity].upstream = None
        self._between[call.session, call.identity] = call
        return self._question(call, wanted) if wanted else self._wait(call)

    def _question(self, call: Call, wanted: Members) -> list[Command]:
        attachment = self._talk.sessions[call.session]
        questions: dict[str, tuple[str, Text | None]] = {}
        for key, raw in wanted.items():
            entry = jsonrpc.members_of(raw)
            method = jsonrpc.string_of(entry.get("method")) or ""
            try:
                questions[key] = method, self._asked(attachment, method, entry.get("params"))
            except FramingError as error:
                return self._give_up(call, f"asks for what this host cannot answer: {error.message}")
        call.asking = set(questions)
        commands: list[Command] = []
        for key, (method, params) in questions.items():
            reply = self._reply(call, key)
            commands += self._talk.callbacks.ask(call.session, method, params, call.upstream, reply)
        return commands

    def _asked(self, attachment: Attachment, method: str, params: Text | None) -> Text | None:
        """Return the parameters for a real request to the host. Raise `FramingError` if it cannot be asked.

        Servers do ask for what was not declared (3.6); a host must not see that (pitfall 33).
        """
        needed = _NEEDS.get(method)
        declared = capabilities(attachment)
        if needed is None or needed not in declared:
            raise FramingError(f"{method or 'something without a method'} is not supported", jsonrpc.METHOD_NOT_FOUND)
        if params is not None and not content.is_object(Raw(params)):
            raise FramingError(f"{method} with parameters that are no object", jsonrpc.INVALID_PARAMS)
        members = jsonrpc.members_of(params)
        mode = jsonrpc.string_of(members.get("mode")) or "form"
        if needed == "elicitation" and mode not in _modes(declared[needed]):
            raise FramingError(f"elicitation in mode {mode} is not supported", jsonrpc.INVALID_PARAMS)
        if needed == "sampling" and not {"tools", "toolChoice"}.isdisjoint(members) and "tools" not in declared[needed]:
            raise FramingError("sampling with tools is not supported", jsonrpc.INVALID_PARAMS)
        if params is None:
            return None
        told = asking.older_params(method, params, attachment.version, self._talk.entropy(16).hex())
        return asking.without_context(told, declared, attachment.version) if needed == "sampling" else told

    def _reply(self, call: Call, key: str) -> Callable[[Message | None], list[Command]]:
        def reply(answer: Message | None) -> list[Command]:
            return self._replied(call, key, answer)

        return reply

    def _replied(self, call: Call, key: str, answer: Message | None) -> list[Command]:
        """A host answered one question of a round, or none will (None): then the call is over already."""
        if key not in call.asking:
            return []
        if answer is None:
            self._forget(call)
            return []
        if "result" not in answer.members:
            return self._give_up(call, f"could not be given what it asked for: {probe.error_text(answer)}")
        call.asking.discard(key)
        call.answers[key] = answer.members["result"]
        if call.asking:
            return []
        return self._again(call)

    def _wait(self, call: Call) -> list[Command]:
        """The server only wants its state back: not at once, or it would be asked without a pause."""
        seconds = min(FIRST_WAIT * 2 ** (call.rounds - 1), LONGEST_WAIT)
        call.alarm = self._talk.alarms.after(seconds, lambda: self._again(call))
        return [call.alarm]

    def _again(self, call: Call) -> list[Command]:
        """Make the call again, under a new id (pitfall 31), with the same arguments and what was asked for."""
        self._forget(call)
        return self._send(call, self._given(call))

    @staticmethod
    def _given(call: Call) -> dict[str, Text]:
        """Return what the present round adds: the answers, and the state byte for byte if there was one (30)."""
        given: dict[str, Text] = {}
        if call.answers:
            given["inputResponses"] = jsonrpc.object_text(call.answers)
        if call.state is not None:
            given["requestState"] = call.state
        return given

    # The end

    def fail(self, call: Call, text: str) -> list[Command]:
        """Answer a call with an error: the server did what it must not do."""
        told = f"server '{self._talk.server}' {text}"
        attachment = self._talk.sessions[call.session]
        return self._talk.fail(attachment, call.identity, jsonrpc.INTERNAL_ERROR, told)

    def _give_up(self, call: Call, text: str) -> list[Command]:
        """Answer a call that cannot go on: a tool says so as its result, so that the model sees why (6.5 step 5)."""
        self._forget(call)
        withdrawn = self._talk.callbacks.end(call.upstream)
        if call.method != "tools/call":
            return [*withdrawn, *self.fail(call, text)]
        told = f"server '{self._talk.server}' {text}"
        result = {"content": [{"type": "text", "text": told}], "isError": True}
        attachment = self._talk.sessions[call.session]
        return [*withdrawn, *self._talk.succeed(attachment, call.identity, jsonrpc.text_of(result))]

    def _forget(self, call: Call) -> None:
        self._between.pop((call.session, call.identity), None)
        self._talk.alarms.forget(call.alarm)
        call.alarm = None
        call.asking = set()

    def cancel(self, session: SessionKey, identity: bytes) -> list[Command]:
        """A host gives up a call of which nothing is at the child: nobody is asked for it any more (6.4)."""
        call = self._between.get((session, identity))
        if call is None:
            return []
        self._forget(call)
        return self._talk.callbacks.end(call.upstream)

    def leave(self, session: SessionKey) -> list[Command]:
        """A host is gone, or moves on: so are its calls."""
        mine = [identity for key, identity in self._between if key == session]
        return [command for identity in mine for command in self.cancel(session, identity)]

    def child_lost(self) -> None:
        """The child is gone; its calls are answered by whoever noticed that."""
        for call in list(self._between.values()):
            self._forget(call)


def capabilities(attachment: Attachment) -> dict[str, Any]:
    """Return what a modern server is told that a legacy host can do (6.5 step 1): nothing that it cannot be asked."""
    told = mcp.relayed_capabilities(attachment.capabilities, attachment.version)
    if isinstance(told.get("roots"), dict):
        told["roots"] = {key: value for key, value in told["roots"].items() if key != "listChanged"}
    return {key: value if isinstance(value, dict) else {} for key, value in told.items()}


def _modes(declared: dict[str, Any]) -> set[str]:
    """Return the modes of elicitation; an empty capability means forms only (pitfall 42)."""
    return set(declared) or {"form"}
