"""The control socket: one JSON object a line, requests from commands, replies and streams from the daemon.

A command connects, sends a greeting of role ``control`` (see `hello`) and then requests
``{"id": n, "op": "...", "args": {...}}``. The daemon answers each with ``{"id": n, "result": ...}`` or
``{"id": n, "error": {"code", "message", "remedy", "exit"}}``. A stream (`Logs`, `Events`, `Tap`, `Replay`) is
any number of ``{"id": n, "event": {...}}`` and then ``{"id": n, "result": null}``; a request with ``"progress": true``
may be answered by events of `Progress` before its result. Replies come in any order. A command that has seen enough of
a stream closes its connection.

Every operation is one struct, so that the daemon matches on the type; what it answers with is named in its docstring.
Unknown keys are ignored in both directions: a newer daemon serves an older command and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from supervisord_mcp.errors import FramingError, SmcpError, UsageError
from supervisord_mcp.protocol.replay import Replay
from supervisord_mcp.protocol.secret_requests import SecretChanged, SecretCheck, SecretUnlock
from supervisord_mcp.protocol.tapping import Tap

T = TypeVar("T")

#: A call carries its arguments and a result its content, so lines may be as long as messages of MCP, but not longer.
MAX_LINE: Final = 1 << 30

EMPTY_OBJECT: Final = Raw(b"{}")


class Named(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that a verb works on: some by name, or all of them; exactly one of the two is given.

    ``project`` is the root of the project that the command works in, or null where none is known. If ``narrow``, the
    verb is about the instances of that project alone. What an instance is made with beside it, the environment of the
    command, is in its greeting.
    """

    names: tuple[str, ...] = ()
    all: bool = False
    project: str | None = None
    narrow: bool = False

    def __post_init__(self) -> None:
        if self.all == bool(self.names):
            raise ValueError("give names or all, and not both")
        if self.narrow and self.project is None:
            raise ValueError("narrow needs a project")


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """What runs. Answer: `StatusResult`."""


class Start(Named, frozen=True, kw_only=True):
    """Start servers and wait until they are ready or cannot be. Answer: null."""


class Stop(Named, frozen=True, kw_only=True):
    """Stop all instances of servers and wait until their trees are gone. Answer: null."""


class Restart(Named, frozen=True, kw_only=True):
    """Stop and start servers, and wait until they are ready or cannot be. Answer: null."""


class Reload(msgspec.Struct, frozen=True, kw_only=True):
    """Read the configuration again and apply the difference. Answer: `ReloadResult`, or an error of code config."""


class ListServers(msgspec.Struct, frozen=True, kw_only=True):
    """What is configured. Answer: `ListResult`."""


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """The tools of a server, from the catalogue unless ``refresh``. Answer: `ToolsResult`."""

    name: str
    project: str | None = None
    refresh: bool = False


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """Call one tool. Answer: the result of tools/call, byte for byte as the server sent it.

    ``timeout`` is in seconds and starts when the request is sent to the server, after start and installation.
    """

    name: str
    tool: str
    arguments: Raw = EMPTY_OBJECT
    project: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        if not bytes(self.arguments).lstrip().startswith(b"{"):
            raise ValueError("the arguments of a tool are one JSON object")


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Start a server aside and find out what it is. Answer: `findings.ProbeResult`."""

    name: str
    project: str | None = None


class Logs(msgspec.Struct, frozen=True, kw_only=True):
    """The last lines of the log of a server, and what follows. Stream of `news.LogLine`.

    With ``mark`` the first event is a `news.LogMark` instead of any lines: who asks reads the files up to there, and
    nothing is missing or comes twice.
    """

    name: str
    lines: int = 100
    follow: bool = False
    mark: bool = False


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """The events that the daemon remembers, and what follows; of a server, of kinds. Stream of `EventRecord`."""

    follow: bool = False
    name: str = ""
    kinds: tuple[str, ...] = ()


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What servers use and did, all of them or one. Answer: `protocol.usage.UsageResult`.

    ``fresh`` looks now, instead of saying what was seen last. With ``since``, a time in seconds since the epoch, the
    history from then on is part of the answer: the last hour in steps of 5 s, else the last day in steps of a minute.
    """

    name: str | None = None
    fresh: bool = False
    since: float | None = None


class Down(msgspec.Struct, frozen=True, kw_only=True):
    """End all sessions orderly, stop all servers, exit. Answer: null, before the work begins."""


class Stay(msgspec.Struct, frozen=True, kw_only=True):
    """Run on although nobody needs the daemon, also if it was started on demand. Answer: null."""


class TrustChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A person trusts files of projects as they are now, or (not ``trusted``) no more. Answer: null."""

    files: tuple[str, ...]
    trusted: bool


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers. Answer: `VersionResult`."""


