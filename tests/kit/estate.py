"""The middle of a daemon in this process: supervisor, reception and control, with real children, pipes and sockets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from supervisord_mcp.blueprint import Surroundings
from supervisord_mcp.catalogues import Catalogues
from supervisord_mcp.config.models import Config
from supervisord_mcp.config.paths import create_directories, find_paths
from supervisord_mcp.control import ControlServer, Office
from supervisord_mcp.launch import Launcher
from supervisord_mcp.listener import Greeting
from supervisord_mcp.logbooks import ServerLogs
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.pipes import close_quietly
from supervisord_mcp.protocol.control import DaemonStatus, ReloadResult
from supervisord_mcp.protocol.hello import Hello
from supervisord_mcp.reception import Reception
from supervisord_mcp.replays import ReplayDesk
from supervisord_mcp.rotation import Rotation
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.stopped import Stopped
from supervisord_mcp.supervisor import Supervisor
from supervisord_mcp.taps import TapDesk
from supervisord_mcp.usage import UsageDesk
from supervisord_mcp.verdicts import Verdicts
from tests.kit import probe
from tests.kit.daemon import KIT, PYTHON
from tests.kit.journal import Journal
from tests.kit.workshop import Guest

QUICK: Mapping[str, Any] = {
    "runtime": "bare",
    "stop_grace": "300ms",
    "start_timeout": "10s",
    "backoff": {"first": "50ms", "most": "50ms"},
}


class PipeGuest(Guest):
    """A host on real pipes: what a shim would hand over is given to the reception."""

    def __init__(self, server: str, **said: Any) -> None:
        stdin, self._write_end = os.pipe2(os.O_CLOEXEC)
        self._read_end, stdout = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self._read_end, False)
        self._kept = (stdin, stdout)
        self._hello = Hello(smcp=1, role="shim", server=server, **said)
        self.rest = b""
        self._begin(0)
        asyncio.get_running_loop().add_reader(self._read_end, self._read)
        self.knock()

    def knock(self, **changes: Any) -> None:
        """Greet, for the first time or again after the death of the daemon."""
        self.shim, connection = socket.socketpair()
        connection.setblocking(False)
        self.shim.setblocking(False)
        hello = msgspec.structs.replace(self._hello, **changes)
        stdin, stdout = map(os.dup, self._kept)
        self.greeting = Greeting(hello, connection, (stdin, stdout), os.getpid(), os.getuid(), b"")
        self.said = b""
        self.ended = False
        asyncio.get_running_loop().add_reader(self.shim, self._hear)

    @property
    def token(self) -> str:
        """The token of the session, empty if there is none."""
        return self.said.split(b"\n")[0].removeprefix(b"ok ").decode() if self.said.startswith(b"ok ") else ""

    @property
    def word(self) -> str:
        """What the daemon said last to the shim."""
        return self.said.decode().replace("\u2028", "\n").rstrip("\n").rpartition("ok " + self.token)[2].lstrip("\n")

    def raw(self, message: Any) -> None:
        """Write a message into the pipe."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        assert os.write(self._write_end, data) == len(data)

    async def over(self) -> str:
        """Return what the shim was told, once the daemon hung up."""
        await self.until(lambda: self.ended)
        return self.word

    def close_stdin(self) -> None:
        """End as a host does."""
        close_quietly(self._write_end)
        self._write_end = -1

    def stop_reading(self) -> None:
        """Leave unread what comes."""
        asyncio.get_running_loop().remove_reader(self._read_end)

    def kill_shim(self) -> None:
        """Let the shim end."""
        asyncio.get_running_loop().remove_reader(self.shim)
        self.shim.close()

    def close_stdout(self) -> None:
        """Read nothing any more."""
        self.stop_reading()
        close_quietly(self._read_end)
        self._read_end = -1

    def close(self) -> None:
        """Let go of everything on the host's side."""
        if self.shim.fileno() >= 0:
            self.kill_shim()
        if self._read_end >= 0:
            self.close_stdout()
        if self._write_end >= 0:
            self.close_stdin()
        close_quietly(*self._kept)

    def _read(self) -> None:
        data = os.read(self._read_end, 1 << 18)
        if not data:
            self.stop_reading()
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.got += [json.loads(line) for line in lines if line]
        self._tell()

    def _hear(self) -> None:
        try:
            data = self.shim.recv(65536)
        except ConnectionResetError:
            data = b""
        self.said += data
        if not data:
            self.ended = True
            asyncio.get_running_loop().remove_reader(self.shim)
        self._tell()


