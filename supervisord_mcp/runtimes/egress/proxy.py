"""What the daemon serves in the network of one sandbox: a proxy of HTTP and SOCKS, names, and connections as they are.

Each connection is judged by what it names, resolved here and once, and made to an address that was judged as well.
A connection that is refused ends with a reason where its protocol has a place for one, with a reset where it has none.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from supervisord_mcp.egress.addresses import Address, literal
from supervisord_mcp.egress.rules import Egress, Kind, Rule, normal
from supervisord_mcp.runtimes.egress import heads
from supervisord_mcp.runtimes.egress.clienthello import Hello
from supervisord_mcp.runtimes.egress.heads import HeadError, Target
from supervisord_mcp.runtimes.egress.meter import Bucket, Contact, Meter, Outcome, Usage
from supervisord_mcp.runtimes.egress.outside import Outside, connect_first, connect_through
from supervisord_mcp.runtimes.egress.plan import DNS, POOL, PROXY, SOCKS, Names
from supervisord_mcp.runtimes.egress.relay import RefusedError, Relay, reset
from supervisord_mcp.runtimes.egress.resolver import Resolver

_log = logging.getLogger(__name__)

_LOCAL = "127.0.0.1"
_LOOPBACK_ADDRESS = ipaddress.IPv4Address(_LOCAL)
_HEAD_SECONDS = 30.0
_IDLE_SECONDS = 900.0
#: How long a client gets to read why it was refused.
_FAREWELL_SECONDS = 2.0
_FAREWELL_BYTES = 1 << 16
_ACCEPTS_AT_A_TIME = 16
#: After the machine or the daemon ran out of descriptors, or memory.
_PAUSE_SECONDS = 0.5
#: Connections beyond the most that are at least told why; those beyond these are reset.
_TOLD = 32


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a proxy needs of the daemon: the network of the machine, and somebody who is told of every contact."""

    outside: Outside = field(default_factory=Outside)
    report: Callable[[Contact], None] = lambda contact: None
    idle_seconds: float = _IDLE_SECONDS


@dataclass(frozen=True, slots=True)
class _Way:
    """How clients of one kind are answered: when they are connected, refused (with a reason), or nobody answers."""

    connected: Callable[[Target], bytes]
    refused: Callable[[int, str], bytes]


_HTTP = _Way(lambda target: heads.TUNNEL if target.tunnel else b"", heads.http_answer)
_SOCKS_CODES = {403: heads.SOCKS_REFUSED, 502: heads.SOCKS_UNREACHABLE, 504: heads.SOCKS_UNREACHABLE}
_SOCKS = _Way(
    lambda target: heads.socks_answer(0),
    lambda status, reason: heads.socks_answer(_SOCKS_CODES.get(status, heads.SOCKS_FAILED)),
)
_PLAIN = _Way(lambda target: b"", lambda status, reason: b"")


