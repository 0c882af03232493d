"""A runtime without processes: its children are fake servers in the test's own event loop, on real pipes.

`FakeRuntime.living` is the process table: which children live, by the name of their server. A `Script` says how the
next children of a server behave.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import anyio

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import Child, ExitStatus, LaunchSpec, Runtime
from supervisord_mcp.runtimes.process import Program, check_program

TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]


@dataclass(frozen=True, slots=True)
class Script:
    """How a child behaves; times in seconds.

    ``spawning`` is how long its launch takes, ``fails`` why there is none, ``ready_after`` when it answers the
    handshake (None: never), ``lives`` after which time it exits with ``code``, counted from its launch, or from the
    handshake if ``from_ready``. ``deaf`` is how many of the polite steps (end of input, SIGTERM) it ignores, and
    ``leaving`` how long it takes to go.
    """

    spawning: float = 0.0
    fails: str = ""
    ready_after: float | None = 0.0
    lives: float | None = None
    from_ready: bool = False
    code: int = 1
    stderr: str = ""
    deaf: int = 0
    leaving: float = 0.0
    tools: list[dict[str, Any]] = field(default_factory=lambda: TOOLS)


class FakeChild(Child):
    """A fake server on real pipes."""

    def __init__(self, runtime: FakeRuntime, name: str, script: Script) -> None:
        self._runtime, self.name, self.script = runtime, name, script
        self.pid = next(runtime.pids)
        self._in, self.stdin = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stdout, self._out = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stderr, self._err = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._loop = asyncio.get_running_loop()
        self._rest = b""
        self._timers: list[asyncio.TimerHandle] = []
        self._stdin_open = True
        self._closed = False
        self.status: ExitStatus | None = None
        self.gone = anyio.Event()
        self._loop.add_reader(self._in, self._read)
        os.write(self._err, script.stderr.encode())
        if script.lives is not None and not script.from_ready:
            self._later(script.lives, self.exit, ExitStatus(code=script.code))

    # What the daemon does

    async def wait(self) -> ExitStatus:
        """Return how it ended."""
        await self.gone.wait()
        assert self.status is not None
        return self.status

    def close_stdin(self) -> None:
        """Let it see the end of its input."""
        if self._stdin_open:
            self._stdin_open = False
            os.close(self.stdin)

    def signal(self, number: int) -> None:
        """Ask it to end."""
        if self.script.deaf < 2:
            self._later(self.script.leaving, self.exit, ExitStatus(signal=number))

    def kill(self) -> None:
        """End it."""
        self._later(0.0, self.exit, ExitStatus(signal=signal.SIGKILL))

    async def aclose(self) -> None:
        """End it if need be, and close the pipes."""
        if not self._closed:
            self.kill()
            await self.gone.wait()
            self._closed = True
            self.close_stdin()
            os.close(self.stdout)
            os.close(self.stderr)

    # What it does itself

    def exit(self, status: ExitStatus) -> None:
        """End now."""
        for timer in self._timers:
            timer.cancel()
        if self.status is None:
            self.status = status
            self._loop.remove_reader(self._in)
            for descriptor in (self._in, self._out, self._err):
                os.close(descriptor)
            self._runtime.living.remove(self)
            self.gone.set()

    def _later(self, seconds: float, call: Callable[..., None], *args: Any) -> None:
        if self.status is None:
            self._timers.append(self._loop.call_later(seconds, call, *args))

    def _read(self) -> None:
        data = os.read(self._in, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(json.loads(line))
        if not data:
            self._loop.remove_reader(self._in)
            if self.script.deaf == 0:
                self._later(self.script.leaving, self.exit, ExitStatus(code=0))

    def _take(self, message: dict[str, Any]) -> None:
        self._runtime.frames.append((self.pid, message))
        if "id" not in message:
            return
        match message["method"]:
            case "initialize":
                if self.script.ready_after is not None:
                    result = {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {"tools": {"listChanged": True}},
                        "serverInfo": {"name": "fake", "version": "1"},
                    }
                    self._later(self.script.ready_after, self._ready, message["id"], result)
            case "tools/list":
                self._answer(message["id"], {"tools": self.script.tools})
            case "tools/call":
                self._runtime.calls.append((self.pid, message["params"]))
                said = str(message["params"]["arguments"].get("value"))
                self._answer(message["id"], {"content": [{"type": "text", "text": said}]})
            case _:
                self._answer(message["id"], {})

    def _ready(self, identity: Any, result: Any) -> None:
        self._answer(identity, result)
        if self.script.lives is not None and self.script.from_ready:
            self._later(self.script.lives, self.exit, ExitStatus(code=self.script.code))

    def _answer(self, identity: Any, result: Any) -> None:
        line = json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}).encode() + b"\n"
        with suppress(BrokenPipeError):
            assert os.write(self._out, line) == len(line), "more than a pipe holds"


class FakeRuntime(Runtime):
    """Launches fake servers as `script` says. ``on_launch`` is told of each launch before there is a child."""

    name = "bare"
    isolation = "none"

    def __init__(self, on_launch: Callable[[str], None] = lambda _: None) -> None:
        self.script: Callable[[str], Script] = lambda _: Script()
        self.pids = itertools.count(100_000)
        #: Every child that lives.
        self.living: list[FakeChild] = []
        #: The name of every server that was launched, with the (virtual) time, failed launches too.
        self.launches: list[tuple[float, str]] = []
        #: The calls that reached a child, with its pid.
        self.calls: list[tuple[int, Any]] = []
        #: All that reached a child, with its pid, in order.
        self.frames: list[tuple[int, dict[str, Any]]] = []
        self._on_launch = on_launch

    def check(self) -> tuple[()]:
        """Return nothing."""
        return ()

    def explain(self, spec: LaunchSpec) -> str:
        """Return nothing to paste."""
        return ""

    def launched(self, name: str) -> list[float]:
        """Return when a server was launched."""
        return [when for when, who in self.launches if who == name]

    def processes(self, name: str) -> list[FakeChild]:
        """Return the living children of a server."""
        return [child for child in self.living if child.name == name]

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start a fake server, if there is such a program."""
        check_program(Program(spec.argv, dict(spec.env), cwd=spec.cwd))
        script = self.script(spec.name)
        self.launches.append((asyncio.get_running_loop().time(), spec.name))
        self._on_launch(spec.name)
        if script.spawning:
            await anyio.sleep(script.spawning)
        if script.fails:
            raise LaunchError(script.fails)
        child = FakeChild(self, spec.name, script)
        self.living.append(child)
        return child
