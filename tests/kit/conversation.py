"""A small language for conversations: named hosts and one child talk through a real `Multiplexer`, nothing else runs.

    with Talk() as talk:
        talk.child_runs(tools=["echo"])
        a, b = talk.hosts("a", "b")
        a.says(request(1, "tools/call", {"name": "echo"}))
        call = talk.server.hears(request(..., "tools/call", {"name": "echo"}))
        talk.server.answers(call, {"content": []})
        a.hears(result(1, {"content": []}))

Whatever anybody is told must be heard, in its order; what is left unheard at the end of the block fails the test.
``...`` stands for any value, and as a key of an object for any further members. A failure shows the whole transcript.
What is true of every conversation (one answer for each id, no upstream id twice, nothing for a host that left) is
watched all the time.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping
from types import EllipsisType, TracebackType
from typing import Any, NoReturn

from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.callbacks import Rules
from supervisord_mcp.protocol.calls import Call, SessionKey
from supervisord_mcp.protocol.catalogue import Catalogue
from supervisord_mcp.protocol.commands import (
    Alarm,
    Command,
    Dropped,
    LogMessage,
    Note,
    Remember,
    ToServer,
    ToSession,
)
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.framing import Oversized
from supervisord_mcp.protocol.jsonrpc import error_line
from supervisord_mcp.protocol.multiplexer import Multiplexer
from tests.kit import rawjson
from tests.kit.referee import Referee
from tests.kit.wire import Wire

Json = Any
Said = bytes | str | Mapping[str, Json] | list[Json] | Oversized

LISTS = {
    "tools": "tools/list",
    "prompts": "prompts/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
}
NEWEST = "2025-11-25"
MODERN = "2026-07-28"
#: What the keys of modern envelopes begin with.
MCP = "io.modelcontextprotocol/"
#: What the child says of itself.
SERVER = {"name": "fake", "version": "1"}


def request(identity: Json, method: Json, params: Json = None) -> dict[str, Json]:
    """Return a request."""
    message = {"jsonrpc": "2.0", "id": identity, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method: str, params: Json = None) -> dict[str, Json]:
    """Return a notification."""
    message = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}


def result(identity: Json, value: Json = None) -> dict[str, Json]:
    """Return an answer; the empty result if none is given."""
    return {"jsonrpc": "2.0", "id": identity, "result": {} if value is None else value}


def error(identity: Json, code: Json, message: Json = ..., data: Json = None) -> dict[Json, Json]:
    """Return an error; without data it stands for one with any data."""
    body: dict[Json, Json] = {"code": code, "message": message}
    if data is None:
        body[...] = ...
    else:
        body["data"] = data
    return {"jsonrpc": "2.0", "id": identity, "error": body}


def call(identity: Json, name: Json = "echo", token: Json = None, **arguments: Json) -> dict[str, Json]:
    """Return a call of a tool, with a progress token if one is given."""
    params: dict[str, Json] = {"name": name, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request(identity, "tools/call", params)


def modern(
    identity: Json, method: str, params: Json = None, *, capabilities: Json = None, meta: Json = None
) -> dict[str, Json]:
    """Return a request of a modern host, with its envelope; ``meta`` are further or other members of ``_meta``."""
    envelope = {
        f"{MCP}protocolVersion": MODERN,
        f"{MCP}clientCapabilities": {} if capabilities is None else capabilities,
        f"{MCP}clientInfo": {"name": "host", "version": "1"},
        **(meta or {}),
    }
    return request(identity, method, {**(params or {}), "_meta": envelope})


def completed(identity: Json, value: Json = None, **more: Json) -> dict[str, Json]:
    """Return what a modern host hears of a legacy child's result."""
    told = {**(value or {}), "resultType": "complete", "_meta": {f"{MCP}serverInfo": SERVER}, **more}
    return result(identity, told)


def cancelled(identity: Json, reason: Json = None) -> dict[str, Json]:
    """Return the notification that a request is given up."""
    params = {"requestId": identity} if reason is None else {"requestId": identity, "reason": reason}
    return notification("notifications/cancelled", params)


def progress(token: Json, value: Json) -> dict[str, Json]:
    """Return a report of progress."""
    return notification("notifications/progress", {"progressToken": token, "progress": value})