class _NoWayError(Exception):
    """A target that is not reached, with the status for HTTP; 403 is a refusal by the rules."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


class EgressProxy:
    """Serves the listeners of one sandbox from the moment it is made until it is closed. Owns their sockets."""

    def __init__(
        self,
        server: str,
        egress: Egress,
        sockets: Iterable[socket.socket],
        around: Surroundings,
        pool: ipaddress.IPv4Network = POOL,
    ) -> None:
        """``pool`` is where the addresses of names are from."""
        self._loop = asyncio.get_running_loop()
        self._server, self._egress, self._around = server, egress, around
        self._names = Names(egress, pool)
        self._meter = Meter(server, around.report, self._loop.time)
        rate = egress.connects_per_second
        self._bucket = Bucket(rate, max(rate, 1))
        self._tasks: set[asyncio.Task[None]] = set()
        self._relays: set[Relay] = set()
        self._resume: asyncio.TimerHandle | None = None
        everything = list(sockets)
        self._listeners = [made for made in everything if made.type == socket.SOCK_STREAM]
        datagrams = [made for made in everything if made.type != socket.SOCK_STREAM]
        self._resolver = Resolver(datagrams, egress, self._names, self._meter)
        self._watch()

    @property
    def usage(self) -> Usage:
        """What the server has used so far."""
        return self._meter.usage

    @property
    def refused(self) -> tuple[str, ...]:
        """The first places that the server was refused."""
        return self._meter.refused

    def traffic(self) -> tuple[int, int]:
        """Return how many bytes the server sent and received, those of connections that go on too."""
        usage, live = self._meter.usage, tuple(self._relays)
        return usage.sent + sum(r.sent for r in live), usage.received + sum(r.received for r in live)

    def close(self) -> None:
        """Close every listener, and begin to end every connection. Idempotent."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        self._resolver.close()
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """Close, and wait until nothing is left."""
        self.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _watch(self) -> None:
        self._resume = None
        for listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _pause(self, seconds: float) -> None:
        """Accept nothing for a while: clients wait, and a server that hurries costs the daemon nothing."""
        self._meter.usage.waiting += 1
        for listener in self._listeners:
            self._loop.remove_reader(listener)
        if self._resume is None:
            self._resume = self._loop.call_later(seconds, self._watch)

    def _accept(self, listener: socket.socket) -> None:
        for at in range(_ACCEPTS_AT_A_TIME):
            if (wait := self._bucket.take(self._loop.time())) > 0:
                if at == 0:
                    # Only of the first it is known that somebody waits.
                    self._pause(wait)
                return
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError, InterruptedError):
                self._bucket.give_back()
                return
            except OSError as error:
                _log.warning("server %s: no connection can be accepted: %s", self._server, error.strerror)
                self._pause(_PAUSE_SECONDS)
                return
            connection.setblocking(False)
            if len(self._tasks) >= self._egress.most_connections + _TOLD:
                self._meter.note("", 0, "refused", "too many connections")
                reset(connection)
                continue
            task = self._loop.create_task(self._serve(connection, len(self._tasks) >= self._egress.most_connections))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("server %s: a connection ended with a fault of this program", self._server, exc_info=error)

    async def _serve(self, connection: socket.socket, crowded: bool) -> None:
        self._meter.usage.connections += 1
        self._meter.usage.open += 1
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            place = connection.getsockname()[:2]
            if place == (_LOCAL, DNS):
                await self._resolver.serve(connection)
                return
            way = {(_LOCAL, PROXY): _HTTP, (_LOCAL, SOCKS): _SOCKS}.get(place, _PLAIN)
            if crowded:
                most = self._egress.most_connections
                self._meter.note("", 0, "refused", f"more than {most} connections at a time")
                await _farewell(connection, way.refused(503, f"more than {most} connections at a time"))
                return
            await self._handle(connection, way, place)
        except OSError:
            # The client has gone, or never said what it wants. TimeoutError is one of these.
            reset(connection)
        finally:
            self._meter.usage.open -= 1
            reset(connection)

    async def _handle(self, connection: socket.socket, way: _Way, place: tuple[str, int]) -> None:
        try:
            target = await self._target(connection, way, place)
        except HeadError as error:
            await _farewell(connection, way.refused(error.status, str(error)))
            return
        try:
            rule, server = await self._reach(target)
        except _NoWayError as error:
            refused = error.status == 403
            self._meter.note(target.host, target.port, "refused" if refused else "failed", str(error))
            about = f"server {self._server} may not reach" if refused else "no connection to"
            await _farewell(connection, way.refused(error.status, f"{about} {target.host}:{target.port}: {error}"))
            return
        with server:
            await self._join(connection, server, (target, rule, way.connected(target)))

    async def _target(self, connection: socket.socket, way: _Way, place: tuple[str, int]) -> Target:
        """Return where a client wants to go. Raise `HeadError` where it says nothing that can be understood."""
        if way is _PLAIN:
            return Target(*place)
        async with asyncio.timeout(_HEAD_SECONDS):
            return await (read_http(connection) if way is _HTTP else read_socks(connection))

    async def _reach(self, target: Target) -> tuple[Rule, socket.socket]:
        """Return a connection to a target, and the rule that allows it. Raise `_NoWayError` where there is none."""
        host = self._meant(target.host)
        if host is None:
            raise _NoWayError(403, "nothing has this address")
        verdict = self._egress.match(host, target.port)
        if verdict.rule is None:
            raise _NoWayError(403, verdict.reason)
        try:
            if (via := verdict.rule.via) is not None:
                return verdict.rule, await connect_through(self._around.outside, via, normal(host), target.port)
            addresses = await self._addresses(host, verdict.rule)
            return verdict.rule, await connect_first(self._around.outside, addresses, target.port)
        except TimeoutError:
            raise _NoWayError(504, "no answer in time") from None
        except OSError as error:
            raise _NoWayError(502, _cause(error)) from None
        except UnicodeError:
            raise _NoWayError(502, "this is no name that can be resolved") from None

    def _meant(self, host: str) -> str | None:
        """Return the name that an address of the sandbox stands for; anything else is what it says."""
        address = literal(host)
        return host if address is None else self._names.name(str(address))

    async def _addresses(self, host: str, rule: Rule) -> tuple[Address, ...]:
        """Return the addresses of a host that its rule lets through. Raise `_NoWayError` where there is none."""
        name = normal(host)
        if rule.kind is Kind.LOOPBACK:
            return (_LOOPBACK_ADDRESS,)
        address = literal(name)
        found = (address,) if address is not None else await self._around.outside.resolve(name)
        judged = {address: rule.objection(address) or self._here(address, rule) for address in found}
        allowed = tuple(address for address, reason in judged.items() if not reason)
        if judged and not allowed:
            address, reason = next(iter(judged.items()))
            raise _NoWayError(403, f"it leads to {address}, {reason}")
        return allowed

    def _here(self, address: Address, rule: Rule) -> str:
        """Return why nobody goes to an address of this machine by a rule that names no host."""
        unnamed = rule.kind in (Kind.INTERNET, Kind.BELOW) and not rule.trusted
        return "an address of this machine" if unnamed and self._around.outside.is_here(address) else ""

    async def _join(self, client: socket.socket, server: socket.socket, agreed: tuple[Target, Rule, bytes]) -> None:
        target, rule, answer = agreed
        host = self._meant(target.host) or target.host
        relay = Relay(client, server, self._around.idle_seconds)
        self._relays.add(relay)
        reason = ""
        try:
            await self._loop.sock_sendall(client, answer)
            await relay.run(target.first, functools.partial(tls_objection, rule, normal(host)))
        except RefusedError as error:
            reason = str(error)
            reset(server)
        except OSError:
            # Whichever side broke, the other is to see it too.
            reset(server)
        finally:
            usage = self._meter.usage
            self._relays.discard(relay)
            usage.sent += relay.sent
            usage.received += relay.received
            outcome: Outcome = "refused" if reason else "passed"
            self._meter.note(host, target.port, outcome, reason, (relay.sent, relay.received))
        if not reason and server.fileno() >= 0:
            client.close()


