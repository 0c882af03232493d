"""Real programs in real sandboxes: what they reach by their rules, how they are refused, and what is left of it."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.base import ExitStatus, LaunchSpec, Network
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from tests.kit.bounded import bounded
from tests.kit.required import need
from tests.runtimes.conformance import ended, exists, read, running
from tests.runtimes.egress.world import (
    World,
    authority,
    echo,
    egress,
    greet,
    page,
    run,
    script,
    serving,
    system_python,
)
from tests.runtimes.test_bwrap import as_person

pytestmark = [pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

DIRECT = "curl --noproxy '*' -sS --max-time 20"
#: A program of the system in PATH, because node, curl and git are no part of a virtual environment.
NODE = shutil.which("node", path="/usr/bin:/usr/local/bin")


@bounded(60)
async def test_a_person_and_root_alike_reach_what_is_allowed() -> None:
    await _allowed_and_denied()


def test_a_person_reaches_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    # This one's Python may be in a folder that another user cannot enter.
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    as_person(_allowed_and_denied)


async def _allowed_and_denied() -> None:
    async with serving(page) as port:
        world = World(ports={80: port})
        text = f"{DIRECT} http://ok.test/; curl -sS http://ok.test/; {DIRECT} http://no.test/; curl -sS http://no.test/"
        said = await script(world, egress("ok.test:80"), text)
    assert said.count("<p>hello from outside</p>\nok.test\n") == 2
    assert "Could not resolve host: no.test" in said
    assert "smcp: server test may not reach no.test:80: it is not in the rules of this server" in said
    assert world.resolved == ["ok.test", "ok.test"]
    assert ("no.test", 80, "refused") in [(seen.host, seen.port, seen.outcome) for seen in world.contacts]
    passed = [seen for seen in world.contacts if seen.outcome == "passed"]
    assert [(seen.server, seen.host, seen.port) for seen in passed] == [("test", "ok.test", 80)] * 2
    assert all(seen.sent > 50 < seen.received for seen in passed)


@bounded(60)
async def test_clients_without_a_notion_of_proxies() -> None:
    program = """
import socket, urllib.request
def direct(host, port):
    with socket.create_connection((host, port), 10) as s:
        s.sendall(b"GET / HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n" % host.encode())
        return s.makefile("rb").read().split(b"\\n")[-2].decode()
print(direct("a.wild.test", 80))
for host, port in (("wild.test", 80), ("a.wild.test", 81), ("8.8.8.8", 80), ("198.18.7.7", 80), ("127.0.0.1", 80)):
    try: print(direct(host, port), "REACHED", host)
    except OSError as e: print(host, port, type(e).__name__)
