"""Servers on engines of other machines: over TLS, and over ssh (one that comes back here)."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import os
import shutil
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Child, Container, ExitStatus, LaunchSpec, Mount, SecretFiles
from supervisord_mcp.runtimes.container.engine import EngineError, Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from tests.kit.bounded import bounded
from tests.kit.engine import SHELL, Dockerd, fill
from tests.kit.required import need
from tests.runtimes.conformance import ended, read


def certificates(place: Path) -> None:
    """Make an authority, and a certificate of it that is good for both sides."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(both, critical=False)
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    text = built.public_bytes(serialization.Encoding.PEM)
    for each in ("ca.pem", "cert.pem"):
        (place / each).write_bytes(text)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (place / "key.pem").write_bytes(secret)


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Dockerd, dict[str, str]]]:
    """An engine that is reached over TLS, with the environment that says how."""
    place = tmp_path_factory.mktemp("tls")
    certificates(place)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [f"--tls{kind}={place}/{name}.pem" for kind, name in (("cacert", "ca"), ("cert", "cert"), ("key", "key"))]
    made = Dockerd("--tlsverify", *words, "-H", f"tcp://127.0.0.1:{port}")
    fill(made)
    yield (
        made,
        {
            "DOCKER_HOST": f"tcp://127.0.0.1:{port}",
            "DOCKER_TLS_VERIFY": "1",
            "DOCKER_CERT_PATH": str(place),
        },
    )
    made.close()


@pytest.fixture
def ssh(far: tuple[Dockerd, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The same over ssh: the program of that name runs here what it is to run there."""
    need(shutil.which("docker"), "the command docker, which ssh runs on the other machine")
    command = tmp_path / "bin" / "ssh"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\nexec docker -H {far[0].url} system dial-stdio\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    return {"DOCKER_HOST": "ssh://there"}


def shell(script: str, **changes: object) -> LaunchSpec:
    spec = LaunchSpec("test", ("/bin/sh", "-c", script), env=(("PATH", "/usr/bin:/bin"),), marker="daemon:test:1")
    return replace(spec, container=Container(SHELL), **changes)  # type: ignore[arg-type]


@asynccontextmanager
async def launched(environ: dict[str, str], place: Path, spec: LaunchSpec) -> AsyncIterator[Child]:
    """Have a child on an engine for a block."""
    runtime = ContainerRuntime(place, Engines(environ))
    try:
        child = await runtime.launch(spec)
        try:
            yield child
        finally:
            await child.aclose()
    finally:
        await runtime.aclose()


@bounded(60)
async def test_a_server_far_away_talks_ends_and_is_measured(
    far: tuple[Dockerd, dict[str, str]], tmp_path: Path
) -> None:
    script = "read line; echo $line; echo trouble >&2; cat; exit 7"
    async with launched(far[1], tmp_path, shell(script)) as child:
        os.write(child.stdin, b"first\n")
        assert await read(child.stdout, b"first\n") == b"first\n"
        meter = child.meter()
        assert meter is not None
        reading = await asyncio.to_thread(meter.read, 0.0)
        assert reading is not None
        assert reading.memory > 0
        assert reading.threads >= 2
        os.write(child.stdin, b"x" * 5000 + b"\n")
        child.close_stdin()
        assert await read(child.stdout) == b"x" * 5000 + b"\n"
        assert await read(child.stderr) == b"trouble\n"
        assert await ended(child) == ExitStatus(code=7)
    assert far[0].containers() == []


@bounded(60)
async def test_certificates_and_proxies_of_the_environment_are_not_for_an_engine(
    far: tuple[Dockerd, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.setenv(name, str(tmp_path / "none.pem"))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    async with launched(far[1], tmp_path, shell("read line; echo $line; cat")) as child:
        os.write(child.stdin, b"here\n")
        assert await read(child.stdout, b"here\n") == b"here\n"


@bounded(60)
async def test_what_nobody_reads_holds_nothing_up(far: tuple[Dockerd, dict[str, str]], tmp_path: Path) -> None:
    async with launched(
        far[1], tmp_path, shell("while :; do echo aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; done")
    ) as child:
        await read(child.stdout, b"a\n")
        child.kill()
        assert await ended(child) == ExitStatus(signal=9)
    assert far[0].containers() == []


@bounded(60)
async def test_what_needs_this_machine_is_refused_with_the_reason(
    far: tuple[Dockerd, dict[str, str]], tmp_path: Path
) -> None:
    runtime = ContainerRuntime(tmp_path, Engines(far[1]))
    with pytest.raises(LaunchError, match="another machine"):
        await runtime.launch(shell("cat", mounts=(Mount("/etc"),)))
    with pytest.raises(IsolationError, match="another machine"):
        await runtime.launch(shell("cat", network=Egress(parse_rules(["a.test:443"]))))
    with pytest.raises(IsolationError, match="another machine"):
        await runtime.launch(shell("cat", secrets=SecretFiles("", (("TOKEN", "x"),))))
    await runtime.aclose()
    assert far[0].containers() == []


@bounded(60)
async def test_without_a_certificate_nobody_is_let_in(far: tuple[Dockerd, dict[str, str]], tmp_path: Path) -> None:
    runtime = ContainerRuntime(tmp_path, Engines({"DOCKER_HOST": far[1]["DOCKER_HOST"]}))
    with pytest.raises(EngineError):
        await runtime.launch(shell("cat"))
    await runtime.aclose()


@bounded(60)
async def test_a_server_behind_ssh(ssh: dict[str, str], far: tuple[Dockerd, dict[str, str]], tmp_path: Path) -> None:
    async with launched(ssh, tmp_path, shell("read line; echo $line; cat; exit 7")) as child:
        os.write(child.stdin, b"first\n")
        assert await read(child.stdout, b"first\n") == b"first\n"
        child.close_stdin()
        assert await ended(child) == ExitStatus(code=7)
    assert far[0].containers() == []


@bounded(60)
async def test_a_request_that_fails_over_ssh_leaves_servers_alone(ssh: dict[str, str], tmp_path: Path) -> None:
    runtime = ContainerRuntime(tmp_path, Engines(ssh))
    child = await runtime.launch(shell("cat"))
    try:
        command = tmp_path / "bin" / "ssh"
        good = command.read_text()
        command.write_text("#!/bin/sh\necho no route to there >&2\nexit 255\n")
        with pytest.raises(EngineError, match="no route to there"):
            await runtime.engines.of("").call(lambda client: client.ping())
        command.write_text(good)
        os.write(child.stdin, b"on\n")
        assert await read(child.stdout, b"on\n") == b"on\n"
    finally:
        await child.aclose()
        await runtime.aclose()