def changed(kind: str) -> dict[str, Json]:
    """Return the notification that a list changed."""
    return notification(f"notifications/{kind}/list_changed")


def discovered(capabilities: Json = None, **more: Json) -> dict[str, Json]:
    """Return what a modern server says of itself."""
    return {
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities or {},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake", "version": "1"}},
        **more,
    }


def complete(value: Json = None) -> dict[str, Json]:
    """Return a final result of the modern era."""
    return {"resultType": "complete", **(value or {})}


def needs(requests: Json = None, state: Json = None) -> dict[str, Json]:
    """Return a result that wants more input: requests by their keys, and a state to get back."""
    told: dict[str, Json] = {"resultType": "input_required"}
    if requests is not None:
        told["inputRequests"] = requests
    return told if state is None else {**told, "requestState": state}


def matches(expected: Json, actual: Json) -> bool:
    """Return whether a value is the expected one: of the same type, and ``...`` is anything."""
    if isinstance(expected, EllipsisType):
        return True
    if isinstance(expected, Mapping):
        if not isinstance(actual, dict):
            return False
        named = {key: value for key, value in expected.items() if key is not ...}
        complete = ... in expected or named.keys() == actual.keys()
        return complete and all(key in actual and matches(value, actual[key]) for key, value in named.items())
    if isinstance(expected, list | tuple):
        return (
            isinstance(actual, list)
            and len(expected) == len(actual)
            and all(matches(one, other) for one, other in zip(expected, actual, strict=True))
        )
    return type(expected) is type(actual) and bool(expected == actual)


class Host:
    """One host: what it says goes to the multiplexer, what it is sent waits to be heard."""

    def __init__(self, talk: Talk, name: str, key: SessionKey) -> None:
        self.talk = talk
        self.name = name
        self.key = key
        self.wire = Wire()
        self.inbox: deque[bytes] = deque()

    def says(self, *messages: Said) -> None:
        """Say messages one after the other."""
        for message in messages:
            self.talk.say(self, message)

    def hears(self, *expected: Json) -> Json:
        """Hear messages in this order; return the last one."""
        __tracebackhide__ = True
        return self.talk.hear(self.name, self.inbox, expected)

    def hears_text(self, expected: bytes) -> None:
        """Hear a line of exactly these bytes."""
        __tracebackhide__ = True
        self.talk.hear_text(self.name, self.inbox, expected)

    def hears_nothing(self) -> None:
        """Nothing is left to hear."""
        __tracebackhide__ = True
        self.talk.hear_nothing(self.name, self.inbox)

    def initializes(
        self,
        version: str = NEWEST,
        capabilities: Json = None,
        identity: Json = "hello",
        client: str | None = None,
    ) -> None:
        """Send `initialize`."""
        params = {
            "protocolVersion": version,
            "capabilities": {} if capabilities is None else capabilities,
            "clientInfo": {"name": client or self.name, "version": "1"},
        }
        self.says(request(identity, "initialize", params))

    def initialized(self) -> None:
        """Send `notifications/initialized`."""
        self.says(notification("notifications/initialized"))

    def greets(self, version: str = NEWEST, capabilities: Json = None) -> Json:
        """Make the whole handshake; return the result of `initialize`."""
        self.initializes(version, capabilities)
        answer = self.hears(result("hello", ...))
        self.initialized()
        return answer["result"]

    def leaves(self) -> None:
        """Disconnect; what was not heard any more does not matter."""
        self.talk.leave(self)


