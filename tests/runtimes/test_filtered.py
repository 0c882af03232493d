"""Programs under the filter, in the real kernel: what is refused is refused, and nothing breaks that servers need."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import shutil
import signal
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.runtimes import seccomp, syscalls
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec, Mount, Network, Runtime
from supervisord_mcp.runtimes.bpf import Answer
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.seccomp import BASE, Policy
from tests.kit.bounded import bounded
from tests.kit.required import need
from tests.runtimes.conformance import PYTHON_ROOTS, ended, python, read, running, shell
from tests.runtimes.test_bwrap import INITIALIZE, as_person

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

SOURCE = Path(__file__).with_name("filtered.c")
NONE, PERM, NOSYS, NOFAMILY = 0, errno.EPERM, errno.ENOSYS, errno.EAFNOSUPPORT
REFUSED = {
    "int 0x80": -signal.SIGSYS,
    **dict.fromkeys(("x32 getpid", "number 600", "number -1", "clone3", "io_uring_setup"), NOSYS),
    **dict.fromkeys(("clone(NEWUSER)", "clone(NEWUSER high)", "unshare(NEWUSER)", "ptrace(TRACEME)"), PERM),
    **dict.fromkeys(("keyctl", "request_key", "add_key", "personality(NO_RANDOMIZE)"), PERM),
    **dict.fromkeys(("socket(inet raw)", "socket(inet packet)", "socket(inet6 raw)"), PERM),
    **dict.fromkeys(("socket(unix)", "socket(unix high)", "socket(packet)", "socket(alg)", "socket(vsock)"), NOFAMILY),
    **dict.fromkeys((f"socket(netlink {name})" for name in ("audit", "netfilter", "generic")), NOFAMILY),
    **dict.fromkeys(("socketpair(inet)", "socketpair(unix dgram)", "socketpair(unix raw)"), NOFAMILY),
    **dict.fromkeys(("ioctl(TIOCSTI)", "ioctl(TIOCSTI high)", "ioctl(TIOCLINUX)", "ioctl(TIOCLINUX high)"), PERM),
    **dict.fromkeys(("ioctl(TIOCSETD)", "ioctl(TIOCCONS)"), PERM),
}
ALLOWED = {
    *("clone", "personality(0)", "personality(?)", "socket(inet)", "socket(inet dgram)", "socket(inet6)"),
    *("socket(netlink route)", "socketpair(unix)", "socketpair(unix seqpacket)", "ioctl(TIOCGWINSZ)"),
}

PYTHON = """
import asyncio, concurrent.futures, json, multiprocessing, os, socket, ssl, subprocess, sys, tempfile, threading

async def processes():
    one = await asyncio.create_subprocess_exec("/bin/cat", stdin=-1, stdout=-1)
    return (await one.communicate(b"asyncio"))[0].decode()

done = []
thread = threading.Thread(target=done.append, args=("thread",))
thread.start(); thread.join()
done.append(socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)[0][4][0] in ("127.0.0.1", "::1"))
done.append(asyncio.run(processes()))
done.append(subprocess.run(["/bin/echo", "subprocess"], capture_output=True, text=True).stdout.strip())
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    done.append(sum(pool.map(len, ["abc"] * 100)))
with multiprocessing.get_context("fork").Pool(2) as pool:
    done.append(pool.map(abs, [-1, -2]))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname(), 5)
server.accept()[0].sendall(b"loopback")
done.append(client.recv(99).decode())
with tempfile.NamedTemporaryFile() as file:
    os.link(file.name, file.name + "x"); os.rename(file.name + "x", file.name + "y"); os.unlink(file.name + "y")
