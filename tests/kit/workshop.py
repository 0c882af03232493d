"""Instances with real children in this process: the shop they are made in, and guests that play their hosts."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from supervisord_mcp.blueprint import Blueprint, Spawning, Surroundings
from supervisord_mcp.catalogues import Catalogues
from supervisord_mcp.conduit import Bounds
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy.lifecycle import Policy
from supervisord_mcp.policy.restart import Backoff, Budget, RestartPolicy
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.attachment import State
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.commands import Weight
from supervisord_mcp.protocol.eras.probe import Terms
from supervisord_mcp.protocol.mcp import Era
from supervisord_mcp.protocol.profiles import Root
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import Child, LaunchSpec
from supervisord_mcp.server import ManagedServer
from supervisord_mcp.stopped import Stopped
from supervisord_mcp.verdicts import Verdicts
from tests.kit import probe
from tests.kit.daemon import KIT, PYTHON
from tests.kit.fhost import hello
from tests.kit.journal import Journal

MIB = 1 << 20
QUICK = Policy(
    start_timeout=10.0,
    stop_grace=0.3,
    restart=RestartPolicy(backoff=Backoff(first=0.05, most=0.05), budget=Budget(restarts=3, within=60.0)),
)


class Guest:
    """A host without pipes: what an instance tells it is kept, and what it says comes from the test."""

    def __init__(self, key: int, instance: ManagedServer) -> None:
        self.instance = instance
        self._begin(key)

    def _begin(self, key: int) -> None:
        self.key = key
        self.principal = "somebody"
        self.got: list[dict[str, Any]] = []
        self.open: list[bytes] = []
        self.states: list[State] = []
        self.paused = False
        self.roots: tuple[Root, ...] | None = None
        self.verdict: tuple[int, str] | None = None
        self.changed = anyio.Event()
        self._next = 0

    # SessionLink

    def send(self, data: bytes, weight: Weight, closes: tuple[Call, ...]) -> None:
        assert data.endswith(b"\n")
        self.got.append(json.loads(data))
        for call in closes:
            if call.identity in self.open:
                self.open.remove(call.identity)
        self._tell()

    def opened(self, identity: bytes) -> None:
        self.open.append(identity)

    def dropped(self, identity: bytes) -> None:
        self.open.remove(identity)

    def remember(self, state: State) -> None:
        self.states.append(state)

    def moved(self, roots: tuple[Root, ...]) -> None:
        self.roots = roots
        self._tell()

    def pause(self) -> None:
        self.paused = True
        self._tell()

    def resume(self) -> None:
        self.paused = False
        self._tell()

    def finish(self, status: int, text: str = "") -> None:
        self.verdict = (status, text)
        self.instance.detach(self.key)

    # The host

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def until(self, wanted: Callable[[], object]) -> None:
        while not wanted():
            await self.changed.wait()

    def say(self, method: str, params: Any = None, identity: object = None) -> None:
        message = {"jsonrpc": "2.0", "method": method} | ({} if params is None else {"params": params})
        self.raw(message if identity is None else {**message, "id": identity})

    def raw(self, message: Any) -> None:
        self.instance.from_session(self.key, [json.dumps(message).encode()])

    def post(self, method: str, params: Any = None) -> int:
        """Send a request and return its id."""
        self._next += 1
        self.say(method, params, self._next)
        return self._next

    def post_call(self, tool: str, **arguments: Any) -> int:
        return self.post("tools/call", {"name": tool, "arguments": arguments})

    def answers(self, identity: int) -> list[dict[str, Any]]:
        return [message for message in self.got if message.get("id") == identity and "method" not in message]

    async def answer(self, identity: int) -> dict[str, Any]:
        """Return the answer to a request."""
        await self.until(lambda: self.answers(identity))
        return self.answers(identity)[0]

    async def ask(self, method: str, params: Any = None) -> dict[str, Any]:
        return await self.answer(self.post(method, params))

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return await self.answer(self.post_call(tool, **arguments))

    async def greet(self, **capabilities: Any) -> dict[str, Any]:
        """Make the handshake."""
        answer = await self.ask("initialize", hello(capabilities=capabilities))
        self.say("notifications/initialized")
        return answer

    def notes(self, method: str) -> list[dict[str, Any]]:
        return [message for message in self.got if message.get("method") == method]

    async def note(self, method: str, count: int = 1) -> list[dict[str, Any]]:
        await self.until(lambda: len(self.notes(method)) >= count)
        return self.notes(method)


def text(answer: dict[str, Any]) -> str:
    """Return the text of a tool result."""
    return str(answer["result"]["content"][0]["text"])


class Workshop:
    """Instances, what they share, and the files of their children."""

    def __init__(self, directory: Path, tasks: TaskGroup) -> None:
        self.directory = directory
        self.observers = Observers()
        self.catalogues = Catalogues(directory / "catalogue")
        self.verdicts = Verdicts(directory / "eras.json")
        self.around = Surroundings(
            tasks, self.observers, self.catalogues, self.verdicts, Stopped(directory / "stopped.json")
        )
        self.log = ServerLog(directory / "s.log", max_size=MIB, keep=1)
        self.journal = Journal(directory / "journal")
        self.marker = uuid.uuid4().hex
        self.instances: list[ManagedServer] = []
        self.guests = 0
        self.changed = anyio.Event()
        self.observers.add(lambda _event: self._tell())

    def _tell(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    async def launch(self, switches: dict[str, Any], command: tuple[str, ...] = ()) -> Child:
        told = json.dumps({"journal": str(self.journal.path), **switches})
        argv = command or (PYTHON, "-I", "-S", str(KIT / "fserver.py"), told)
        env = (("PATH", "/usr/bin:/bin"), (probe.MARKER, self.marker))
        spec = LaunchSpec("s", argv, env=env, marker=f"{self.marker}:{uuid.uuid4().hex}")
        return await BareRuntime().launch(spec)

    def instance(
        self,
        *starts: dict[str, Any],
        policy: Policy = QUICK,
        idle_timeout: float | None = None,
        relay: bool = False,
        write_timeout: float = 30.0,
        spawn: Callable[[Spawning], Awaitable[Child]] | None = None,
        era: Era | None = "legacy",
    ) -> ManagedServer:
        """Make an instance whose first, second … child has these switches; the last ones stay."""
        scripts = list(starts or ({},))

        async def launch(spawning: Spawning) -> Child:
            return await self.launch(scripts.pop(0) if len(scripts) > 1 else scripts[0])

        key = InstanceKey("s", "0123456789abcdef")
        blueprint = Blueprint(
            key=key,
            policy=policy,
            relay=relay,
            idle_timeout=idle_timeout,
            bounds=Bounds(MIB, policy.stop_grace, write_timeout),
            isolation="none",
            spawn=spawn or launch,
            terms=lambda: Terms(era, "legacy", self.verdicts.load("s"), 0.5),
            judged=lambda verdict: self.verdicts.save("s", verdict),
        )
        known = self.catalogues.load(key.server, key.digest)
        self.instances.append(ManagedServer(blueprint, self.around, self.log, known))
        return self.instances[-1]

    def guest(self, instance: ManagedServer, state: State | None = None) -> Guest:
        self.guests += 1
        guest = Guest(self.guests, instance)
        instance.attach(guest, state)
        return guest

    async def greeted(self, instance: ManagedServer, **capabilities: Any) -> Guest:
        guest = self.guest(instance)
        assert "result" in await guest.greet(**capabilities)
        return guest

    async def until(self, wanted: Callable[[], object]) -> None:
        """Return once a condition holds that comes with an event."""
        while not wanted():
            await self.changed.wait()

    async def in_state(self, instance: ManagedServer, *states: str) -> None:
        await self.until(lambda: instance.state in states)

    @property
    def states(self) -> list[str]:
        """The states that were entered."""
        return [event.data["to"] for event in self.observers.recent if event.kind == "state"]

    def events(self, kind: str) -> list[Event]:
        return [event for event in self.observers.recent if event.kind == kind]

    def logged(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self.log.last(1000)]

    async def end(self) -> None:
        """Stop everything, and look whether anything is left."""
        for instance in self.instances:
            instance.stop()
        for instance in self.instances:
            await instance.rested()
            assert instance.pid is None
        self.log.close()
        await probe.nothing_left([self.marker], 2.0)


@asynccontextmanager
async def workshop(directory: Path) -> AsyncIterator[Workshop]:
    async with anyio.create_task_group() as tasks:
        one = Workshop(directory, tasks)
        try:
            yield one
        except BaseException:
            print("\n".join(one.logged()), one.journal.tail(), sep="\n", file=sys.stderr)
            probe.kill_all([one.marker])
            raise
        await one.end()
