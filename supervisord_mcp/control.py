"""Serves the control socket: every operation that a command may ask of the daemon (`protocol.control`)."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NoReturn, TypeVar, assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec import Raw

from supervisord_mcp import __version__, interview, loglines
from supervisord_mcp.admission import NO_PROJECT
from supervisord_mcp.caller import Caller, calling
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.errors import FramingError, SmcpError
from supervisord_mcp.facts import Facts, Whence
from supervisord_mcp.following import Follower, follow
from supervisord_mcp.listener import Greeting
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.observer import Channel, Event, Observers
from supervisord_mcp.pipes import ChunkReader, QueueWriter, close_quietly
from supervisord_mcp.protocol import control, findings, jsonrpc
from supervisord_mcp.protocol.control import (
    Call,
    DaemonStatus,
    Down,
    EventRecord,
    Events,
    ListResult,
    ListServers,
    Logs,
    Named,
    Operation,
    Probe,
    Progress,
    Reload,
    ReloadResult,
    Restart,
    Start,
    Status,
    StatusResult,
    Stay,
    Stop,
    Tools,
    ToolsResult,
    TrustChanged,
    Version,
    VersionResult,
)
from supervisord_mcp.protocol.framing import LineSplitter
from supervisord_mcp.protocol.news import LogLine
from supervisord_mcp.protocol.replay import Replay
from supervisord_mcp.protocol.secret_requests import SecretChanged, SecretCheck, SecretUnlock
from supervisord_mcp.protocol.tapping import Tap
from supervisord_mcp.protocol.usage import UsageResult
from supervisord_mcp.replays import ReplayDesk
from supervisord_mcp.rotation import Rotation
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.taps import TapDesk

_log = logging.getLogger(__name__)
T = TypeVar("T")

#: A command that does not read its stream loses it above this many bytes.
MAX_UNREAD = 8 << 20
#: The same for who looks at messages, above twice the longest one: so much may be kept, and become more as JSON.
MAX_UNREAD_TAP = 64 << 20
#: How long a server that runs may take to list its tools before a person is shown what it offered last, in seconds.
BUSY_AFTER = 1.0


@dataclass(frozen=True, slots=True)
class Office:
    """What the control socket needs of the daemon."""

    supervisor: Supervisor
    observers: Observers
    daemon_status: Callable[[], DaemonStatus]
    reload: Callable[[], Awaitable[ReloadResult]]
    shut_down: Callable[[], None]
    stay: Callable[[], None]
    log_of: Callable[[str], ServerLog]
    usage: Callable[[control.Usage], Awaitable[UsageResult]]
    rotation: Rotation
    taps: TapDesk
    replays: ReplayDesk


class ControlServer:
    """All control connections."""

    def __init__(self, office: Office, tasks: TaskGroup) -> None:
        self._office = office
        self._tasks = tasks
        self._connections: set[Connection] = set()

    @property
    def connections(self) -> int:
        """How many commands are connected."""
        return len(self._connections)

    def receive(self, greeting: Greeting) -> None:
        """Serve a command from now on."""
        close_quietly(*greeting.fds)
        connection = Connection(greeting, self._office, self._tasks, self._connections.discard)
        if not connection.closed:
            self._connections.add(connection)


class Connection:
    """One command that is connected; each of its requests is a task, ended when the command leaves."""

    def __init__(
        self, greeting: Greeting, office: Office, tasks: TaskGroup, on_left: Callable[[Connection], None]
    ) -> None:
        self._socket = greeting.connection
        self._on_left = on_left
        self._said = greeting.hello
        self._peer_pid = greeting.peer_pid
        self._office = office
        self._tasks = tasks
        self._scopes: set[anyio.CancelScope] = set()
        self._closed = False
        self._most_unread = MAX_UNREAD
        self._splitter = LineSplitter(control.MAX_LINE)
        self._writer = QueueWriter(self._socket.fileno(), self._left)
        self._reader = ChunkReader(self._socket.fileno(), self._chunk, self._left)
        if greeting.rest:
            self._chunk(greeting.rest)

    @property
    def closed(self) -> bool:
        """Whether the command is gone."""
        return self._closed

    def _chunk(self, chunk: bytes) -> None:
        for line in self._splitter.feed(chunk):
            if not isinstance(line, bytes):
                text = f"the request is longer than {control.MAX_LINE} bytes"
                self._send(control.error_line(0, FramingError(text, jsonrpc.INVALID_REQUEST)))
            elif line.strip() and not self._closed:
                self._tasks.start_soon(self._serve, line)

    def _left(self, error: OSError | None) -> None:
        """The command is gone, or has to go: what it asked for is broken off."""
        self._closed = True
        self._reader.close()
        self._writer.close()
        self._socket.close()
        for scope in list(self._scopes):
            scope.cancel()
        self._on_left(self)

    async def _serve(self, line: bytes) -> None:
        if self._closed:  # since the task was begun
            return
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                await self._answer(line)
            finally:
                self._scopes.discard(scope)

    async def _answer(self, line: bytes) -> None:
        try:
            request = control.parse_request(line)
        except FramingError as error:
            self._send(control.error_line(0, error))
            return
        try:
            operation = control.parse_operation(request)
            with self._telling(request.id, operation) if request.progress else nullcontext():
                result = await self._perform(request.id, operation)
            line = control.result_line(request.id, result)
            if isinstance(operation, Tools | Call):
                self._write(line)  # words of the server, which are never altered
            else:
                self._send(line)
        except SmcpError as error:
            self._send(control.error_line(request.id, error))
        except Exception:  # noqa: BLE001 - one request must not end the daemon
            _log.exception("the request %s failed", request.op)
            self._send(control.error_line(request.id, SmcpError("the daemon failed; its log has the cause")))

    @contextmanager
    def _telling(self, request: int, operation: Operation) -> Iterator[None]:
        """Tell a command which installations it waits for; they take long, and only the first start needs them."""

        def tell(server: str) -> None:
            if control.concerns(operation, server):
                self._send(control.event_line(request, Progress(text=f"installing {server} …")))

        remove = self._office.observers.add(lambda event: tell(event.server) if event.kind == "installing" else None)
        try:
            for instance in self._office.supervisor.instances:
                if instance.state == "STARTING" and instance.phase:
                    tell(instance.key.server)
            yield
        finally:
            remove()

    def _send(self, line: bytes) -> None:
        """Send words of our own."""
        self._write(masker.mask_json(line))

    def _write(self, line: bytes) -> None:
        if self._writer.queued > self._most_unread:
            self._left(None)
            return
        self._writer.write(line)

    async def _perform(self, request: int, operation: Operation) -> object:
        supervisor = self._office.supervisor
        match operation:
            case Status():
                return StatusResult(daemon=self._office.daemon_status(), servers=supervisor.status())
            case Start():
                await supervisor.start(self._names(operation), self._whence(operation))
            case Stop():
                await supervisor.stop(self._names(operation), self._whence(operation))
            case Restart():
                await supervisor.restart(self._names(operation), self._whence(operation))
            case ListServers():
                return ListResult(servers=supervisor.entries())
            case Tools():
                return await self._tools(operation)
            case Call():
                return await self._call(operation)
            case Probe():
                return await self._probe(operation)
            case Logs():
                await self._logs(request, operation)
            case Events():
                await self._events(request, operation)
            case control.Usage():
                return await self._office.usage(operation)
            case Tap():
                await self._tap(request, operation)
            case Replay():
                supervisor.server(operation.name)
                await self._office.replays.serve(
                    operation, self._said, lambda told: self._send(control.event_line(request, told))
                )
            case Reload() | Down() | Stay() | Version() | TrustChanged():
                return await self._govern(operation)
            case _:
                return await self._secret(operation)
        return None

    async def _govern(self, operation: Reload | Down | Stay | Version | TrustChanged) -> object:
        """Do what is about the daemon itself."""
        match operation:
            case Reload():
                return await self._office.reload()
            case Down():
                self._office.shut_down()
            case Stay():
                self._office.stay()
            case TrustChanged(files=files, trusted=trusted):
                data = {"files": list(files), "trusted": trusted}
                self._office.observers.publish(Event("trust-changed", data=data))
            case Version():
                return VersionResult(version=__version__, pid=os.getpid())
        return None

    async def _secret(self, operation: SecretChanged | SecretCheck | SecretUnlock) -> object:
        match operation:
            case SecretChanged():
                return await self._office.rotation.changed(operation.secrets, only_failed=operation.only_failed)
            case SecretCheck():
                return await self._office.rotation.check(operation.names)
            case SecretUnlock():
                return await self._office.rotation.unlock(operation.passphrase)
            case _:
                assert_never(operation)

    def _names(self, operation: Named) -> tuple[str, ...]:
        supervisor = self._office.supervisor
        if operation.all:
            every = supervisor.stoppable if isinstance(operation, Stop) else supervisor.startable
            return every(self._whence(operation))
        for name in operation.names:
            supervisor.server(name)
        return operation.names

    def _whence(self, operation: Named) -> Whence:
        return Whence(self._facts("", operation.project), operation.narrow)

    def _facts(self, server: str, project: str | None) -> Facts:
        """Return where this command comes from, as if it were a host: what it greeted with counts, not what we have."""
        return Facts(server, project, self._said.cwd, self._said.environ, self._peer_pid)

    @asynccontextmanager
    async def _caller(self, operation: Tools | Call) -> AsyncIterator[tuple[ManagedServer, Caller]]:
        supervisor = self._office.supervisor
        facts = self._facts(operation.name, operation.project)
        if facts.project is None and supervisor.scope(facts) == "project":
            text = NO_PROJECT.format(facts.server, facts.server)
            raise SmcpError(text, remedy="Run this command inside a project, or with --project DIRECTORY.")
        key = supervisor.next_key()
        instance = supervisor.house(supervisor.plan(facts), facts, key)
        data = {"session": key, "pid": self._peer_pid, "project": facts.project, "resumed": False}
        self._office.observers.publish(Event("session-opened", facts.server, data))
        try:
            async with calling(instance, key, lambda: supervisor.released(instance)) as caller:
                yield instance, caller
        finally:
            self._office.observers.publish(Event("session-closed", facts.server, {"session": key, "reason": ""}))

    async def _tools(self, operation: Tools) -> ToolsResult:
        async with self._caller(operation) as (instance, caller):
            known = instance.catalogue
            if operation.refresh or known is None or "tools/list" not in known.lists:
                patience = math.inf
                instance.demand()
                await instance.settled()
            else:
                patience = BUSY_AFTER
            with anyio.move_on_after(patience):
                await caller.greet()
                return ToolsResult(tools=tuple(map(Raw, await caller.list_all("tools/list"))))
            assert known is not None
            return ToolsResult(tools=tuple(map(Raw, known.lists["tools/list"])), busy=True)

    async def _call(self, operation: Call) -> Raw:
        params = jsonrpc.object_text({"name": jsonrpc.text_of(operation.tool), "arguments": operation.arguments})
        async with self._caller(operation) as (instance, caller):
            instance.demand()
            await instance.settled()
            await caller.greet()
            with anyio.move_on_after(operation.timeout):
                return Raw(await caller.request("tools/call", params))
            raise SmcpError(f"no answer from '{operation.name}' within {operation.timeout:g} s")

    async def _probe(self, operation: Probe) -> findings.ProbeResult:
        supervisor, name = self._office.supervisor, operation.name
        launch = supervisor.plan(self._facts(name, operation.project))
        config = supervisor.server(name)
        found = await interview.interview(
            interview.Terms(
                launch=launch,
                log=self._office.log_of(name),
                start_timeout=config.start_timeout,
                bounds=supervisor.bounds(config),
            )
        )
        now = findings.Settings(
            scope=config.scope, callbacks=config.callbacks, era=config.era, uses_project=launch.uses_project
        )
        return findings.ProbeResult(name=name, findings=found, suggestions=findings.suggestions(found, now))

    async def _logs(self, request: int, operation: Logs) -> None:
        self._office.supervisor.server(operation.name)
        log = self._office.log_of(operation.name)

        def tell(line: LogLine) -> None:
            if line.server == operation.name:
                self._send(control.event_line(request, line))

        # Nothing comes twice or never, because reading and beginning to follow are one step of the event loop. What the
        # log had counted is written by the first and must not be told by the second.
        past = [] if operation.mark else list(loglines.parse(log.last(operation.lines), operation.name))
        for event in [log.mark()] if operation.mark else past:
            self._send(control.event_line(request, event))
        if operation.follow:
            await self._follow(self._office.observers.lines, tell, f"the reader of the log of {operation.name}")

    async def _tap(self, request: int, operation: Tap) -> None:
        # Whole messages, and all that are kept at once, are not a sign that the command does not read.
        self._most_unread = MAX_UNREAD_TAP + 2 * self._office.supervisor.config.daemon.max_message
        # What is told is masked already; the masker would take messages for text of ours.
        await self._office.taps.serve(operation, lambda told: self._write(control.event_line(request, told)))

    async def _events(self, request: int, operation: Events) -> None:
        def tell(event: Event) -> None:
            if operation.name in ("", event.server) and (not operation.kinds or event.kind in operation.kinds):
                self._send(control.event_line(request, _record(event)))

        observers = self._office.observers
        # One that was removed since may have left some.
        if operation.name and all(event.server != operation.name for event in observers.recent):
            self._office.supervisor.server(operation.name)
        for event in tuple(observers.recent):
            tell(event)
        if operation.follow:
            await self._follow(observers.events, tell, "the reader of events")

    async def _follow(self, channel: Channel[T], tell: Callable[[T], None], what: str) -> NoReturn:
        follower = Follower(f"{what} (pid {self._peer_pid})", "Begin anew with the same command.")
        await follow(self._office.observers, channel, tell, follower)


def _record(event: Event) -> EventRecord:
    instance = event.data.get("instance", "")
    return EventRecord(
        time=event.at.timestamp(), kind=event.kind, server=event.server, instance=instance, data=event.data
    )
