"""Calls of modern hosts that wait for a person: a legacy child asks, a modern host cannot be asked (protocol.md 6.5).

What a legacy child asks during a call (`elicitation/create`, `sampling/createMessage`, `roots/list`) becomes the
entries of an ``input_required`` answer to that call, which itself stays open at the child: it is *parked*. The answer
carries a ``requestState`` that nobody can guess and that holds for one principal, one method, the same parameters and
some time, and no longer than the child. The retry with it answers the child and takes the call over, exactly once
(pitfall 34). It may come on any connection of the principal: an answered call is not bound to the one it came on.

A legacy server that sends a person to a web page by the error -32042 ends its call; its retry is a call anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Raw

from supervisord_mcp.errors import FramingError
from supervisord_mcp.protocol import calls, jsonrpc, requests
from supervisord_mcp.protocol.asking import entry_within, input_request
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.callbacks import refusal
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Alarm, Command, ToServer
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras.envelope import SERVER_INFO, Envelope
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text

#: The requests that may be answered with ``input_required`` (protocol.md 0.1#6; pitfall 32).
PARKABLE = frozenset({"tools/call", "prompts/get", "resources/read"})
#: For how long the siblings of a question are waited for before the host is told, in seconds.
GATHERING = 0.005
#: For how long a parked call waits for its retry, in seconds.
PATIENCE = 600.0
#: How long a host that left may take to come back on another connection while the child waits for what it is asked, in
#: seconds. After that it is gone, and the child must not stay blocked (6.5 step 6, pitfall 12).
RETURNING = 10.0
#: How many random bytes a ``requestState`` is made of.
_STATE_BYTES = 24
#: What a retry adds to its request.
RETRY = ("inputResponses", "requestState")
#: Parameters that do not tell one request from another.
_VOLATILE = frozenset({"_meta", *RETRY})

STALE = "Invalid or expired requestState"


@dataclass(slots=True)
class Question:
    """A request of the child that waits for the retry: its id as raw text (empty: none), and what it asks.

    ``others`` are the other calls of the host that it may belong to, by their upstream ids.
    """

    identity: bytes
    method: str
    entry: bytes
    others: tuple[int, ...] = ()

    @property
    def params(self) -> Members:
        """The parameters, as the host sees them."""
        return jsonrpc.members_of(jsonrpc.members_of(self.entry).get("params"))


@dataclass(slots=True)
class Parked:
    """What the host of a call is asked, by the keys that it sees.

    ``state`` is None until the host was told, of the questions with the keys in ``told``; ``answered`` is the id that
    was answered with it. ``outcome`` is how the call ended while it was parked.
    """

    questions: dict[str, Question] = field(default_factory=dict)
    state: str | None = None
    told: frozenset[str] = frozenset()
    answered: bytes = b""
    alarm: Alarm | None = None
    outcome: Message | None = None


@dataclass(slots=True)
class Call:
    """A request of a modern host at a legacy child: whose, what it says of its sender, and what it was in full.

    ``session`` is the connection of its last request, which may be gone while the call is parked; ``principal`` is who
    may retry it. ``upstream`` is None for a call that is over and whose retry is a call anew. ``asked`` counts its
    questions.
    """

    session: SessionKey
    principal: str
    identity: bytes
    method: str
    said: Envelope
    params: Members
    upstream: int | None = None
    parked: Parked | None = None
    asked: int = 0


#: Answers a call of a host with what the child answered.
Deliver = Callable[[Call, Message], list[Command]]


class Parking:
    """The calls of the modern hosts of one legacy child, and those of them that are parked."""

    def __init__(self, conversation: Conversation, deliver: Deliver) -> None:
        self._talk = conversation
        self._deliver = deliver
        self.calls: dict[int, Call] = {}
        self._states: dict[str, Call] = {}

    def __len__(self) -> int:
        return len(self._states)

    # The child asks

    def park(self, session: SessionKey, upstream: tuple[int, ...], message: Message) -> list[Command]:
        """The child asks something during calls of a modern host (6.5, second bridge, steps 2 and 3).

        Nothing says during which of them: it is told to the newest that can ask it, and to another if that one ends.
        """
        assert message.method is not None
        assert message.id is not None
        calls = [self.calls[at] for at in upstream if at in self.calls and self.calls[at].session == session]
        calls = [call for call in calls if call.method in PARKABLE]
        if not calls:
            text = f"{message.method} came during a request that cannot ask anybody"
            return [ToServer(jsonrpc.error_line(message.id, jsonrpc.METHOD_NOT_FOUND, text))]
        faults = [refused(call.said.capabilities, message.method, message.params()) for call in calls]
        able = [call for call, fault in zip(calls, faults, strict=True) if fault is None]
        if (fault := faults[-1]) is not None and not able:
            return [ToServer(jsonrpc.error_line(message.id, *fault))]
        entry = input_request(message.method, message.members.get("params"))
        *others, call = able
        also = tuple(other.upstream for other in others if other.upstream is not None)
        return self._ask(call, Question(message.id, message.method, entry, also))

    def _ask(self, call: Call, question: Question) -> list[Command]:
        if call.parked is None:
            call.parked = Parked()
        call.asked += 1
        call.parked.questions[f"r{call.asked}"] = question
        if call.parked.alarm is not None:
            return []  # its host is told soon, or when it comes back
        call.parked.alarm = self._talk.alarms.after(GATHERING, lambda: self._tell(call))
        return [call.parked.alarm]

    def ask_for_pages(self, call: Call, entries: dict[str, bytes]) -> list[Command]:
        """A call ended because a person has to visit web pages first: the retry is a call anew (step 7)."""
        call.upstream = None
        call.parked = Parked({key: Question(b"", "elicitation/create", entry) for key, entry in entries.items()})
        return self._tell(call)

    def withdrawn(self, identity: bytes, _params: Members) -> list[Command]:
        """The child gave up one of its requests: it must not be answered any more."""
        for parked in self._asking():
            for key, question in parked.questions.items():
                if question.identity == identity:
                    del parked.questions[key]
                    return []
        return []

    def _asking(self) -> list[Parked]:
        """Return what hosts are asked by the child that runs, also for calls that are over by now."""
        parked = [call.parked for call in self.calls.values() if call.parked is not None]
        over = [call.parked for call in self._states.values() if call.parked is not None]
        return [*parked, *(one for one in over if one.outcome is not None)]

    def _tell(self, call: Call) -> list[Command]:
        """Answer the host with what it is asked; its call is parked from now on."""
        parked = call.parked
        assert parked is not None
        if not parked.questions:
            call.parked = None  # all were withdrawn
            return []
        attachment = self._talk.sessions[call.session]
        parked.state = self._talk.entropy(_STATE_BYTES).hex()
        parked.answered, parked.told = call.identity, frozenset(parked.questions)
        parked.alarm = self._talk.alarms.after(PATIENCE, lambda: self._expire(call))
        self._states[parked.state] = call
        if call.upstream is not None:
            pending = self._talk.pending[call.upstream]
            # Nothing about a parked call reaches the host, progress included (6.4).
            pending.identity, pending.token = b"", None
        line = jsonrpc.result_line(call.identity, self._result(parked, call.said))
        told: list[Command] = [parked.alarm, *attachment.answer(call.identity, line)]
        return told if call.said.level is None else [*told, *self._talk.raise_level()]

    def _result(self, parked: Parked, said: Envelope) -> bytes:
        asked = parked.questions.items()
        entries = {key: entry_within(question.entry, said.capabilities) for key, question in asked}
        members: dict[str, Text] = {
            "resultType": b'"input_required"',
            "inputRequests": jsonrpc.object_text(entries),
            "requestState": jsonrpc.text_of(parked.state),
        }
        server = self._talk.discovery.server_info
        if server is not None:
            members["_meta"] = jsonrpc.object_text({SERVER_INFO: server})
        return jsonrpc.object_text(members)

    # The host comes back

    def find(self, params: Members) -> Call | None:
        """Given the parameters of a request, return the parked call that it retries, if it is one of ours."""
        state = jsonrpc.string_of(params.get("requestState"))
        return None if state is None else self._states.get(state)

    def retry(self, attachment: Attachment, message: Message, said: Envelope, call: Call) -> list[Command] | None:
        """Take a call over with its retry (step 4); return None if the retry is to be sent as a call anew.

        Raise `FramingError` if it is another request, or its answers are none; then the call stays as it was.
        """
        parked, params, identity = call.parked, message.params(), message.id
        assert parked is not None
        assert identity is not None
        ours = call.principal == attachment.principal
        if not ours or call.method != message.method or not same(call.params, params):
            raise FramingError(STALE, jsonrpc.INVALID_PARAMS)
        answers = _answers(params, parked)
        given = requests.token(params)
        self._unpark(parked)
        call.session, call.identity, call.said = attachment.key, identity, said
        if call.upstream in self._talk.pending:
            self._talk.pending[call.upstream].session = attachment.key
        commands = self._hand_on(parked, answers, said)
        if parked.outcome is not None:
            call.parked = None
            return [*commands, *self._moot(parked), *self._deliver(call, parked.outcome)]
        if parked.questions:
            return [*commands, *self._tell(call)]
        call.parked = None
        if call.upstream is None:
            return None
        return [*self._bind(attachment, call, given), *commands]

    @staticmethod
    def _hand_on(parked: Parked, answers: dict[str, Text], said: Envelope) -> list[Command]:
        """Answer the child what the retry answers, and what the retry cannot be asked any more (pitfall 33)."""
        commands: list[Command] = []
        for key, question in list(parked.questions.items()):
            if key in answers:
                told = jsonrpc.result_line(question.identity, answers[key])
            elif (fault := refused(said.capabilities, question.method, question.params)) is not None:
                told = jsonrpc.error_line(question.identity, *fault)
            else:
                continue
            del parked.questions[key]
            if question.identity:
                commands.append(ToServer(told))
        return commands

    def _bind(self, attachment: Attachment, call: Call, given: bytes | None) -> list[Command]:
        """A retry, with its own progress token, waits from now on for the answer to the call that was parked."""
        assert call.upstream is not None
        pending = self._talk.pending[call.upstream]
        pending.identity, pending.token = call.identity, given
        level = [] if call.said.level is None else self._talk.raise_level()
        tool = requests.tool(call.method, call.params)
        opened = attachment.opens(calls.Call(attachment.key, call.identity, call.method, tool, call.upstream))
        return [*opened, *level]

    # The call ends

    def finished(self, upstream: int, answer: Message) -> tuple[Call, list[Command]]:
        """The child answered a call; return it, and what follows. A parked one keeps the answer (step 5)."""
        call = self.calls.pop(upstream)
        parked = call.parked
        if parked is None or parked.state is None:
            return call, self._forget(call)
        # What may have been asked during another call is still waited for.
        kept = {key: asked for key, asked in parked.questions.items() if self._elsewhere(asked) is not None}
        over = Parked({key: asked for key, asked in parked.questions.items() if key not in kept})
        parked.questions, parked.outcome = kept, answer
        return call, self._moot(over)

    def _elsewhere(self, asked: Question) -> Call | None:
        """Return another call that is not over and that a question may belong to."""
        return next((self.calls[at] for at in reversed(asked.others) if at in self.calls), None)

    def _moot(self, parked: Parked) -> list[Command]:
        """A call is over: what the child asked is told to another call, or refused if there is none (pitfall 49)."""
        commands: list[Command] = []
        for asked in [asked for asked in parked.questions.values() if asked.identity]:
            other = self._elsewhere(asked)
            if other is None:
                commands.append(refusal(asked.identity, asked.method))
            else:
                others = tuple(at for at in asked.others if at != other.upstream)
                commands += self._ask(other, replace(asked, others=others))
        return commands

    def give_up(self, upstream: int) -> list[Command]:
        """A call that is not parked is cancelled by its host: so is what was asked for it (pitfall 12)."""
        call = self.calls.pop(upstream, None)
        return [] if call is None else self._forget(call)

    def cancel(self, session: SessionKey, identity: bytes) -> list[Command]:
        """A host cancels a request that was answered with ``input_required``: it will not come back (6.4)."""
        for call in list(self._states.values()):
            if call.session == session and call.parked is not None and call.parked.answered == identity:
                return self._drop(call, "the host gave the call up")
        return []

    def reused(self, session: SessionKey, identity: bytes) -> None:
        """A host uses an id again that was answered: what it cancels by it from now on is another request."""
        for call in self._states.values():
            if call.session == session and call.parked is not None and call.parked.answered == identity:
                call.parked.answered = b""

    def leave(self, session: SessionKey, *, for_good: bool) -> list[Command]:
        """A connection is gone: so are its calls, but those that are parked wait for another one of its principal.

        Where none can come, ``for_good``, they are answered for and cancelled at once (step 6).
        """
        commands: list[Command] = []
        for call in [call for call in self._states.values() if call.session == session]:
            commands += self._drop(call, "the host is gone") if for_good else self._wait_for_return(call)
        for upstream in [at for at, call in self.calls.items() if call.session == session and not _told(call)]:
            commands += self.give_up(upstream)
        return commands

    def _wait_for_return(self, call: Call) -> list[Command]:
        """The host of a parked call is gone. What does not keep the child waiting has the time that it had."""
        parked = call.parked
        assert parked is not None
        parked.answered = b""  # no id of the next connection means this one
        if call.upstream not in self.calls:
            return []
        self._talk.alarms.forget(parked.alarm)
        parked.alarm = self._talk.alarms.after(RETURNING, lambda: self._drop(call, "the host is gone"))
        return [parked.alarm]

    def child_lost(self) -> None:
        """The child is gone, and with it every state: its retry is stale, whatever it was about (6.8, pitfall 56)."""
        for call in [*self._states.values(), *self.calls.values()]:
            parked, call.parked = call.parked, None
            if parked is not None:
                self._unpark(parked)
        self.calls.clear()

    def stopping(self) -> list[Command]:
        """The child is about to be stopped: it must not wait for people (pitfall 49)."""
        commands: list[Command] = []
        for parked in self._asking():
            questions, parked.questions = parked.questions, {}
            commands += [refusal(asked.identity, asked.method) for asked in questions.values()]
        return commands

    def _expire(self, call: Call) -> list[Command]:
        return self._drop(call, "nobody answered what was asked for this call")

    def _drop(self, call: Call, reason: str) -> list[Command]:
        """A parked call is not waited for any more."""
        commands = self._forget(call)
        if call.upstream is None or self.calls.pop(call.upstream, None) is None:
            return commands
        return [*commands, *self._talk.cancel_upstream(call.upstream, {"reason": Raw(jsonrpc.text_of(reason))})]

    def _forget(self, call: Call) -> list[Command]:
        parked, call.parked = call.parked, None
        if parked is None:
            return []
        self._unpark(parked)
        return self._moot(parked)

    def _unpark(self, parked: Parked) -> None:
        self._talk.alarms.forget(parked.alarm)
        parked.alarm = None
        if parked.state is not None:
            del self._states[parked.state]
            parked.state = None


def _told(call: Call) -> bool:
    """Whether a call is parked, and its host knows."""
    return call.parked is not None and call.parked.state is not None


def same(first: Members, second: Members) -> bool:
    """Whether two requests of a method are the same one, by the value of their parameters (3.6; pitfall 30).

    The order of members and the way a string is escaped do not matter, the type of a number does.
    """
    first, second = _lasting(first), _lasting(second)
    return first.keys() == second.keys() and all(
        text == second[key] or _canonical(text) == _canonical(second[key]) for key, text in first.items()
    )


def _lasting(params: Members) -> Members:
    return {key: text for key, text in params.items() if key not in _VOLATILE}


def _canonical(text: Text) -> str:
    value = jsonrpc.value_of(text)
    if value is None:  # null, or what cannot be decoded (1e400, half a surrogate pair)
        return bytes(text).strip().decode(errors="replace")
    return json.dumps(value, sort_keys=True)


def _answers(params: Members, parked: Parked) -> dict[str, Text]:
    """Return what a retry answers of what was asked. Raise `FramingError` if an answer is none of its kind."""
    raw = params.get("inputResponses")
    if raw is not None and not isinstance(jsonrpc.value_of(raw), dict):
        raise FramingError("inputResponses must be an object", jsonrpc.INVALID_PARAMS)
    given = jsonrpc.members_of(raw)
    answers: dict[str, Text] = {}
    for key, question in parked.questions.items():
        if key not in given or key not in parked.told:
            continue
        if not _fits(question.method, given[key]):
            raise FramingError(f"inputResponses.{key} is no result of {question.method}", jsonrpc.INVALID_PARAMS)
        answers[key] = given[key]
    return answers


def _fits(method: str, answer: Text) -> bool:
    """Whether a bare result is one of the method, as far as the child depends on it."""
    value = jsonrpc.members_of(answer)
    match method:
        case "elicitation/create":
            return jsonrpc.string_of(value.get("action")) in ("accept", "decline", "cancel")
        case "roots/list":
            return isinstance(jsonrpc.value_of(value.get("roots")), list)
        case _:
            return "content" in value and jsonrpc.string_of(value.get("role")) is not None


def refused(capabilities: dict[str, Any], method: str, params: Members) -> tuple[int, str] | None:
    """Return why a request's own capabilities do not allow a question (pitfall 33): the code and the text."""
    match method:
        case "roots/list" if "roots" in capabilities:
            return None
        case "sampling/createMessage" if "sampling" in capabilities:
            if asks_for_tools(params) and not takes_tools(capabilities):
                return jsonrpc.INVALID_PARAMS, "the client does not support tools in sampling"
            return None
        case "elicitation/create" if "elicitation" in capabilities:
            mode = jsonrpc.string_of(params.get("mode")) or "form"
            if takes(capabilities, mode):
                return None
            return jsonrpc.INVALID_PARAMS, f"the client does not support elicitation in mode {mode}"
    return jsonrpc.METHOD_NOT_FOUND, f"Method not found: {method} (the client does not offer it)"


def asks_for_tools(params: Members) -> bool:
    """Whether a sampling request is one with tools, which needs a capability of its own (protocol.md 1.2)."""
    return not {"tools", "toolChoice"}.isdisjoint(params)


def takes_tools(capabilities: dict[str, Any]) -> bool:
    """Whether a sender can be asked for sampling with tools."""
    declared = capabilities.get("sampling")
    return isinstance(declared, dict) and "tools" in declared


def takes(capabilities: dict[str, Any], mode: str) -> bool:
    """Whether a sender can be asked in that mode; an empty capability means forms only (pitfall 42)."""
    declared = capabilities.get("elicitation")
    modes = declared if isinstance(declared, dict) else {}
    return "elicitation" in capabilities and (mode in modes or (mode == "form" and not modes))