def tls_objection(rule: Rule, host: str, asked: Hello | str) -> str:
    """Return why a client of TLS must not ask for a server on a connection that a rule allowed for a host.

    One address serves many names, so the name in the first message decides who answers: it must be the one that was
    allowed, or one of the same rule. Where addresses are the rule, there is no name to compare.
    """
    if rule.kind in (Kind.ADDRESS, Kind.LOOPBACK) or (rule.kind is Kind.INTERNET and asked is Hello.NAMELESS):
        return ""
    if asked is Hello.NAMELESS:
        return "TLS without the name of a server (SNI)"
    if isinstance(asked, Hello):
        return "the first message of TLS cannot be read"
    try:
        name = normal(asked)
    except ValueError:
        return "TLS asks for a server with an impossible name"
    return "" if name == host or rule.covers(name) else f"TLS asks for another server, {name}"


def _cause(error: OSError) -> str:
    """Return what went wrong, without the address that only the daemon knows."""
    number = error.errno or 0
    return os.strerror(number) if number > 0 else error.strerror or str(error)


async def read_http(connection: socket.socket) -> Target:
    """Return what a client of an HTTP proxy wants. Raise `HeadError`."""
    loop = asyncio.get_running_loop()
    data = b""
    while b"\r\n\r\n" not in data:
        part = await loop.sock_recv(connection, 1 << 14)
        data += part
        if not part:
            raise ConnectionResetError
        if len(data) > heads.MOST_HEAD:
            raise HeadError(431, "the head of the request is too large")
    head, _, rest = data.partition(b"\r\n\r\n")
    target = heads.http_target(head)
    return replace(target, first=target.first + rest)


async def read_socks(connection: socket.socket) -> Target:
    """Greet a client of SOCKS 5 and return what it wants. Raise `HeadError`."""
    loop = asyncio.get_running_loop()
    version, count = await _exactly(connection, 2)
    methods = await _exactly(connection, count)
    if version != heads.SOCKS_VERSION:
        # Other versions would take the answer for nonsense.
        raise ConnectionResetError
    if 0 not in methods:
        await loop.sock_sendall(connection, bytes((heads.SOCKS_VERSION, 0xFF)))
        raise ConnectionResetError
    await loop.sock_sendall(connection, bytes((heads.SOCKS_VERSION, 0)))
    request = b""
    while (size := heads.socks_size(request)) > len(request):
        request += await _exactly(connection, size - len(request))
    return heads.socks_target(request)


async def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = await asyncio.get_running_loop().sock_recv(connection, size - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data


async def _farewell(connection: socket.socket, answer: bytes) -> None:
    """Send the last words and close. What the client still sends is read first: unread, it would destroy them."""
    if not answer:
        reset(connection)
        return
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await loop.sock_sendall(connection, answer)
            connection.shutdown(socket.SHUT_WR)
            left = _FAREWELL_BYTES
            while left > 0 and (data := await loop.sock_recv(connection, left)):
                left -= len(data)
    connection.close()