class Command:
    """A command on the control socket."""

    def __init__(self, rest: bytes = b"", environ: Mapping[str, str] | None = None) -> None:
        self.socket, connection = socket.socketpair()
        connection.setblocking(False)
        self.socket.setblocking(False)
        said = Hello(smcp=1, role="control", environ=dict(environ or {}))
        self.greeting = Greeting(said, connection, (), os.getpid(), os.getuid(), rest)
        self.replies: list[dict[str, Any]] = []
        self.ended = False
        self._rest = b""
        self._last = 0
        self._changed = anyio.Event()
        asyncio.get_running_loop().add_reader(self.socket, self._read)

    def raw(self, data: bytes) -> None:
        """Write into the socket."""
        self.socket.sendall(data)

    def post(self, op: str, **args: Any) -> int:
        """Ask for an operation and return its id."""
        self._last += 1
        self.raw(json.dumps({"id": self._last, "op": op, "args": args}).encode() + b"\n")
        return self._last

    async def reply(self, identity: int) -> dict[str, Any]:
        """Return the reply that ends a request."""
        while True:
            for reply in self.replies:
                if reply["id"] == identity and "event" not in reply:
                    return reply
            assert not self.ended, f"the daemon hung up: {self.replies}"
            await self._changed.wait()

    async def ask(self, op: str, **args: Any) -> Any:
        """Ask for an operation and return its result."""
        reply = await self.reply(self.post(op, **args))
        assert "error" not in reply, reply
        return reply["result"]

    async def fail(self, op: str, **args: Any) -> dict[str, Any]:
        """Ask for an operation and return its error."""
        reply = await self.reply(self.post(op, **args))
        error: dict[str, Any] = reply["error"]
        return error

    async def events(self, identity: int, count: int) -> list[Any]:
        """Return the events of a stream, once there are so many."""
        while True:
            found = [reply["event"] for reply in self.replies if reply["id"] == identity and "event" in reply]
            if len(found) >= count:
                return found
            await self._changed.wait()

    async def hung_up(self) -> None:
        """Return once the daemon closed the connection."""
        while not self.ended:
            await self._changed.wait()

    def leave(self) -> None:
        """Close the connection."""
        if self.socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self.socket)
            self.socket.close()

    def stop_reading(self) -> None:
        """Leave unread what comes."""
        asyncio.get_running_loop().remove_reader(self.socket)

    def _read(self) -> None:
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            self.ended = True
            self.stop_reading()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.replies += [json.loads(line) for line in lines]
        self._changed.set()
        self._changed = anyio.Event()


