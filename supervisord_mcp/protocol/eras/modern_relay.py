"""Modern hosts at a modern child: the column "MC to MS" of protocol.md 6.4.

Both sides speak the same language, so requests and answers pass as they are, envelope, ``inputResponses`` and
``requestState`` included. What the daemon changes is what many hosts at one child must not share: ids, progress tokens
and the tags of listens. What it refuses is what a client would have to take for invalid (pitfalls 32, 33, 45), and
tasks of other hosts. A ``requestState`` needs no table: an instance has one child, so a retry reaches the child that
minted it, or its successor, which rejects it by itself (6.8).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Raw

from supervisord_mcp.protocol import asking, jsonrpc, mcp, requests
from supervisord_mcp.protocol.attachment import Attachment
from supervisord_mcp.protocol.calls import SessionKey
from supervisord_mcp.protocol.commands import Command, ToServer
from supervisord_mcp.protocol.conversation import Conversation
from supervisord_mcp.protocol.eras import cache, offers
from supervisord_mcp.protocol.eras.cache import Cache, Question, Ticket
from supervisord_mcp.protocol.eras.envelope import MISSING_CAPABILITY, UNSUPPORTED_VERSION, Envelope
from supervisord_mcp.protocol.eras.listening import TASKS, declares
from supervisord_mcp.protocol.eras.parking import PARKABLE, asks_for_tools, refused
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.pending import Pending, Reply

#: Requests of the tasks extension; each names one task (protocol.md 3.13).
BY_TASK = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})


@dataclass(frozen=True, slots=True)
class Relayed:
    """A request of a modern host at a modern child. ``ticket`` is for keeping its answer (3.11)."""

    session: SessionKey
    identity: bytes
    method: str
    said: Envelope
    task: str | None = None
    ticket: Ticket | None = None


@dataclass(slots=True)
class ModernRelay:
    """The requests of modern hosts at one modern child, listens excepted (`tunnels`)."""

    talk: Conversation
    cache: Cache
    calls: dict[int, Relayed] = field(default_factory=dict)

    # Towards the child

    def request(self, attachment: Attachment, message: Message, identity: bytes, said: Envelope) -> list[Command]:
        """Pass a request on. Raise `FramingError` if it is malformed."""
        assert message.method is not None
        method, params = message.method, message.params()
        task = jsonrpc.string_of(params.get("taskId")) if method in BY_TASK else None
        if method in BY_TASK and (refusal := self._objection(attachment, identity, said, task)) is not None:
            return refusal
        if method in mcp.LISTINGS and (stale := self.talk.begin_list(attachment, message, identity)):
            return stale
        asked = question_of(method, params, cache.client_of(attachment.principal, said.capabilities))
        known = None if asked is None else self.cache.find(asked)
        if known is not None:
            return self._again(attachment, method, identity, known)
        ticket = None if asked is None else self.cache.asked(asked)
        call = Relayed(attachment.key, identity, method, said, task, ticket)
        upstream, sent = forward(self.talk, attachment, message, lambda answer: self._answered(upstream, answer))
        self.calls[upstream] = call
        return sent if method not in mcp.LISTINGS else [*sent, *self.talk.discovery.asked()]

    def _objection(
        self, attachment: Attachment, identity: bytes, said: Envelope, task: str | None
    ) -> list[Command] | None:
        """Refuse a request about a task that the host may not touch, or without the extension (6.7, pitfall 44)."""
        if not declares(said, TASKS):
            needed: dict[str, object] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            text = "this request needs the tasks extension"
            return self.talk.fail(attachment, identity, MISSING_CAPABILITY, text, needed)
        if not self.talk.tasks.claim(attachment, task):
            return self.talk.fail(attachment, identity, jsonrpc.INVALID_PARAMS, "Task not found")
        return None

    def _again(self, attachment: Attachment, method: str, identity: bytes, known: bytes) -> list[Command]:
        """Answer with what the child said a while ago, for how much of its time is left is not known (3.11)."""
        if method == "server/discover":
            return self.talk.succeed(attachment, identity, offers.served(known, ttlMs=b"0"))
        members = jsonrpc.members_of(known)
        self.talk.note_page(attachment, method, members)
        return self.talk.succeed(attachment, identity, jsonrpc.object_text({**members, "ttlMs": b"0"}))

    # From the child

    def _answered(self, upstream: int, answer: Message) -> list[Command]:
        call = self.calls.pop(upstream)
        attachment = self.talk.sessions[call.session]
        result = answer.members.get("result")
        if call.task is not None:
            self.talk.tasks.answered(call.task, call.method, answer)
        kept: list[Command] = []
        if result is not None:
            objection = self._invalid(attachment, call, result)
            if objection is not None:
                return objection
            members = jsonrpc.members_of(result)
            self.talk.note_page(attachment, call.method, members)
            if call.ticket is not None and jsonrpc.string_of(members.get("resultType")) in (None, "complete"):
                kept = self.cache.answered(call.ticket, result)
            if call.method == "server/discover":
                answer.members["result"] = Raw(offers.served(result))
            elif jsonrpc.string_of(members.get("resultType")) == "input_required":
                answer.members["result"] = Raw(_within(result, call.said))
            elif jsonrpc.string_of(members.get("resultType")) == "task":
                pending = Pending(call.session, call.identity, call.method)
                kept += self.talk.tasks.created(pending, jsonrpc.object_text({"task": result}), upstream)
        else:
            if call.ticket is not None:
                self.cache.failed(call.ticket.question)
            answer.members["error"] = Raw(_served(answer.members["error"]))
        answer.members["id"] = Raw(call.identity)
        return [*kept, *attachment.answer(call.identity, jsonrpc.encode(answer.members))]

    def _invalid(self, attachment: Attachment, call: Relayed, result: Text) -> list[Command] | None:
        """Refuse a result that the request does not allow. What is merely unknown is the host's to judge (3.5)."""
        members = jsonrpc.members_of(result)
        kind = jsonrpc.string_of(members.get("resultType"))
        allowed = {"input_required": call.method in PARKABLE, "task": declares(call.said, TASKS)}
        if not allowed.get(kind or "", True) or (kind == "task" and call.method != "tools/call"):
            text = f"server '{self.talk.server}' answered {call.method} with resultType {kind}, which nobody asked for"
            return self.talk.fail(attachment, call.identity, jsonrpc.INTERNAL_ERROR, text)
        if kind != "input_required":
            return None
        for entry in jsonrpc.members_of(members.get("inputRequests")).values():
            asked = jsonrpc.members_of(entry)
            method = jsonrpc.string_of(asked.get("method")) or ""
            fault = refused(call.said.capabilities, method, jsonrpc.members_of(asked.get("params")))
            if fault is not None:
                # What the request did not declare is not surfaced (pitfall 33); so the call cannot go on.
                data = {"requiredCapabilities": needed_for(method, asked)}
                return self.talk.fail(attachment, call.identity, MISSING_CAPABILITY, fault[1], data)
        return None

    # The end

    def cancel(self, upstream: int) -> None:
        """A host gives a request up."""
        self.calls.pop(upstream, None)

    def leave(self, session: SessionKey) -> None:
        """A host is gone."""
        for upstream in [at for at, call in self.calls.items() if call.session == session]:
            del self.calls[upstream]

    def child_lost(self) -> None:
        """The child is gone; who waits for its answers is told so elsewhere."""
        self.calls.clear()