Operation = (
    Status
    | Start
    | Stop
    | Restart
    | Reload
    | ListServers
    | Tools
    | Call
    | Probe
    | Logs
    | Events
    | Usage
    | Tap
    | Replay
    | Down
    | Stay
    | Version
    | SecretChanged
    | SecretCheck
    | SecretUnlock
    | TrustChanged
)

#: The name of every operation on the wire.
OPERATIONS: Final[Mapping[str, type[Operation]]] = {
    "status": Status,
    "start": Start,
    "stop": Stop,
    "restart": Restart,
    "reload": Reload,
    "list": ListServers,
    "tools": Tools,
    "call": Call,
    "probe": Probe,
    "logs": Logs,
    "events": Events,
    "usage": Usage,
    "tap": Tap,
    "replay": Replay,
    "down": Down,
    "stay": Stay,
    "version": Version,
    "secret-changed": SecretChanged,
    "secret-check": SecretCheck,
    "secret-unlock": SecretUnlock,
    "trust-changed": TrustChanged,
}
_NAMES: Final[Mapping[type[Operation], str]] = {operation: name for name, operation in OPERATIONS.items()}


class DaemonStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The daemon itself. ``problems`` are faults of the configuration on disk.

    ``logging`` and ``audit`` are "ok" or why they cannot be written, such as a full disk.
    ``hosts`` is what changed in files of hosts since they were adopted, where they are watched.
    """

    pid: int
    version: str
    uptime: float
    socket: str
    config: str = ""
    problems: tuple[str, ...] = ()
    logging: str = "ok"
    audit: str = "ok"
    sessions: int = 0
    hosts: tuple[str, ...] = ()


class InstanceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One running copy of a server. ``phase`` says what a start is busy with; ``uptime`` counts from ready.

    ``held`` is whether a person stopped it, so that no host starts it. ``mounts`` are the paths that its sandbox shows,
    each with ``:ro`` or ``:rw``, beside what its command needs to run.
    ``era`` is that of a child that is ready. ``user`` is whom a sandbox of a daemon of root runs as; ``limits`` are its
    limits, each with what enforces it; ``uncovered`` is what a reduced isolation does not hold it back from.
    ``dropped`` counts what the server wrote that reached nobody, by why: ``noise`` (a line that is no message),
    ``late`` (an answer or progress after the end of the request), ``unknown`` (an answer to what was never asked, or
    without an id), ``unrouted`` and ``early`` (a notification that belongs to no host). ``image`` is that of a
    container: its name, what that stands for, and what it stands for by now where that is something else.
    """

    key: str
    state: str
    pid: int | None = None
    generation: int = 0
    sessions: int = 0
    uptime: float | None = None
    project: str | None = None
    held: bool = False
    restarts: int = 0
    last_error: str | None = None
    phase: str | None = None
    isolation: str = ""
    mounts: tuple[str, ...] = ()
    era: str = ""
    user: str = ""
    limits: tuple[str, ...] = ()
    uncovered: tuple[str, ...] = ()
    dropped: dict[str, int] = msgspec.field(default_factory=dict)
    differs: tuple[str, ...] = ()
    image: str = ""


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One configured server: its promises, the sum of its instances, and the instances themselves.

    ``beyond`` are the keys with which its entry grants more than its profile. ``credentials`` are the secrets that it
    is granted, each as its variable and where it is. ``held`` is whether a person stopped it,
    so that no host starts it; in the projects of ``held_except`` the opposite is true. A server that is STOPPED and not
    held is started when a host needs it.
    """

    name: str
    state: str
    scope: str = ""
    runtime: str = ""
    isolation: str = ""
    profile: str = ""
    beyond: tuple[str, ...] = ()
    network: str = ""
    credentials: tuple[str, ...] = ()
    start: str = ""
    held: bool = False
    held_except: tuple[str, ...] = ()
    catalogue: bool = False
    sessions: int = 0
    restarts: int = 0
    last_error: str | None = None
    instances: tuple[InstanceStatus, ...] = ()


class StatusResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Status`."""

    daemon: DaemonStatus
    servers: tuple[ServerStatus, ...] = ()


class ReloadResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Reload`: the names of the servers that the new configuration touches."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class ServerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One configured server. ``catalogue`` is whether its discovery results are kept, ``tools`` how many they list."""

    name: str
    command: tuple[str, ...] = ()
    start: str = ""
    scope: str = ""
    runtime: str = ""
    profile: str = ""
    network: str = ""
    catalogue: bool = False
    tools: int | None = None


class ListResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `ListServers`."""

    servers: tuple[ServerEntry, ...] = ()


class ToolsResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Tools`: every tool as the server describes it, all pages together.

    ``busy`` is whether the server did not answer, so that they are what it offered last.
    """

    tools: tuple[Raw, ...] = ()
    busy: bool = False


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. ``time`` is in seconds since the epoch, ``data`` is what belongs to the kind."""

    time: float
    kind: str
    server: str = ""
    instance: str = ""
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What a request waits for, in words for a person."""

    text: str


class VersionResult(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `Version`."""

    version: str
    pid: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """An error on the wire: what a person reads, and ``exit``, the exit status of the command that met it."""

    code: str = "failed"
    message: str = ""
    remedy: str = ""
    exit: int = 1

    @classmethod
    def of(cls, error: SmcpError) -> Failure:
        """Given an error, return it as the wire carries it."""
        return cls(code=error.code, message=error.message, remedy=error.remedy, exit=error.exit_status)

    def error(self) -> SmcpError:
        """Return the exception that the daemon met, as a command raises it."""
        error = SmcpError(self.message or "the daemon gave no reason", remedy=self.remedy)
        error.code = self.code
        error.exit_status = self.exit
        return error


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request as it came; `parse_operation` reads its arguments, so that a bad one can be answered by its id.

    ``progress`` asks for events of `Progress` before the result, where there is something to wait for.
    """

    id: int
    op: str
    args: Raw = EMPTY_OBJECT
    progress: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the daemon; exactly one of the three is there."""

    id: int
    result: Raw | UnsetType = UNSET
    event: Raw | UnsetType = UNSET
    error: Failure | UnsetType = UNSET


_requests = msgspec.json.Decoder(Request)
_replies = msgspec.json.Decoder(Reply)


def request_line(request_id: int, operation: Operation, *, progress: bool = False) -> bytes:
    """Given an operation, return the line that asks for it, with ``progress`` also for what it waits for."""
    request = {"id": request_id, "op": _NAMES[type(operation)], "args": operation}
    return _line({**request, "progress": True} if progress else request)


def concerns(operation: Operation, server: str) -> bool:
    """Return whether an operation may have to wait for a start of a server."""
    match operation:
        case Named():
            return operation.all or server in operation.names
        case Tools() | Call():
            return operation.name == server
        case _:
            return False


def parse_request(line: bytes) -> Request:
    """Given a line of a command, return the request. Raise `FramingError` if it is none (answer it with id 0)."""
    return _parse(_requests, line, "a request")


def parse_operation(request: Request) -> Operation:
    """Given a request, return what it asks for. Raise `UsageError` if the daemon knows no such thing."""
    wanted = OPERATIONS.get(request.op)
    if wanted is None:
        raise UsageError(f"unknown operation {request.op!r}", remedy="upgrade the older of command and daemon")
    try:
        return msgspec.json.decode(request.args, type=wanted)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise UsageError(f"{request.op}: {error}") from error


def result_line(request_id: int, result: object = None) -> bytes:
    """Given a result (a struct of this module, `Raw`, anything that JSON can say), return the line that answers."""
    return _line({"id": request_id, "result": result})


def event_line(request_id: int, event: object) -> bytes:
    """Given one event of a stream, return its line."""
    return _line({"id": request_id, "event": event})


def error_line(request_id: int, error: SmcpError) -> bytes:
    """Given an error, return the line that answers with it."""
    return _line({"id": request_id, "error": Failure.of(error)})


def parse_reply(line: bytes) -> Reply:
    """Given a line of the daemon, return the reply. Raise `FramingError` if it is none."""
    reply = _parse(_replies, line, "a reply")
    if sum(part is not UNSET for part in (reply.result, reply.event, reply.error)) != 1:
        raise FramingError("not a reply of the control socket: needs one of result, event and error", -32600)
    return reply


def parse_result(raw: Raw, wanted: type[T]) -> T:
    """Given the result or event of a reply, return it as ``wanted``. Raise `FramingError` if it has another form."""
    return _parse(msgspec.json.Decoder(wanted), raw, wanted.__name__)


def _parse(decoder: msgspec.json.Decoder[T], data: bytes | Raw, what: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise FramingError(f"not {what} of the control socket: {error}", -32600) from error


def _line(message: dict[str, Any]) -> bytes:
    try:
        payload = msgspec.json.encode(message)
    except UnicodeEncodeError:  # a path or an error text that is no UTF-8 (pitfall 48)
        payload = msgspec.json.encode(_speakable(msgspec.to_builtins(message, builtin_types=(Raw,))))
    # Raw parts are copied as they are, and what a person or a server wrote may be spread over lines.
    if b"\n" in payload or b"\r" in payload:
        payload = msgspec.json.format(payload, indent=-1)
    return payload + b"\n"


def _speakable(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_speakable(key): _speakable(part) for key, part in value.items()}
        case list() | tuple():
            return [_speakable(part) for part in value]
        case _:
            return value
