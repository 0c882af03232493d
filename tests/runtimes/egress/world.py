"""A small internet on the loopback of this machine: names, addresses, servers, and a runtime whose outside it is."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import functools
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisord_mcp.egress.addresses import Address
from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.egress.meter import Contact
from supervisord_mcp.runtimes.egress.outside import Outside
from supervisord_mcp.runtimes.egress.proxy import Surroundings
from tests.runtimes.conformance import ended, read, shell

PUBLIC = ipaddress.ip_address("93.184.216.34")
PAGE = b"<p>hello from outside</p>\n"

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@dataclass
class World(Outside):
    """What there is outside: ``names`` lead to addresses, ``ports`` of any public address to ports of servers here."""

    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    ports: dict[int, int] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)
    connected: list[tuple[str, int]] = field(default_factory=list)
    contacts: list[Contact] = field(default_factory=list)

    async def resolve(self, name: str) -> tuple[Address, ...]:
        """Return the addresses of a name, or `PUBLIC` where the test has named none."""
        self.resolved.append(name)
        return tuple(map(ipaddress.ip_address, self.names.get(name, (str(PUBLIC),))))

    async def connect(self, address: Address, port: int) -> socket.socket:
        """Connect to the server that stands for a port, wherever it should be."""
        self.connected.append((str(address), port))
        return await super().connect(ipaddress.ip_address("127.0.0.1"), self.ports.get(port, port))

    def around(self, idle_seconds: float = 60) -> Surroundings:
        """Return what a proxy needs."""
        return Surroundings(self, self.contacts.append, idle_seconds)


@contextlib.asynccontextmanager
async def serving(handler: Handler, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run a server on the loopback for a block; give its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        # The library reports a server whose handler was cancelled.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            await handler(reader, writer)
        writer.close()
        with contextlib.suppress(OSError, ssl.SSLError):
            await writer.wait_closed()
        tasks.discard(task)

    server = await asyncio.start_server(run, "127.0.0.1", 0, ssl=context, backlog=1024)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request of HTTP with a page that names the host that was asked for."""
    head = await reader.readuntil(b"\r\n\r\n")
    host = next((line for line in head.split(b"\r\n") if line.lower().startswith(b"host:")), b"host: none")
    body = PAGE + host[6:] + b"\n"
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
    await writer.drain()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what comes, and end when it ends."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Speak first, as servers of mail and databases do."""
    writer.write(b"220 welcome\r\n")
    await writer.drain()
    writer.write(b"you said " + await reader.readline())
    await writer.drain()


def egress(*texts: str, **limits: int) -> Egress:
    """Return rules from their texts."""
    return Egress(parse_rules(texts), **limits)


@dataclass(frozen=True, slots=True)
class Done:
    """How a program in a sandbox ended, and what it said."""

    status: ExitStatus
    output: str
    errors: str


async def run(world: World, network: Egress, spec: LaunchSpec) -> Done:
    """Run a program in a real sandbox with rules; return what became of it."""
    from dataclasses import replace

    runtime = BwrapRuntime(around=world.around())
    try:
        child = await runtime.launch(replace(spec, network=network))
        try:
            output, errors = await asyncio.gather(read(child.stdout, seconds=60), read(child.stderr, seconds=60))
            return Done(await ended(child, seconds=60), output.decode(), errors.decode())
        finally:
            await child.aclose()
    finally:
        await runtime.aclose()


async def script(world: World, network: Egress, text: str) -> str:
    """Run a script of the shell in a sandbox; return what it wrote, both ways."""
    done = await run(world, network, shell(f"exec 2>&1; {text}", PATH="/usr/bin:/bin"))
    return done.output


def system_python(text: str) -> LaunchSpec:
    """Return a spec that runs a script with the Python of the system, which every sandbox shows."""
    return LaunchSpec("test", ("/usr/bin/python3", "-I", "-c", text), env=(("PATH", "/usr/bin:/bin"),))


@functools.cache
def authority(folder: Path, *names: str) -> ssl.SSLContext:
    """Return the context of a server of TLS with a certificate for names; ``folder`` gets ``ca.pem`` for clients."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "key.pem").write_bytes(private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "key.pem")
    return context