def forward(talk: Conversation, attachment: Attachment, message: Message, reply: Reply) -> tuple[int, list[Command]]:
    """Send a host's request to the child under an id and a progress token of the daemon's, all else as it is.

    Return the upstream id, and what is to be done. Raise `FramingError` if its progress token is none.
    """
    identity = message.id
    assert identity is not None
    assert message.method is not None
    params = message.params()
    token = requests.token(params)
    talk.last_id += 1
    upstream = talk.last_id
    message.members["id"] = Raw(b"%d" % upstream)
    if token is not None:
        meta = {**jsonrpc.members_of(params["_meta"]), "progressToken": b"%d" % upstream}
        message.members["params"] = Raw(jsonrpc.object_text({**params, "_meta": jsonrpc.object_text(meta)}))
    talk.pending[upstream] = Pending(attachment.key, identity, message.method, token, reply=reply)
    call = requests.call(attachment.key, message, identity)
    call.upstream = upstream
    return upstream, [*attachment.opens(call), ToServer(jsonrpc.encode(message.members))]


def _within(result: Text, said: Envelope) -> Text:
    """Given what a child wants to know, return it for the capabilities of the request: as it is, if they allow it."""
    members = jsonrpc.members_of(result)
    asked = jsonrpc.members_of(members.get("inputRequests"))
    told = {key: asking.entry_within(entry, said.capabilities) for key, entry in asked.items()}
    if all(told[key] is entry for key, entry in asked.items()):
        return result
    return jsonrpc.object_text({**members, "inputRequests": jsonrpc.object_text(told)})


def question_of(method: str, params: Members, client: bytes) -> Question | None:
    """Given a modern request of a client, return the question that its answer may be given again for, or None."""
    if method == "server/discover":
        return Question(method, b"", client)
    return cache.question_of(method, params, client)


def _served(error: Text) -> Text:
    """Given an error of the child, return it with only those versions that the daemon speaks as well."""
    members = jsonrpc.members_of(error)
    if jsonrpc.value_of(members.get("code")) != UNSUPPORTED_VERSION:
        return error
    data = jsonrpc.members_of(members.get("data"))
    if "supported" not in data:
        return error
    versions = offers.shared_versions(data.get("supported"))
    told = jsonrpc.object_text({**data, "supported": jsonrpc.text_of(versions)})
    return jsonrpc.object_text({**members, "data": told})


def needed_for(method: str, entry: Members) -> dict[str, object]:
    """Return the client capability that an input request needs (protocol.md 1.2)."""
    match method:
        case "elicitation/create":
            mode = jsonrpc.string_of(jsonrpc.members_of(entry.get("params")).get("mode")) or "form"
            return {"elicitation": {mode: {}}}
        case "sampling/createMessage":
            tools = asks_for_tools(jsonrpc.members_of(entry.get("params")))
            return {"sampling": {"tools": {}} if tools else {}}
        case "roots/list":
            return {"roots": {}}
    return {}