print(urllib.request.urlopen("http://b.wild.test/").read().decode().split()[-1])
print(urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://c.wild.test/").read().decode().split()[-1])
try: urllib.request.urlopen("http://no.test/")
except urllib.error.HTTPError as e: print(e.code, e.reason)
"""
    async with serving(page) as port:
        done = await run(World(ports={80: port}), egress("*.wild.test:80"), system_python(program))
    assert done.errors == ""
    assert done.output.splitlines() == [
        "a.wild.test",
        "wild.test 80 gaierror",
        "a.wild.test 81 ConnectionRefusedError",
        "8.8.8.8 80 OSError",
        "198.18.7.7 80 ConnectionResetError",
        "127.0.0.1 80 ConnectionResetError",
        "b.wild.test",
        "c.wild.test",
        "403 Forbidden (smcp: server test may not reach no.test:80: it is not in the rules of this server)",
    ]


@bounded(60)
async def test_node(tmp_path: Path) -> None:
    need(NODE, "Node")
    context = authority(tmp_path, "ok.test")
    program = """
for (const url of ["http://ok.test/", "https://ok.test/", "http://no.test/"])
  await fetch(url).then(r => r.text()).then(t => console.log(url, t.trim().split("\\n")[1]),
    e => console.log(url, e.cause.code));
"""
    argv = (str(NODE), "--input-type=module", "-e", program)
    env = (("PATH", "/usr/bin:/bin"), ("NODE_EXTRA_CA_CERTS", str(tmp_path / "ca.pem")))
    async with serving(page) as plain, serving(page, context) as secure:
        world = World(ports={80: plain, 443: secure})
        spec = LaunchSpec("test", argv, env=env, read_only=(str(tmp_path),))
        done = await run(world, egress("ok.test:80", "ok.test:443"), spec)
    assert done.output.splitlines() == [
        "http://ok.test/ ok.test",
        "https://ok.test/ ok.test",
        "http://no.test/ ENOTFOUND",
    ], done.errors


@bounded(60)
async def test_git(tmp_path: Path) -> None:
    setup = f"""set -e; cd {tmp_path}; export HOME={tmp_path}
git init -q work; cd work; echo content > file; git add file
git -c user.name=a -c user.email=b commit -qm first; git clone -q --bare . ../repo.git
cd ../repo.git; git update-server-info"""
    made = await asyncio.create_subprocess_exec("/bin/sh", "-c", setup)
    assert await made.wait() == 0

    async def files(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode().partition("?")[0]
        found = tmp_path / "repo.git" / line.removeprefix("/repo.git/")
        there = found.is_file()
        body = found.read_bytes() if there else b""
        status = b"200 OK" if there else b"404 Not Found"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()

    async with serving(files) as port:
        world = World(ports={80: port})
        text = "git clone -q http://git.test/repo.git one && cat one/file; git clone -q http://no.test/repo.git two; "
        text += "unset http_proxy ALL_PROXY all_proxy; git clone -q http://git.test/repo.git three && cat three/file"
        said = await script(world, egress("git.test:80"), text)
    assert said.count("content\n") == 2
    assert "403" in said


@bounded(60)
async def test_a_name_that_leads_to_this_machine_is_refused() -> None:
    async with serving(page) as port:
        inside = {"evil.test": ("127.0.0.1",), "cloud.test": ("169.254.169.254",), "lan.test": ("10.0.0.7", "::1")}
        world = World(names=inside, ports={80: port})
        network = egress("*.test:80")
        text = "".join(f"curl -sS http://{name}/; {DIRECT} http://{name}/; " for name in inside)
        said = await script(world, network, text)
    assert "hello" not in said
    assert world.connected == []
    assert "it leads to 127.0.0.1, a loopback address" in said
    assert "it leads to 169.254.169.254, a metadata address" in said
    assert "it leads to 10.0.0.7, a private address" in said
    # Whether curl had noticed that it was connected is a matter of luck.
    assert len(re.findall(r"curl: \((7|56)\)", said)) == 3


@bounded(60)
async def test_a_name_is_resolved_once_and_the_address_that_was_judged_is_used() -> None:
    async with serving(page) as port:
        world = World(names={"mixed.test": ("127.0.0.1", "93.184.216.99")}, ports={80: port})
        said = await script(world, egress("mixed.test:80"), f"{DIRECT} http://mixed.test/")
    assert "hello" in said
    assert world.resolved == ["mixed.test"]
    assert world.connected == [("93.184.216.99", 80)]


@bounded(60)
async def test_addresses_are_judged_as_themselves() -> None:
    targets = ("127.0.0.1", "169.254.169.254", "10.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1")
    async with serving(page) as port:
        world = World(ports={80: port})
        text = "".join(f"curl -sS -g --noproxy none http://{target}/; echo; " for target in targets)
        text += "".join(f"curl -sS -g -x socks5h://127.0.0.1:1080 http://{target}/; " for target in targets)
        text += f"curl -sS http://93.184.216.1/; {DIRECT} http://93.184.216.1/; {DIRECT} http://93.184.216.2/"
        said = await script(world, egress("93.184.216.1:80"), text)
    assert said.count("<p>hello from outside</p>\n93.184.216.1\n") == 2
    assert said.count("hello") == 2
    assert world.connected == [("93.184.216.1", 80)] * 2


@bounded(60)
async def test_the_internet_with_addresses_and_without_what_is_private() -> None:
    async with serving(page) as port:
        world = World(names={"inside.test": ("192.168.1.1",)}, ports={80: port, 8888: port})
        text = f"""{DIRECT} http://any.example/; {DIRECT} http://8.8.8.8/; {DIRECT} -g 'http://[2606:4700::1]/'
curl -sS http://any.example:8888/; curl -sS http://inside.test/; {DIRECT} http://192.168.1.1/; {DIRECT} http://169.254.169.254/"""
        said = await script(world, egress("internet"), text)
    assert said.count("hello") == 4
    assert [address for address, _ in world.connected] == ["93.184.216.34", "8.8.8.8", "2606:4700::1", "93.184.216.34"]
    assert "it leads to 192.168.1.1, a private address" in said
    assert len(re.findall(r"curl: \((7|56)\)", said)) == 2


@bounded(60)
async def test_tls_asks_for_the_server_that_was_allowed(tmp_path: Path) -> None:
    context = authority(tmp_path, "ok.test", "b.wild.test", "evil.test")
    async with serving(page, context) as port:
        world = World(ports={443: port})
        text = f"""{DIRECT} -k https://ok.test/; curl -sS -k https://ok.test/
{DIRECT} -k --connect-to evil.test:443:ok.test:443 https://evil.test/
curl -sS -k -p --connect-to evil.test:443:ok.test:443 https://evil.test/
{DIRECT} -k --connect-to b.wild.test:443:a.wild.test:443 https://b.wild.test/
{DIRECT} -k --connect-to 127.0.0.9:443:ok.test:443 https://127.0.0.9/"""
        said = await script(world, egress("ok.test:443", "*.wild.test:443"), text)
    assert said.count("hello") == 3
    assert "evil" not in said.replace("evil.test:443", "")
    assert [seen.reason for seen in world.contacts if seen.outcome == "refused"] == [
        "TLS asks for another server, evil.test",
        "TLS asks for another server, evil.test",
        "TLS without the name of a server (SNI)",
    ]


@bounded(60)
async def test_nothing_but_names_of_the_rules_is_answered_and_no_datagram_leaves() -> None:
    program = """
import socket, struct
def ask(name, kind, tcp=False):
    q = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0)
    q += b"".join(bytes((len(l),)) + l.encode() for l in name.split(".")) + b"\\0" + struct.pack(">2H", kind, 1)
    s = socket.socket(type=socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
    s.settimeout(10); s.connect(("127.0.0.1", 53))
    s.send(len(q).to_bytes(2, "big") + q if tcp else q)
    r = s.recv(4096)[2 if tcp else 0:]
    return r[3] & 15, int.from_bytes(r[6:8], "big")
for name, kind in (("ok.test", 1), ("ok.test", 28), ("ok.test", 16), ("c2Vj.evil.test", 1), ("c2Vj.evil.test", 16)):
    print(name, kind, *ask(name, kind), *ask(name, kind, tcp=True))
for where in (("8.8.8.8", 53), ("198.18.0.2", 53), ("198.18.0.2", 443), ("127.0.0.1", 123)):
    s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(10)
    try:
        s.connect(where); s.send(b"x"); s.recv(10); print("ANSWERED", where)
    except OSError as e: print(*where, type(e).__name__)
print(socket.getaddrinfo("ok.test", 80, type=socket.SOCK_STREAM)[0][4])
"""
    world = World()
    done = await run(world, egress("ok.test:443"), system_python(program))
    assert done.output.splitlines() == [
        "ok.test 1 0 1 0 1",
        "ok.test 28 0 0 0 0",
        "ok.test 16 0 0 0 0",
        "c2Vj.evil.test 1 3 0 3 0",
        "c2Vj.evil.test 16 3 0 3 0",
        "8.8.8.8 53 OSError",
        "198.18.0.2 53 ConnectionRefusedError",
        "198.18.0.2 443 ConnectionRefusedError",
        "127.0.0.1 123 ConnectionRefusedError",
        "('198.18.0.2', 80)",
    ], done.errors
    assert world.resolved == []


@bounded(60)
async def test_the_loopback_of_the_machine_by_its_own_rule() -> None:
    async with serving(page) as port, serving(page) as other:
        world = World()
        text = f"curl -sS http://host-loopback:{port}/; {DIRECT} http://127.0.0.1:{port}/; "
        text += f"{DIRECT} http://localhost:{port}/; "
        text += f"{DIRECT} http://127.0.0.1:{other}/; curl -sS http://host-loopback:{other}/"
        said = await script(world, egress(f"host-loopback:{port}"), text)
    assert said.count("hello") == 3
    assert world.connected == [("127.0.0.1", port)] * 3
    assert f"port {other} is not in its rules" in said


@bounded(60)
async def test_a_server_may_speak_first_and_either_side_may_end_first() -> None:
    program = """
import socket
s = socket.create_connection(("mail.test", 25), 10)
f = s.makefile("rb"); print(f.readline()); s.sendall(b"hi\\n"); print(f.read())
s = socket.create_connection(("echo.test", 7), 10)
s.sendall(b"x" * 100000); s.shutdown(socket.SHUT_WR); print(len(s.makefile("rb").read()))
"""
    async with serving(greet) as mail, serving(echo) as back:
        world = World(ports={25: mail, 7: back})
        done = await run(world, egress("mail.test:25", "echo.test:7"), system_python(program))
    assert done.output.splitlines() == ["b'220 welcome\\r\\n'", "b'you said hi\\n'", "100000"], done.errors


@bounded(120)
async def test_a_thousand_connections_and_one_more() -> None:
    program = """
import os, socket
def hold(count):
    made = []
    for _ in range(count):
        s = socket.create_connection(("echo.test", 7), 30); s.sendall(b"ab"); made.append(s)
    assert all(s.recv(2) == b"ab" for s in made)
    return made
r, w = os.pipe(); stop, go = os.pipe()
if os.fork() == 0:
    # A process may have a thousand descriptors by itself.
    os.close(go); held = hold(500); os.write(w, b"x"); os.read(stop, 1); os._exit(0)
os.close(stop); held = hold(500); os.read(r, 1)
print(len(held))
try: extra = socket.create_connection(("echo.test", 7), 30); print(extra.recv(1))
except OSError as e: print(type(e).__name__)
held.pop().close()
s = socket.create_connection(("127.0.0.1", 3128), 30); s.sendall(b"CONNECT echo.test:7 HTTP/1.1\\r\\n\\r\\n")
print(s.recv(100).split(b"\\r\\n")[0].decode())
"""
    async with serving(echo) as port:
        world = World(ports={7: port})
        network = egress("echo.test:7", most_connections=1000, connects_per_second=2000)
        done = await run(world, network, system_python(program))
    lines = done.output.splitlines()
    assert lines[:2] == ["500", "ConnectionResetError"], done
    assert lines[2] in ("HTTP/1.1 200 Connection established", _CROWDED)
    assert "more than 1000 connections at a time" in [seen.reason for seen in world.contacts]


_CROWDED = "HTTP/1.1 503 Service Unavailable (smcp: more than 1000 connections at a time)"


@bounded(120)
async def test_much_data_arrives_as_it_was_sent() -> None:
    size = 64 << 20

    async def much(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % size)
        for _ in range(size >> 16):
            writer.write(b"m" * (1 << 16))
            await writer.drain()

    async with serving(much) as port:
        world = World(ports={80: port})
        said = await script(world, egress("ok.test:80"), f"{DIRECT} http://ok.test/ | tr -d m | wc -c; echo ok")
        said += await script(world, egress("ok.test:80"), "curl -sS http://ok.test/ | wc -c")
    assert said == f"0\nok\n{size}\n"
    assert [seen.received > size for seen in world.contacts] == [True, True]


@bounded(60)
async def test_everything_is_closed_when_the_child_ends() -> None:
    async with serving(echo) as port:
        world = World(ports={7: port})
        runtime = BwrapRuntime(around=world.around())
        text = "exec 3<>/dev/tcp/echo.test/7; echo hi >&3; read x <&3; echo $x; sleep 100"
        spec = LaunchSpec("test", ("/bin/bash", "-c", text), network=egress("echo.test:7"), marker="t-closed")
        async with running(runtime, spec) as child:
            assert await read(child.stdout, b"hi\n") == b"hi\n"
            assert world.contacts == []
            child.kill()
            await ended(child)
        await runtime.aclose()
    assert [(seen.host, seen.outcome) for seen in world.contacts] == [("echo.test", "passed")]


async def _fails(canary: Path) -> str:
    runtime = BwrapRuntime()
    spec = LaunchSpec("files", ("/usr/bin/touch", str(canary)), network=egress("ok.test:443"), marker="t-fails")
    with pytest.raises(IsolationError) as caught:
        await runtime.launch(spec)
    await runtime.aclose()
    assert not exists(canary)
    assert tree.marked("t-fails") == []
    return caught.value.message


#: The beginning of an agent that takes a request and then does something else.
TAKES = """
import socket, sys
_, fds, _, _ = socket.recv_fds(socket.socket(fileno=int(sys.argv[1])), 9999, 2)
reply = socket.socket(fileno=fds[1])
"""


@pytest.mark.parametrize(
    "line",
    [
        "import sys; sys.exit()",
        "raise OSError",
        f"{TAKES}reply.send(b'nothing today')",
        f"{TAKES}reply.send(b'ok')",
        f"{TAKES}made = socket.create_server(('127.0.0.1', 0)); socket.send_fds(reply, [b'ok'], [made.fileno()] * 5)",
    ],
)
@bounded(60)
async def test_an_agent_that_fails_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    program = tmp_path / "agent.py"
    program.write_text(line)
    monkeypatch.setattr("supervisord_mcp.runtimes.egress.listeners._PROGRAM", program)
    assert "server files was not started: no listeners could be made" in await _fails(tmp_path / "canary")


@bounded(60)
async def test_an_agent_that_is_silent_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "agent.py"
    program.write_text("input()")
    monkeypatch.setattr("supervisord_mcp.runtimes.egress.listeners._PROGRAM", program)
    monkeypatch.setattr("supervisord_mcp.runtimes.egress.listeners._ANSWER_SECONDS", 0.3)
    assert "no answer in time" in await _fails(tmp_path / "canary")


@bounded(60)
async def test_a_network_without_rules_has_no_proxy() -> None:
    networks: tuple[Network, ...] = ("none", "loopback")
    for network in networks:
        spec = LaunchSpec("test", ("/usr/bin/env",), network=network, marker="t-plain")
        async with running(BwrapRuntime(), spec) as child:
            assert b"proxy" not in (await read(child.stdout)).lower()
            assert await ended(child) == ExitStatus(code=0)