ssl.create_default_context()
print(json.dumps(done))
"""
NODE = """
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const { execFileSync, fork } = require('child_process');
const fs = require('fs'), dns = require('dns').promises;
if (process.argv[3]) { process.send('forked'); process.disconnect(); }
else (async () => {
    const done = [];
    if (process.argv[2] !== 'none') done.push(await (await fetch(process.argv[2])).text());
    else done.push('skipped');
    done.push(await new Promise((resolve, reject) => {
        const code = "require('worker_threads').parentPort.postMessage('worker')";
        new Worker(code, { eval: true }).on('message', resolve).on('error', reject);
    }));
    const bytes = [0,97,115,109,1,0,0,0,1,5,1,96,0,1,127,3,2,1,0,7,5,1,1,102,0,0,10,6,1,4,0,65,42,11];
    done.push((await WebAssembly.instantiate(new Uint8Array(bytes))).instance.exports.f());
    done.push(execFileSync('/bin/echo', ['child'], { encoding: 'utf8' }).trim());
    done.push(await new Promise(resolve => fork(process.argv[1], ['none', 'child']).on('message', resolve)));
    await fs.promises.writeFile('/tmp/file', 'x');
    fs.watch('/tmp', () => {}).close();
    done.push((await dns.lookup('localhost')).family > 0, require('os').cpus().length > 0);
    console.log(JSON.stringify(done));
})();
"""
GIT = """
set -e
cd "$HOME"; git init -q one; cd one; git config user.name a; git config user.email a@example.org
echo x > file; git add file; git commit -qm first; git gc -q; git clone -q . ../two; git -C ../two log --format=%s
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that anybody may enter."""
    with tempfile.TemporaryDirectory(prefix="smcp-test-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def program(folder: Path) -> Path:
    """The static program that tries everything; nothing in a sandbox is needed to run it."""
    return _compiled(folder / "filtered", SOURCE.read_text(), "-static")


@pytest.fixture(scope="module")
def killed(folder: Path) -> Path:
    """A program that makes a call of another architecture."""
    return _compiled(folder / "killed", 'int main(void) { __asm__ volatile("int $0x80" : : "a"(20)); return 0; }')


@pytest.fixture(scope="module")
def repository(folder: Path) -> Path:
    """A repository of git with one commit."""
    place = folder / "repository"
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for words in (("init", "-q"), (*identity, "commit", "-q", "-m", "seen", "--allow-empty")):
        place.mkdir(exist_ok=True)
        subprocess.run(["git", "-C", str(place), *words], check=True)
    return place


@pytest.fixture(scope="module")
def script(folder: Path) -> Path:
    """The script for Node."""
    need(shutil.which("node"), "Node")
    place = folder / "script.js"
    place.write_text(NODE)
    return place


def _compiled(place: Path, source: str, *options: str) -> Path:
    compiler = shutil.which("gcc")
    need(compiler, "a C compiler")
    assert compiler is not None
    line = [compiler, *options, "-O1", "-Wall", "-Werror", "-o", str(place), "-x", "c", "-"]
    need(subprocess.run(line, input=source, text=True, check=False).returncode == 0, "a static C library")
    return place


def _spec(program: Path, *words: str, policy: Policy = BASE) -> LaunchSpec:
    argv = (str(program), *words)
    return LaunchSpec("test", argv, marker=f"t-{uuid.uuid4()}", mounts=(Mount(str(program.parent)),), seccomp=policy)


async def _tried(runtime: Runtime, spec: LaunchSpec) -> dict[str, int]:
    async with running(runtime, spec) as child:
        lines = (await read(child.stdout)).decode().splitlines()
        assert await ended(child) == ExitStatus(code=0)
    return {name: int(result) for name, _, result in (line.rpartition(" ") for line in lines)}


async def _gets_what_is_specified(program: Path) -> None:
    expected = REFUSED | dict.fromkeys(ALLOWED, NONE)
    tried = await _tried(BwrapRuntime(), _spec(program))
    assert tried == {name: result for name, result in expected.items() if name in tried}
    assert expected.keys() - tried.keys() <= {"int 0x80", "x32 getpid"}


@bounded(60)
async def test_a_static_program_gets_what_is_specified(program: Path) -> None:
    await _gets_what_is_specified(program)


def test_a_static_program_gets_the_same_from_a_person(program: Path) -> None:
    as_person(_gets_what_is_specified, program)


@bounded(60)
async def test_the_program_can_do_what_is_refused(program: Path) -> None:
    tried = await _tried(BareRuntime(), _spec(program, "harmless"))
    for name in ("clone3", "ptrace(TRACEME)", "socket(unix)", "socket(unix high)", "socket(netlink generic)"):
        assert tried[name] == NONE
    for name, result in tried.items():
        assert name.startswith(("x32", "number", "socket")) or name in ALLOWED or result != REFUSED[name]


@bounded(60)
async def test_every_call_that_is_denied_is_refused_before_it_does_anything(program: Path) -> None:
    numbers = syscalls.native().numbers
    found = {name: numbers[name] for name, each in seccomp.decisions(BASE).items() if name in numbers}
    plain = {name: each for name, each in seccomp.decisions(BASE).items() if isinstance(each, Answer)}
    words = [str(found[name]) for name in found if name in plain]
    assert len(words) > 60
    tried = await _tried(BwrapRuntime(), _spec(program, *words))
    for name, number in found.items():
        if name in plain:
            assert tried[str(number)] == plain[name].value & 0xFFFF, name


@bounded(60)
async def test_what_linux_does_not_have_is_not_there(program: Path) -> None:
    known = set(syscalls.native().numbers.values())
    words = [str(number) for number in range(548) if number not in known]
    assert set((await _tried(BwrapRuntime(), _spec(program, *words))).values()) == {NOSYS}


@bounded(60)
async def test_a_policy_widens_and_narrows(program: Path) -> None:
    wide = replace(BASE, families=BASE.families | {"unix"}, userns=True, ptrace=True)
    tried = await _tried(BwrapRuntime(), _spec(program, policy=wide))
    opened = {"socket(unix)", "socket(unix high)", "ptrace(TRACEME)", "personality(NO_RANDOMIZE)"}
    opened |= {"clone(NEWUSER)", "clone(NEWUSER high)", "unshare(NEWUSER)"}
    opened |= {"socketpair(unix dgram)", "socketpair(unix raw)"}
    assert {name for name, result in tried.items() if result == NONE} == ALLOWED | opened
    narrow = Policy(families=frozenset(), deny=frozenset({"personality"}))
    tried = await _tried(BwrapRuntime(), _spec(program, policy=narrow))
    assert tried["socket(inet)"] == tried["socket(inet raw)"] == tried["socket(netlink route)"] == NOFAMILY
    assert tried["personality(0)"] == PERM
    assert tried["socketpair(unix)"] == NONE


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="has no calls of another architecture")
@bounded(60)
async def test_a_server_that_the_filter_kills_is_said_to_be(killed: Path) -> None:
    async with running(BwrapRuntime(), _spec(killed)) as child:
        status = await ended(child)
    assert status == ExitStatus(signal=signal.SIGSYS)
    assert "blocked syscall" in str(status)


@bounded(60)
async def test_every_process_of_a_sandbox_is_filtered() -> None:
    script = "grep -hE '^(Seccomp|NoNewPrivs|CapEff):' /proc/1/status /proc/self/status"
    async with running(BwrapRuntime(), shell(script)) as child:
        found = (await read(child.stdout)).decode().split()
    pairs = sorted(zip(found[::2], found[1::2], strict=True))
    assert pairs == sorted([("CapEff:", "0" * 16), ("NoNewPrivs:", "1"), ("Seccomp:", "2")] * 2)


@bounded(60)
async def test_python_finds_what_it_needs() -> None:
    async with running(BwrapRuntime(), python(PYTHON)) as child:
        output, complaints = await read(child.stdout), await read(child.stderr)
    assert complaints == b""
    assert json.loads(output) == ["thread", True, "asyncio", "subprocess", 300, [1, 2], "loopback"]


@pytest.mark.parametrize("network", ["none", "host"])
@bounded(60)
async def test_node_finds_what_it_needs(network: Network, script: Path) -> None:
    server = await asyncio.start_server(_hello, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/" if network == "host" else "none"
    spec = replace(
        _spec(Path("/usr/bin/env"), "node", str(script), url),
        env=(("PATH", "/usr/bin:/bin"),),
        mounts=(Mount(str(script.parent)),),
        network=network,
    )
    async with server, running(BwrapRuntime(), spec) as child:
        output, complaints = await read(child.stdout), await read(child.stderr)
    assert complaints == b""
    expected = "fetched" if network == "host" else "skipped"
    assert json.loads(output) == [expected, "worker", 42, "child", "forked", True, True]


async def _hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nfetched")
    await writer.drain()
    writer.close()


@bounded(60)
async def test_git_finds_what_it_needs() -> None:
    async with running(BwrapRuntime(), shell(GIT)) as child:
        assert (await read(child.stdout), await read(child.stderr)) == (b"first\n", b"")
        assert await ended(child) == ExitStatus(code=0)


@bounded(90)
async def test_a_real_server_does_its_work(repository: Path) -> None:
    program = shutil.which("mcp-server-git")
    assert program is not None
    # It belongs to nobody that the sandbox knows if the daemon is run by root.
    trust = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    env = {"PATH": "/usr/bin:/bin", **trust}
    mounts = (Mount(str(repository)),)
    spec = replace(_spec(Path(program)), env=tuple(env.items()), read_only=PYTHON_ROOTS, mounts=mounts)
    call = {"name": "git_log", "arguments": {"repo_path": str(repository)}}
    messages = [
        INITIALIZE,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call},
    ]
    async with running(BwrapRuntime(), spec) as child:
        os.write(child.stdin, json.dumps(messages[0]).encode() + b"\n")
        assert b'"serverInfo"' in await read(child.stdout, b"\n", seconds=60)
        os.write(child.stdin, b"".join(json.dumps(message).encode() + b"\n" for message in messages[1:]))
        assert "seen" in json.loads(await read(child.stdout, b"\n", seconds=60))["result"]["content"][0]["text"]
        child.close_stdin()
        assert (await ended(child)).success