class Server:
    """The child. Its ``hears`` returns the message, so that a test can answer it by its upstream id."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.wire = Wire()
        self.inbox: deque[bytes] = deque()

    def says(self, *messages: Said) -> None:
        """Say messages one after the other."""
        for message in messages:
            self.talk.say(self, message)

    def hears(self, *expected: Json) -> Json:
        """Hear messages in this order; return the last one."""
        __tracebackhide__ = True
        return self.talk.hear("server", self.inbox, expected)

    def hears_text(self, expected: bytes) -> None:
        """Hear a line of exactly these bytes."""
        __tracebackhide__ = True
        self.talk.hear_text("server", self.inbox, expected)

    def hears_nothing(self) -> None:
        """Nothing is left to hear."""
        __tracebackhide__ = True
        self.talk.hear_nothing("server", self.inbox)

    def answers(self, asked: Json, value: Json = None) -> None:
        """Answer a request that was heard."""
        self.says(result(asked["id"], value))

    def fails(self, asked: Json, code: int, message: str = "no", data: Json = None) -> None:
        """Answer a request that was heard with an error."""
        self.says(error_line(str(asked["id"]).encode(), code, message, data))


class Talk:
    """One conversation. ``notes`` and ``others`` collect the commands that are not messages."""

    def __init__(
        self,
        server: str = "s",
        *,
        relay: Rules = False,
        known: Catalogue | None = None,
        terms: Terms = Terms(),
    ) -> None:
        self.mux = Multiplexer(server, relay=relay, known=known, entropy=self._entropy)
        self.terms = terms
        self.server = Server(self)
        self.referee = Referee()
        self.referee.remembers(known.lists if known else {})
        self.notes: list[Note] = []
        self.others: list[Command] = []
        self.transcript: list[str] = []
        self._by_key: dict[SessionKey, Host] = {}
        self._last_key = 0
        self._upstream: set[Json] = set()
        self._waiting: dict[SessionKey, dict[bytes, Call | None]] = {}  # none is known of what is restored
        self._now = 0.0
        self._alarms: list[tuple[float, int]] = []
        self._drawn = 0

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, kind: type[BaseException] | None, failure: object, trace: TracebackType | None) -> None:
        if kind is None:
            self.quiet()

    def quiet(self) -> None:
        """Everything that was said has been heard."""
        __tracebackhide__ = True
        self.server.hears_nothing()
        for host in self._by_key.values():
            host.hears_nothing()

    # Coming and going

    def joins(self, name: str, state: State | None = None, principal: str = "somebody") -> Host:
        """A host of a principal connects and says nothing yet."""
        self._last_key += 1
        host = self._by_key[self._last_key] = Host(self, name, self._last_key)
        self._waiting[host.key] = {identity.encode(): None for identity in state.listens} if state else {}
        host.wire.revision = (state.version or None) if state else None
        self._tell(f"{name} joins")
        self._apply(self.mux.attach(host.key, state, principal))
        return host

    def host(self, name: str, version: str = NEWEST, capabilities: Json = None) -> Host:
        """A host connects and makes its handshake."""
        host = self.joins(name)
        host.greets(version, capabilities)
        return host

    def host_first(self, name: str, version: str = NEWEST, capabilities: Json = None) -> Host:
        """A host connects and says its whole handshake before there is a child; the answer is still to be heard."""
        host = self.joins(name)
        host.initializes(version, capabilities)
        host.initialized()
        return host

    def hosts(self, *names: str) -> list[Host]:
        """Several hosts connect and make their handshakes."""
        return [self.host(name) for name in names]

    def leave(self, host: Host) -> None:
        """A host disconnects."""
        self._tell(f"{host.name} leaves")
        del self._by_key[host.key]
        self._apply(self.mux.detach(host.key))

    # The child

    def child_starts(self) -> Json:
        """A child runs; return its `initialize`, which is heard."""
        self.child_begins()
        return self.server.hears(request(..., "initialize", ...))

    def child_begins(self) -> None:
        """A child runs; what it is asked first is still to be heard."""
        self._tell("the child starts")
        self.server.wire = Wire()
        self._apply(self.mux.child_started(self.terms))

    def modern_child_runs(self, capabilities: Json = None, **lists: Iterable[str]) -> None:
        """A child of the modern era starts, is discovered, and lists what it offers."""
        declared: dict[str, Json] = {"resources" if kind == "resourceTemplates" else kind: {} for kind in lists}
        self.child_begins()
        asked = self.server.hears(request(..., "server/discover", ...))
        self.server.answers(asked, discovered({**declared, **(capabilities or {})}))
        self.child_lists(**lists)

    def child_runs(self, capabilities: Json = None, *, version: str = NEWEST, **lists: Iterable[str]) -> None:
        """A child starts, shakes hands and lists what it offers; the lists given are its capabilities too."""
        declared: dict[str, Json] = {"resources" if kind == "resourceTemplates" else kind: {} for kind in lists}
        self.child_greets(self.child_starts(), {**declared, **(capabilities or {})}, version)
        self.child_lists(**lists)

    def child_greets(self, opening: Json, capabilities: Json = None, version: str = NEWEST) -> None:
        """The child answers its handshake and hears that it is done."""
        handshake = {
            "protocolVersion": version,
            "capabilities": capabilities or {},
            "serverInfo": SERVER,
        }
        self.server.answers(opening, handshake)
        self.server.hears(notification("notifications/initialized"))

    def child_lists(self, **lists: Iterable[str]) -> None:
        """The child answers the daemon's own requests for its lists, wherever they are in its queue."""
        for line in list(self.server.inbox):
            asked = json.loads(line)
            kind = next((kind for kind, method in LISTS.items() if method == asked["method"]), None)
            if kind is None or asked.get("params", {}).keys() - {"_meta"}:
                continue
            self.server.inbox.remove(line)
            self.server.answers(asked, {kind: [{"name": name} for name in lists.get(kind, ())]})

    def child_dies(self, text: str = "the server died", data: Json = None) -> None:
        """The child is gone, and what it had not heard with it; what it may have died of was heard."""
        self._tell("the child dies")
        self.server.inbox.clear()
        self._apply(self.mux.child_lost(text, data, blameless=self.mux.doubtful))

    def child_stops(self) -> None:
        """The child is about to be stopped."""
        self._tell("the child is being stopped")
        self._apply(self.mux.stopping())

    # Time and chance

    def passes(self, seconds: float) -> None:
        """Let time pass: what the multiplexer asked to be woken for is said, in its order."""
        self._tell(f"{seconds} s pass")
        end = self._now + seconds
        while due := [alarm for alarm in self._alarms if alarm[0] <= end]:
            alarm = min(due)
            self._alarms.remove(alarm)
            self._now = alarm[0]
            self._apply(self.mux.rang(alarm[1]))
        self._now = end

    def _entropy(self, size: int) -> bytes:
        # Nothing random in tests, and never the same twice.
        self._drawn += 1
        return self._drawn.to_bytes(size)

    def gives_up(self, text: str = "no child will come") -> None:
        """No child will come for what is held."""
        self._apply(self.mux.fail_held(text))

    # Saying and hearing

    def say(self, who: Host | Server, message: Said) -> None:
        """Hand a message to the multiplexer and carry out what it returns."""
        line = _line(message)
        name = who.name if isinstance(who, Host) else "server"
        self._tell(f"{name}: {_shown(line)}")
        if isinstance(line, bytes):
            self.referee.peer_says(who.wire, "client" if isinstance(who, Host) else "server", line)
        self._apply(self.mux.from_session(who.key, line) if isinstance(who, Host) else self.mux.from_server(line))

    def hear(self, name: str, inbox: deque[bytes], expected: Iterable[Json]) -> Json:
        """Take messages from a queue and compare them; return the last one."""
        __tracebackhide__ = True
        actual: Json = None
        for one in expected:
            if not inbox:
                self.fail(f"{name} should hear {_pattern(one)}, but hears nothing")
            line = inbox.popleft()
            actual = json.loads(line)
            if not matches(one, actual):
                self.fail(f"{name} should hear {_pattern(one)}, but hears {_shown(line)}")
        return actual

    def hear_text(self, name: str, inbox: deque[bytes], expected: bytes) -> None:
        """Take a line from a queue and compare its bytes."""
        __tracebackhide__ = True
        line = inbox.popleft() if inbox else b""
        if line != expected:
            self.fail(f"{name} should hear {expected!r}, but hears {line!r}")

    def hear_nothing(self, name: str, inbox: deque[bytes]) -> None:
        """A queue is empty."""
        __tracebackhide__ = True
        if inbox:
            self.fail(f"{name} should hear nothing more, but hears {' and '.join(map(_shown, inbox))}")

    def noted(self, kind: str) -> int:
        """Return how many notes of a kind there were."""
        return sum(note.kind == kind for note in self.notes)

    @property
    def unshown(self) -> int:
        """How many log messages of the child were shown to no host."""
        return sum(isinstance(command, LogMessage) and not command.sessions for command in self.others)

    def did(self, kind: type[Command]) -> list[Command]:
        """Return the other commands of a kind so far."""
        return [command for command in self.others if isinstance(command, kind)]

    def fail(self, text: str) -> NoReturn:
        """End the test with a text and the whole transcript."""
        __tracebackhide__ = True
        transcript = "\n".join(f"    {line}" for line in self.transcript)
        raise AssertionError(f"{text}\n  the conversation so far:\n{transcript}")

    def _tell(self, line: str) -> None:
        self.transcript.append(line)

    # Carrying out

    def _apply(self, commands: list[Command]) -> None:
        for command in commands:
            match command:
                case ToServer(data):
                    self._tell(f"  -> server: {_shown(self._whole(data))}")
                    self._watch_upstream(data)
                    self._judge(self.referee.smcp_says(self.server.wire, "client", data))
                    self.server.inbox.append(data[:-1])
                case ToSession(key, data, _, closes):
                    if key not in self._by_key:
                        self.fail(f"a message for host {key}, which is not there: {_shown(data)}")
                    host = self._by_key[key]
                    self._tell(f"  -> {host.name}: {_shown(self._whole(data))}")
                    self._watch_answer(host, data, closes)
                    self._judge(self.referee.smcp_says(host.wire, "server", data))
                    host.inbox.append(data[:-1])
                case Call(key, identity):
                    if identity in self._waiting[key]:
                        self.fail(f"{identity!r} is opened twice")
                    self._waiting[key][identity] = command
                case Dropped(call):
                    self._close(call)
                case Remember(key):
                    self.mux.state(key)
                case Alarm(serial, seconds):
                    self._alarms.append((self._now + seconds, serial))
                case Note(kind, text):
                    self._tell(f"  ({kind}: {text})")
                    self.notes.append(command)
                case _:
                    self._tell(f"  ({command!r:.120})")
                    self.others.append(command)

    def _whole(self, data: bytes) -> bytes:
        if data.count(b"\n") != 1 or not data.endswith(b"\n"):
            self.fail(f"this is not one line: {data!r}")
        return data

    def _judge(self, fault: str | None) -> None:
        if fault is not None:
            self.fail(f"smcp says what no schema allows: {fault}")

    def _watch_upstream(self, data: bytes) -> None:
        message = json.loads(data)
        if "method" in message and "id" in message:
            if message["id"] in self._upstream:
                self.fail(f"upstream id {message['id']} is used again")
            self._upstream.add(message["id"])

    def _watch_answer(self, host: Host, data: bytes, closes: tuple[Call, ...]) -> None:
        """What an answer is said to close is what it answers, and nothing that waits is answered without closing it."""
        text = data.decode()
        answered = []
        for item in json.loads(text) if text.startswith("[") else [None]:
            members = rawjson.members(text if item is None else json.dumps(item))
            if "method" not in members and members["id"] != "null":
                answered.append(members["id"].encode())
        if not text.startswith("[") and [call.identity for call in closes] != answered:
            self.fail(f"{host.name} is sent an answer to {answered} that closes {closes}")
        for call in closes:
            if call.identity in self._waiting[host.key]:
                self._close(call)

    def _close(self, call: Call) -> None:
        """A call that ends is the very one that began: what was filled in on its way is still there."""
        began = self._waiting[call.session].pop(call.identity)
        if began is not None and began is not call:
            self.fail(f"{call.identity!r} ends as another call than it began")

    def waiting(self, host: Host) -> list[bytes]:
        """Return the ids that a host waits for, as they would survive the daemon."""
        return list(self._waiting[host.key])


def _line(message: Said) -> bytes | Oversized:
    match message:
        case bytes() | Oversized():
            return message
        case str():
            return message.encode()
        case _:
            return json.dumps(message).encode()


def _shown(line: bytes | Oversized) -> str:
    text = repr(line) if isinstance(line, Oversized) else line.decode(errors="backslashreplace").rstrip("\n")
    return text if len(text) < 400 else f"{text[:300]} … ({len(text)} characters)"


def _pattern(expected: Json) -> str:
    """Return a pattern as JSON with dots for what may be anything."""
    if isinstance(expected, EllipsisType):
        return "…"
    if isinstance(expected, Mapping):
        members = (("…" if key is ... else f"{json.dumps(key)}: {_pattern(value)}") for key, value in expected.items())
        return "{" + ", ".join(members) + "}"
    if isinstance(expected, list | tuple):
        return "[" + ", ".join(map(_pattern, expected)) + "]"
    return json.dumps(expected)
