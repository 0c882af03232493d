"""The daemon's side of `agent`: listeners in the network of a blocked sandbox, or an error and none at all."""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import orphans
from supervisord_mcp.runtimes.child import ProcessChild
from supervisord_mcp.runtimes.egress import agent
from supervisord_mcp.runtimes.egress.plan import OWN, Plan
from supervisord_mcp.runtimes.process import Program, spawn

_PROGRAM = Path(agent.__file__)
_ANSWER_SECONDS = 10.0
#: How long the program is kept for the next sandbox. It needs some memory, and is started again in no time.
_KEPT_SECONDS = 30.0


class NamespaceAgent:
    """Has one `agent` for a whole daemon, while there is work for it."""

    def __init__(self) -> None:
        self._child: ProcessChild | None = None
        self._control: socket.socket | None = None
        self._users = 0
        self._retiring: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.asynccontextmanager
    async def ready(self) -> AsyncIterator[NamespaceAgent]:
        """Have the program run for a block; it starts while others do their part. Raise `LaunchError` if it cannot."""
        self._cancel_timer()
        if self._child is None or self._child.exited:
            await self.aclose()
            self._start()
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            if self._users == 0:
                self._cancel_timer()
                self._timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self._retire)

    async def listeners(self, namespace: int, plan: Plan) -> list[socket.socket]:
        """Given the descriptor of a network namespace, return the listeners of a plan, in order.

        Raise `IsolationError` if a single one of them is missing.
        """
        plan = _usable(plan)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        sockets: list[socket.socket] = []
        with ours:
            try:
                with theirs:
                    self._send(_request(plan), namespace, theirs)
                with anyio.fail_after(_ANSWER_SECONDS):
                    while len(sockets) < len(plan.listeners):
                        sockets += await _receive(ours)
                _compare(sockets, plan)
            except (OSError, TimeoutError) as error:
                for made in sockets:
                    made.close()
                said = "no answer in time" if isinstance(error, TimeoutError) else error.strerror or str(error)
                raise IsolationError(
                    f"no listeners could be made in the network of the sandbox: {said}",
                    remedy='Use network = "none" if the server needs no network.',
                ) from error
            except BaseException:
                for made in sockets:
                    made.close()
                raise
        return sockets

    def rest(self) -> None:
        """Begin to end the program now, unless a sandbox is being set up: no other is expected soon."""
        if self._users == 0:
            self._cancel_timer()
            self._retire()

    async def aclose(self) -> None:
        """End the program."""
        self._cancel_timer()
        child, self._child = self._child, None
        if self._control is not None:
            self._control.close()
            self._control = None
        if child is not None:
            await child.aclose()
        if self._retiring is not None:
            await self._retiring
            self._retiring = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                number = str(theirs.fileno())
                argv = (sys.executable, "-I", "-S", str(_PROGRAM), number)
                self._child = ProcessChild(spawn(Program(argv, {}, cwd="/", pass_fds=(theirs.fileno(),))), "")
            except BaseException:
                ours.close()
                raise
        # It starts nothing that could outlive it unseen, so it is not in question when an orphan turns up.
        orphans.confine(self._child.pid)
        self._control = ours

    def _send(self, request: bytes, namespace: int, reply: socket.socket) -> None:
        if self._control is None:
            raise OSError(0, "the agent for networks does not run")
        socket.send_fds(self._control, [request], [namespace, reply.fileno()], socket.MSG_DONTWAIT)

    def _retire(self) -> None:
        # End of file makes it end by itself; it is reaped like any other child.
        self._timer = None
        if self._control is not None and self._child is not None:
            self._control.close()
            self._control = None
            child, self._child = self._child, None
            self._retiring = asyncio.get_running_loop().create_task(child.aclose())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _usable(plan: Plan) -> Plan:
    """Return a plan without what a machine without IPv6 cannot have; nobody can call such an address there."""
    if os.path.exists("/proc/self/net/if_inet6"):
        return plan
    listeners = tuple(made for made in plan.listeners if ":" not in made.address)
    return replace(plan, listeners=listeners, routes=tuple(route for route in plan.routes if ":" not in route))


def _request(plan: Plan) -> bytes:
    lines = [f"address {OWN}", *(f"route {route}" for route in plan.routes)]
    lines += [f"{'udp' if made.datagrams else 'tcp'} {made.address} {made.port}" for made in plan.listeners]
    return "\n".join(lines).encode("ascii")


async def _receive(reply: socket.socket) -> list[socket.socket]:
    """Return the sockets of one answer. Raise `OSError` with what the other side says instead."""
    while True:
        try:
            said, rights, _, _ = reply.recvmsg(4096, socket.CMSG_SPACE(agent.BATCH * 4), socket.MSG_CMSG_CLOEXEC)
            break
        except BlockingIOError:
            await anyio.wait_readable(reply)
    numbers = array.array("i")
    for _, _, data in rights:
        numbers.frombytes(data[: len(data) - len(data) % numbers.itemsize])
    sockets = [socket.socket(fileno=number) for number in numbers]
    if said != b"ok" or not sockets:
        for made in sockets:
            made.close()
        raise OSError(0, said.decode(errors="replace") or "the agent for networks ended without an answer")
    return sockets


def _compare(sockets: list[socket.socket], plan: Plan) -> None:
    """Raise `OSError` unless the sockets are what was asked for: a wrong one would serve what it must not."""
    for made, wanted in zip(sockets, plan.listeners, strict=False):
        address, port = made.getsockname()[:2]
        kind = socket.SOCK_DGRAM if wanted.datagrams else socket.SOCK_STREAM
        if len(sockets) != len(plan.listeners) or (address, port, made.type) != (wanted.address, wanted.port, kind):
            raise OSError(0, f"{address}:{port} is not what was asked for")


def open_namespace(pid: int) -> int:
    """Return a descriptor of the network namespace of a process. Raise `IsolationError` where there is none."""
    try:
        return os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise IsolationError(f"the network of the sandbox cannot be entered: {error.strerror}") from error