class Estate:
    """Supervisor, reception and control in a home of their own."""

    def __init__(
        self,
        home: Path,
        tasks: TaskGroup,
        servers: Mapping[str, Any],
        daemon: Mapping[str, Any],
        environ: Mapping[str, str],
        *,
        runtimes: Mapping[str, Runtime] | None = None,
    ) -> None:
        self.home = home
        self.tasks = tasks
        self.marker = uuid.uuid4().hex
        base = {"SMCP_HOME": str(home), "PATH": "/usr/bin:/bin", "HOME": str(home), probe.MARKER: self.marker}
        self.environ = {**base, **environ}
        self.paths = find_paths(self.environ, os.getuid())
        create_directories(self.paths, os.getuid())
        self.observers = Observers()
        self.logs = ServerLogs(self.paths.log_dir, self.observers)
        around = Surroundings(
            tasks,
            self.observers,
            Catalogues(self.paths.catalogue_dir),
            Verdicts(self.paths.verdicts_file),
            Stopped(self.paths.stopped_file),
        )
        self.config = self.configured(servers, daemon)
        self.launcher = Launcher(self.paths, self.environ, f"{self.marker}:", (), runtimes)
        self.logs.configure(self.config)
        self.supervisor = Supervisor(self.config, self.launcher, around, self.logs)
        self.reception = Reception(self.supervisor, self.paths.sessions_dir, self.observers)
        self.usage = UsageDesk(self.supervisor, self.observers, self.paths.counts_file, self.paths.history_file)
        self.taps = TapDesk(self.supervisor, self.observers)
        self.downs = 0
        self.stays = 0
        self.reloads = 0
        self.control = ControlServer(
            Office(
                supervisor=self.supervisor,
                observers=self.observers,
                daemon_status=lambda: DaemonStatus(pid=os.getpid(), version="1", uptime=1.0, socket="/s"),
                reload=self._reload,
                shut_down=self._down,
                stay=self._stay,
                log_of=self.logs.__getitem__,
                usage=self.usage.report,
                rotation=Rotation(self.supervisor, self.launcher.credentials, self.observers),
                taps=self.taps,
                replays=ReplayDesk(self.reception.receive, lambda: self.config.daemon.max_message),
            ),
            tasks,
        )
        self.guests: list[PipeGuest] = []
        self.commands: list[Command] = []
        self._changed = anyio.Event()
        self.observers.add(lambda _event: self._tell())

    def _tell(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _down(self) -> None:
        self.downs += 1

    def _stay(self) -> None:
        self.stays += 1

    async def _reload(self) -> ReloadResult:
        self.reloads += 1
        return ReloadResult(added=("new",))

    # Configuration

    def configured(
        self,
        servers: Mapping[str, Any],
        daemon: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> Config:
        """Return a configuration; each server is given by its switches, or by a whole entry with a command."""
        entries = {name: entry if "command" in entry else self.entry(name, **entry) for name, entry in servers.items()}
        return Config.model_validate({"daemon": dict(daemon or {}), "metrics": dict(metrics or {}), "servers": entries})

    def entry(self, name: str, entry: Mapping[str, Any] | None = None, **switches: Any) -> dict[str, Any]:
        """Return the entry of a fake server."""
        told = json.dumps({"journal": str(self.home / f"{name}.journal"), **switches})
        command = [PYTHON, "-I", "-S", str(KIT / "fserver.py"), told]
        return {**QUICK, "command": command, **(entry or {})}

    def reconfigure(
        self,
        servers: Mapping[str, Any],
        daemon: Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """Take another configuration as the daemon does."""
        self.config = self.configured(servers, daemon, metrics)
        self.logs.configure(self.config)
        self.usage.settle()
        plan, displaced = self.supervisor.reconfigure(self.config, self.launcher)
        self.usage.configure(self.config)
        self.taps.configure(self.config)
        self.reception.rehouse(displaced)
        self.supervisor.start_eager((*plan.added, *plan.changed))
        data = {"added": list(plan.added), "changed": list(plan.changed), "removed": list(plan.removed)}
        self.observers.publish(Event("config-reloaded", data=data))

    # Who comes

    def guest(self, server: str, **said: Any) -> PipeGuest:
        """Let a host come."""
        guest = PipeGuest(server, **said)
        self.guests.append(guest)
        self.reception.receive(guest.greeting)
        return guest

    async def greeted(self, server: str, capabilities: Mapping[str, Any] | None = None, **said: Any) -> PipeGuest:
        """Let a host come and do its handshake."""
        guest = self.guest(server, **said)
        answer = await guest.greet(**(capabilities or {}))
        assert "result" in answer, answer
        return guest

    def command(self, rest: bytes = b"", environ: Mapping[str, str] | None = None) -> Command:
        """Let a command come."""
        command = Command(rest, environ)
        self.commands.append(command)
        self.control.receive(command.greeting)
        return command

    # What is known

    def journal(self, name: str) -> Journal:
        return Journal(self.home / f"{name}.journal")

    def instances(self, name: str) -> list[ManagedServer]:
        return [instance for instance in self.supervisor.instances if instance.key.server == name]

    def instance(self, name: str) -> ManagedServer:
        """Return the one instance of a server."""
        (instance,) = self.instances(name)
        return instance

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.observers.recent if event.kind == kind]

    async def until(self, wanted: Any) -> None:
        """Return once a condition holds that comes with an event."""
        while not wanted():
            await self._changed.wait()

    def die(self) -> None:
        """Be gone as after a SIGKILL: nobody is told, and nothing is put away."""
        loop = asyncio.get_running_loop()
        for session in self.reception._sessions.values():
            wires = session._wires
            loop.remove_reader(wires.stdin)
            loop.remove_reader(wires.connection)
            session._writer.close()
            session._journal.close()
            wires.connection.close()
            close_quietly(wires.stdin, wires.stdout)
        self.reception._sessions.clear()
        self.tasks.cancel_scope.cancel()

    def back(self, guest: PipeGuest, **changes: Any) -> None:
        """Let a host of a daemon that died come back."""
        self.guests.append(guest)
        token = guest.token
        guest.kill_shim()
        guest.knock(**{"resume": token, **changes})
        self.reception.receive(guest.greeting)

    async def left(self) -> None:
        """Return once the instances that were given up are gone."""
        for instance in tuple(self.supervisor._leaving):
            await instance.rested()

    async def end(self) -> None:
        """Let everybody go, stop everything, and look whether anything is left."""
        self.reception.close_all()
        for guest in self.guests:
            guest.close()
        for command in self.commands:
            command.leave()
        await self.supervisor.shut_down()
        self.tasks.cancel_scope.cancel()
        assert self.reception.sessions == 0
        assert not self.supervisor.active
        assert list(self.paths.sessions_dir.iterdir()) == []

    def put_away(self) -> None:
        """Leave nothing that would still happen, and no open file."""
        for instance in self.supervisor.instances:
            instance.stop()
        for name in list(self.logs):
            self.logs[name].close()


@asynccontextmanager
async def estate(
    home: Path,
    servers: Mapping[str, Any] | None = None,
    daemon: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    runtimes: Mapping[str, Runtime] | None = None,
) -> AsyncIterator[Estate]:
    """An estate with these servers; afterwards nothing of it may be left."""
    async with anyio.create_task_group() as tasks:
        one = Estate(home, tasks, servers or {}, daemon or {}, environ or {}, runtimes=runtimes)
        try:
            yield one
        except BaseException:
            for name in one.config.servers:
                print(*one.logs[name].last(50), one.journal(name).tail(), sep="\n", file=sys.stderr)
            probe.kill_all([one.marker])
            raise
        if not tasks.cancel_scope.cancel_called:
            await one.end()
    one.put_away()
    await probe.nothing_left([one.marker], 2.0)
