"""The comparison with the peers measures what it says, says why where it cannot, and leaves nothing behind."""

from __future__ import annotations

import errno
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from contrib.bench import server as tiny
from contrib.bench.field import __main__ as field
from contrib.bench.field import caller, census, engine, installing, readme, space, trial
from contrib.bench.field.amount import Amount
from contrib.bench.field.peers import BY_NAME, EVERYTHING, NAME, PEERS, TINY_SERVER, Peer, Server, Site
from contrib.bench.field.results import MEASURES, Row, from_plain, tables
from contrib.bench.field.wires import WIRES, CallError, LostError, events
from contrib.bench.place import ROOT, TINY, BenchError
from contrib.matrix.peers import Kit
from tests.kit.required import need

SHORT = Amount(
    rounds=1, calls=10, warm=2, seconds=0.05, crowd=3, many=4, patience=20.0, recovery=10.0, left=0.2, blob=100_000
)


class Gateway(BaseHTTPRequestHandler):
    """The tiny server behind HTTP, in each of the ways that gateways have; what is asked decides which one."""

    protocol_version = "HTTP/1.1"
    stream: queue.Queue[bytes]
    #: How often a session is forgotten, and a kept connection closed, from now on.
    forget = 0
    closing = 0

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        if self.path == "/plain/openapi.json":
            return self.answer(200, b"{}")
        if self.path == "/mcp":
            return self.answer(405, b"")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        type(self).stream = queue.Queue()
        self.wfile.write(b"event: endpoint\r\ndata: /message?session=1\r\n\r\n: a comment\n\n")
        while data := self.stream.get():
            self.wfile.write(data)
        return None

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.startswith("/plain/"):
            name = self.path.rpartition("/")[2]
            if name not in ("echo", "blob"):
                return self.answer(404, b"no such tool")
            called = tiny.result("tools/call", {"name": name, "arguments": message})
            return self.answer(200, json.dumps(called["content"][0]["text"]).encode())  # type: ignore[index]
        if "id" not in message:
            return self.answer(202, b"")
        if Gateway.forget and message["method"] != "initialize":
            Gateway.forget -= 1
            return self.answer(404, b"no such session")
        known = message["params"].get("name", "echo") in ("echo", "blob")
        result = tiny.result(message["method"], message["params"]) if known else {"isError": True, "content": []}
        body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        if self.path == "/mcp-json":
            return self.answer(200, body, "application/json")
        event = b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\nevent: message\ndata: ' + body + b"\n\n"
        if self.path.startswith("/message"):
            self.answer(202, b"Accepted")
            return self.stream.put(event)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Mcp-Session-Id", "one")
        self.end_headers()
        for part in (event[:30], event[30:], b""):
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        return None

    def answer(self, status: int, body: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if Gateway.closing:
            # As servers do with a connection on which nothing comes: they do not say so.
            Gateway.closing -= 1
            self.close_connection = True


@contextmanager
def gateway() -> Iterator[str]:
    """Run it; give its address."""
    Gateway.forget = Gateway.closing = 0
    Gateway.stream = queue.Queue()
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            Gateway.stream.put(b"")
            server.shutdown()
            thread.join(10)


@pytest.fixture
def bell() -> Iterator[None]:
    """Let the time limits of a client work in this process, too."""
    before = signal.signal(signal.SIGALRM, caller.ring)
    yield
    signal.signal(signal.SIGALRM, before)


def site(tmp_path: Path, kit: Kit | None = None) -> Site:
    """Return where a peer would be started."""
    return Site(tmp_path, tmp_path / "place", kit, TINY)


@pytest.mark.parametrize(
    ("kind", "path"), [("http", "/mcp"), ("http", "/mcp-json"), ("sse", "/sse"), ("plain", "/plain")]
)
def test_a_call_over_http(kind: str, path: str) -> None:
    with gateway() as address:
        wire = WIRES[kind](address + path)
        wire.open()
        assert [wire.call("echo", {"text": f"text {number}"}) for number in range(3)] == ["text 0", "text 1", "text 2"]
        assert len(wire.call("blob", {"bytes": 200_000})) == 200_000
        with pytest.raises(CallError):
            wire.call("nothing", {"text": ""})
        wire.close()


@pytest.mark.parametrize("kind", ["pipes", "terminal"])
def test_a_call_over_pipes_and_terminals(kind: str) -> None:
    wire = WIRES[kind](*TINY)
    wire.open()
    pid = wire.pid
    assert wire.call("echo", {"text": "ü"}) == "ü"
    assert len(wire.call("blob", {"bytes": 200_000})) == 200_000
    psutil.Process(pid).kill()
    with pytest.raises((LostError, OSError)):
        wire.call("echo", {"text": ""})
    wire.close()
    assert not psutil.pid_exists(pid)


def test_a_connection_that_was_closed_while_it_was_idle_is_opened_again() -> None:
    with gateway() as address:
        wire = WIRES["http"](address + "/mcp-json")
        wire.open()
        Gateway.closing = 1
        assert [wire.call("echo", {"text": text}) for text in ("one", "two")] == ["one", "two"]
        assert Gateway.closing == 0
        wire.close()


@pytest.mark.usefixtures("bell")
def test_a_client_opens_a_session_anew_that_the_server_has_forgotten() -> None:
    with gateway() as address:
        client = caller.Caller("http", address + "/mcp")
        client.open(0.0, 5.0)
        Gateway.forget = 1
        assert client.again(time.monotonic(), 5.0)["failures"] == 1
        client.close()


def test_events_are_read_across_pieces() -> None:
    pieces = [b"event: endpo", b"int\ndata: /a\n\n: nothing\n\n", b"data: one\r\ndata: two\r\n\r\n", b"data: lost"]
    assert list(events(iter(pieces))) == [("endpoint", "/a"), ("message", "one\ntwo")]


@pytest.mark.usefixtures("bell")
def test_a_client_that_cannot_connect_says_why() -> None:
    done = caller.Caller("pipes", "/bin/false").open(0.0, 5.0)
    assert done == {"failed": "the command ended"}


def test_every_version_is_pinned_and_every_peer_can_be_started(tmp_path: Path) -> None:
    for kit in {peer.kit for peer in PEERS if peer.kit} | {EVERYTHING}:
        assert all("@" in package[1:] or "==" in package for package in kit.packages)
    for peer in PEERS:
        # What is said about another version may have become wrong.
        assert bool(peer.documented) == bool(peer.kit)
        if peer.kit and "https://gofastmcp.com" not in peer.documented:
            assert f"(README of {' '.join(peer.version.replace('==', '@').rsplit('@', 1))})" in peer.documented
        if peer.name == "nothing":
            continue  # which has no server
        words = peer.wire(site(tmp_path, peer.kit))
        assert words[0] in WIRES
        started = peer.gateway or peer.wire
        assert any(NAME in word or TINY[-1] in word for word in (*started(site(tmp_path, peer.kit)), *words)) or any(
            TINY[-1] in path.read_text() for path in tmp_path.glob("*.json")
        )


def test_the_wider_schema_of_the_tiny_server_names_its_arguments() -> None:
    assert [list(tool["inputSchema"]["properties"]) for tool in tiny.TOOLS] == [["text"], ["bytes"]]  # type: ignore[index]


def row(*trials: dict[str, Any], server: str = "tiny", absent: str = "") -> Row:
    """Return a row with these trials."""
    return Row("gate", "gate==1.2", server, [*trials], absent)


def test_a_cell_is_the_median_with_its_spread_or_the_reason() -> None:
    rows = [
        row({"p50": 1.0, "servers": 10}, {"p50": 3.0, "servers": 10}, {"p50": 2.0, "servers": 9}),
        row({"p50": 1.0, "old": {"reason": "never | ever"}}, server="everything"),
        row({"ready": {"reason": "it ended"}}),
        row(absent="cannot be installed"),
    ]
    lines = tables(rows).splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    names = [measure.name for measure in MEASURES]
    p50, servers, old = (1 + names.index(name) for name in ("p50", "servers", "old"))
    assert (cells[2][0], cells[2][p50], cells[2][servers]) == ("gate 1.2", "2.00 (1.00…3.00)", "10 (9…10)")
    assert (cells[3][0], cells[3][p50], cells[3][old]) == ("gate 1.2 · everything", "1.00", "– [1]")
    assert set(cells[4][1:]) == {"– [2]"}
    assert set(cells[5][1:]) == {"– [3]"}
    assert [line.strip() for line in lines[-3:]] == ["[1] never / ever", "[2] it ended", "[3] cannot be installed"]


def test_a_failed_step_is_the_reason_for_all_that_it_would_have_found() -> None:
    found = row({"ready": 1.0, "crowd": {"reason": "nobody came"}})
    assert {measure.name for measure in MEASURES if found.reason(measure)} == {"per_client", "servers", "rate_crowd"}


def test_memory_that_is_hidden_is_a_reason_and_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(process: psutil.Process) -> object:
        raise psutil.AccessDenied(process.pid)

    monkeypatch.setattr(psutil.Process, "memory_full_info", hidden)
    me = census.Census((), (psutil.Process(),))
    with pytest.raises(BenchError, match="only root sees the memory of"):
        me.gateway  # noqa: B018
    with pytest.raises(BenchError, match="only root sees the memory of"):
        me.private  # noqa: B018
    found = row({"ready": 1.0, "servers": 1, "memory": {"reason": "hidden"}})
    assert {measure.name for measure in MEASURES if found.reason(measure)} == {"pss", "per_client"}


def test_a_container_engine_is_not_counted_but_what_it_has_for_a_container_is(tmp_path: Path) -> None:
    names = ("dockerd", "containerd", "containerd-shim-runc-v2", "server")
    for name in names:
        shutil.copy("/bin/sleep", tmp_path / name)
    with ExitStack() as stack:
        commands = {name: [str(tmp_path / name), "60"] for name in names}
        pids = {}
        for name, command in commands.items():
            process = stack.enter_context(subprocess.Popen(command))
            stack.callback(process.kill)
            pids[process.pid] = name
        found = census.take(commands["server"], frozenset())
        assert [pids.get(process.pid) for process in found.servers] == ["server"]
        others = {pids[process.pid] for process in found.others if process.pid in pids}
        assert others == {"containerd-shim-runc-v2"}


def test_rows_come_back_from_the_file() -> None:
    rows = [
        row({"p50": 1.0, "new": {"reason": "never"}}, {"p50": 2.0, "new": 3.0}),
        row({"ready": {"reason": "it ended"}}),
        row(absent="cannot be installed"),
    ]
    again = from_plain(json.loads(json.dumps([each.plain() for each in rows])))
    assert tables(again) == tables(rows)
    assert tables(again, headline=True) == tables(rows, headline=True)


def content(*rows: Row) -> dict[str, Any]:
    """Return what a run writes."""
    return {
        "date": "2026-11-30",
        "version": "0.1.0",
        "machine": {"processor": "2 × slow"},
        "seconds": 600,
        "amount": SHORT.plain(),
        "rounds": 2,
        "rows": [each.plain() for each in rows],
    }


def test_the_readme_gets_the_rows_of_the_tiny_server_between_its_markers() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    filled = readme.with_table(text, content(row({"p50": 1.25}), row({"p50": 7.5}, server="everything")))
    assert "2 × slow; medians of 2 rounds in turns, 10 minutes." in filled
    assert "1.25" in filled
    assert "everything |" not in filled
    before, _, rest = text.partition(readme.BEGIN)
    assert filled.startswith(before)
    assert filled.endswith(rest.partition(readme.END)[2])
    assert readme.with_table(filled, content(row({"p50": 2.5}))).count(readme.BEGIN) == 1


def test_a_readme_without_markers_is_an_error() -> None:
    with pytest.raises(ValueError, match="markers"):
        readme.with_table("nothing", content())


def test_a_peer_that_cannot_be_installed_is_shown_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(kit: Kit, place: Path) -> None:
        raise OSError(f"no {kit.name} in {place.name}")

    monkeypatch.setattr(Kit, "provide", broken)
    monkeypatch.setattr(space, "lacking", lambda: "")
    monkeypatch.setattr(field, "PEERS", (BY_NAME["fastmcp"],))
    assert field.main(["--quick", "--place", str(tmp_path)]) == 0
    assert "cannot be installed: no fastmcp-py in" in capsys.readouterr().out


def test_where_no_engine_can_run_the_row_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Kit, "provide", lambda kit, place: None)
    monkeypatch.setattr(field, "PEERS", (BY_NAME["smcp-container"],))
    monkeypatch.setattr(space, "lacking", lambda: "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert field.main(["--quick", "--place", str(tmp_path)]) == 0
    assert "[1] only root can start a container engine of its own" in capsys.readouterr().out
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert engine.lacking() == "dockerd is not installed"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (AssertionError("one\nno room"), "the container engine does not start: no room"),
        (AssertionError(), "the container engine does not start: "),
        (ModuleNotFoundError("no", name="pytest"), "what starts a container engine is not installed: pytest"),
    ],
)
def test_why_an_engine_does_not_start(error: Exception, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(programs: object) -> None:
        raise error

    monkeypatch.setattr(engine, "running", broken)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert engine.lacking() == said


def test_an_engine_that_ends_at_once_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, place = tmp_path / "dockerd", tmp_path / "engine"
    program.write_text("#!/bin/sh\necho no room >&2\nexit 1\n")
    program.chmod(0o755)
    place.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(place))
    assert engine.lacking() == "the container engine does not start: no room"
    assert not place.exists()


def test_another_way_into_a_row_is_shown_with_one_server_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, str]] = []
    monkeypatch.setattr(Kit, "provide", lambda kit, place: None)

    def run(peer: Peer, server: Server, place: Path, amount: Amount) -> trial.Found:
        tried.append((peer.name, server.name))
        return {}

    monkeypatch.setattr(field, "run", run)
    monkeypatch.setattr(space, "lacking", lambda: "")
    field.measure((BY_NAME["smcp"], BY_NAME["smcp-pump"]), tmp_path, SHORT, lambda text: None)
    assert tried == [("smcp", "tiny"), ("smcp-pump", "tiny"), ("smcp", "everything")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nobody"], "unknown peer: nobody"),
        (["--readme", "direct"], "--readme is about all peers"),
        (["--last", "--json", "/nowhere/field.json"], "there is no last run: /nowhere/field.json is missing"),
    ],
)
def test_what_cannot_be_meant_is_an_error(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        field.main(words)
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_two_rows_from_the_start_to_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    need(os.geteuid() == 0 or shutil.which("bwrap"), "a network of its own for a process")
    monkeypatch.setattr(field, "QUICK", SHORT)
    monkeypatch.setattr(field, "PEERS", (BY_NAME["direct"], BY_NAME["smcp"]))
    monkeypatch.setattr(field, "SERVERS", {"tiny": TINY_SERVER})
    monkeypatch.setattr(Kit, "provide", lambda kit, place: None)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert field.main(["--quick", "--place", str(tmp_path)]) == 0
    direct, smcp = json.loads((tmp_path / "field.json").read_text())["rows"]
    for found in (direct, smcp):
        figures = {name for name, cell in found["measures"].items() if "median" in cell}
        assert figures >= {"ready", "p50", "p95", "p99", "rate_1", "rate_crowd", "rate_many", "blob", "start", "new"}
    assert (direct["measures"]["servers"]["median"], smcp["measures"]["servers"]["median"]) == (3, 1)
    assert (direct["measures"]["left"]["median"], smcp["measures"]["left"]["median"]) == (0, 1)
    assert "its connection ended" in direct["measures"]["old"]["reason"]
    assert smcp["measures"]["old"]["median"] > 0
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before
    shown = capsys.readouterr().out
    assert field.main(["--last", "--place", str(tmp_path)]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.slow
def test_a_container_from_the_start_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(shutil.which("dockerd") and os.geteuid() == 0, "dockerd (Debian: docker.io), run by root")
    monkeypatch.setattr(field, "QUICK", SHORT)
    monkeypatch.setattr(field, "PEERS", (BY_NAME["smcp-container"],))
    monkeypatch.setattr(field, "SERVERS", {"tiny": TINY_SERVER})
    monkeypatch.setattr(Kit, "provide", lambda kit, place: None)
    before = {process.pid for process in psutil.Process().children(recursive=True)}
    assert field.main(["--quick", "--place", str(tmp_path)]) == 0
    [found] = json.loads((tmp_path / "field.json").read_text())["rows"]
    cells = found["measures"]
    assert {name: cell["reason"] for name, cell in cells.items() if "reason" in cell} == {}
    assert cells.keys() == {measure.name for measure in MEASURES}
    assert (cells["servers"]["median"], cells["left"]["median"]) == (1, 1)
    assert {process.pid for process in psutil.Process().children(recursive=True)} <= before


STUBBORN = """import json, pathlib, signal, sys, time
pathlib.Path(sys.argv[1]).write_text("there")
def stop(*_):
    pathlib.Path(sys.argv[1]).unlink()
    sys.exit(1)
signal.signal(signal.SIGTERM, stop)
print(json.dumps({"ready": 1.0}), flush=True)
time.sleep(60)"""


def test_a_trial_that_takes_too_long_ends_also_where_a_sandbox_holds_its_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    need(not space.lacking(), "a network of its own for a process, by bubblewrap")
    apart, what = space.apart, tmp_path / "what it has started"
    monkeypatch.setattr(field, "TRIAL", 1.0)
    monkeypatch.setattr(space, "apart", lambda command: apart([sys.executable, "-c", STUBBORN, str(what)]))
    assert field.run(BY_NAME["direct"], TINY_SERVER, tmp_path, SHORT)["ready"] == 1.0
    assert not what.exists()


def interrupt(seconds: float) -> None:
    """Interrupt the tests after a while, as a person does."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(seconds, signal.pthread_kill, [main, signal.SIGINT]).start()


def test_who_interrupts_gets_what_was_measured_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    what = tmp_path / "what it has started"
    done: list[str] = []
    apart = [sys.executable, "-c", STUBBORN, str(what)]

    def run(peer: Peer, server: Server, place: Path, amount: Amount) -> trial.Found:
        if done:
            interrupt(1.0)
            return real(peer, server, place, amount)
        done.append(peer.name)
        return {"p50": 1.25}

    real = field.run
    monkeypatch.setattr(field, "run", run)
    monkeypatch.setattr(space, "apart", lambda command: apart if "contrib.bench.field.trial" in command else ["true"])
    monkeypatch.setattr(Kit, "provide", lambda kit, place: None)
    monkeypatch.setattr(field, "PEERS", (BY_NAME["direct"], BY_NAME["smcp"], BY_NAME["srt"]))
    (tmp_path / "field.json").write_text("the last whole run")
    assert field.main(["--quick", "--readme", "--place", str(tmp_path)]) == 130
    told = capsys.readouterr()
    assert "1.25" in told.out
    assert "[1] it was ended before" in told.out
    assert "the README stays as it is" in told.err
    assert not what.exists()
    assert (tmp_path / "field.json").read_text() == "the last whole run"
    assert json.loads((tmp_path / "field.partial.json").read_text())["whole"] is False


def test_all_of_it_ends_within_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def run(peer: Peer, server: Server, place: Path, amount: Amount) -> trial.Found:
        nonlocal now
        now += 100.0
        return {"p50": 1.0}

    def provide(kit: Kit, place: Path) -> None:
        nonlocal now
        now += 100.0

    monkeypatch.setattr(time, "monotonic", lambda: now)
    monkeypatch.setattr(space, "lacking", lambda: "")
    monkeypatch.setattr(Kit, "provide", provide)
    monkeypatch.setattr(field, "run", run)
    monkeypatch.setattr(field, "SERVERS", {"tiny": TINY_SERVER})
    told: list[str] = []
    peers = (BY_NAME["direct"], BY_NAME["smcp"], BY_NAME["srt"])
    rows, whole = field.measure(peers, tmp_path, Amount(rounds=3, budget=750.0), told.append)
    assert ([len(row.trials) for row in rows], whole) == ([1, 1, 1], True)
    assert told[-1] == "only 1 of 3 rounds: another one would take too long"
    rows, whole = field.measure(peers, tmp_path, Amount(rounds=3, budget=350.0), told.append)
    assert ([len(row.trials) for row in rows], whole) == ([1, 1, 0], True)
    assert rows[-1].absent == "the time was over before"


def test_where_no_trial_is_possible_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert field.main(["--quick", "--place", str(tmp_path / "place"), "direct"]) == 1
    said = capsys.readouterr().err
    assert "no trial gets a network of its own on this machine: bwrap is not installed" in said
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    assert space.lacking() == "bwrap: setting up uid map: Permission denied"
    assert list((tmp_path / "place").iterdir()) == []


def test_a_file_that_cannot_be_written_is_told_before_and_costs_no_table_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert field.main(["--json", str(tmp_path / "file" / "field.json"), "direct"]) == 1
    assert "the benchmark ends here: " in capsys.readouterr().err

    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(field, "measure", lambda *_: ([row({"p50": 1.25})], True))
    monkeypatch.setattr(Path, "write_text", full)
    assert field.main(["--place", str(tmp_path), "direct"]) == 1
    told = capsys.readouterr()
    assert "1.25" in told.out
    assert "No space left on device" in told.err


NPM_OFFLINE = """npm error code EAI_AGAIN
npm error syscall getaddrinfo
npm error errno EAI_AGAIN
npm error request to https://registry.npmjs.org/mcp-proxy failed, reason: getaddrinfo EAI_AGAIN registry.npmjs.org
npm error A complete log of this run can be found in: /root/.npm/_logs/a-debug-0.log
"""
PIP_OFFLINE = """WARNING: Retrying (…) after connection broken by 'NameResolutionError("no such host")': /simple/mcpo/
ERROR: Could not find a version that satisfies the requirement mcpo==0.0.20 (from versions: none)
ERROR: No matching distribution found for mcpo==0.0.20
"""


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(2, "No such file or directory", "npm"), "npm is not installed"),
        (OSError(errno.ENOSPC, "No space left on device"), "[Errno 28] No space left on device"),
        (subprocess.TimeoutExpired(["npm"], 600.0, stderr=b"bytes"), "it took longer than 600 s"),
        (subprocess.CalledProcessError(1, "npm", "", NPM_OFFLINE), NPM_OFFLINE.splitlines()[3]),
        (
            subprocess.CalledProcessError(1, "pip", "", PIP_OFFLINE),
            'no connection: NameResolutionError("no such host")',
        ),
        (subprocess.CalledProcessError(1, "pip", "", "ERROR: one\nERROR: two\n"), "ERROR: two"),
        (subprocess.CalledProcessError(1, "venv", "ensurepip is not available\n", ""), "ensurepip is not available"),
    ],
)
def test_why_a_peer_cannot_be_installed(error: Exception, said: str) -> None:
    assert installing.reason(error) == said


def test_who_interrupts_an_installation_leaves_no_installer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[int] = []

    def provide(kit: Kit, place: Path) -> None:
        ended.append(subprocess.run(["sleep", "60"], check=False).returncode)

    monkeypatch.setattr(Kit, "provide", provide)
    kits = [Kit(f"kit-{number}", "python", (f"it=={number}",), "it") for number in range(9)]
    before = census.living()
    interrupt(0.5)
    with pytest.raises(KeyboardInterrupt):
        installing.install(kits, tmp_path, lambda text: None)
    assert ended == [-signal.SIGTERM] * 4, "four at the same time, and none after them"
    assert census.living() <= before


def test_a_gateway_that_ends_is_told_with_its_last_words(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "import sys; sys.exit('no, thanks')"]
    peer = Peer("ended", "ended", wire=lambda site: ["pipes", *TINY], gateway=lambda site: words)
    # The engine of other tests is a child of this process, too.
    with subprocess.Popen(["sleep", "60"]) as stranger:
        found = trial.Trial(peer, TINY_SERVER, site(tmp_path), SHORT).run()
        alive = stranger.poll() is None
        stranger.kill()
    assert found == {"ready": {"reason": "the gateway does not listen (no, thanks)"}}
    assert alive


def test_many_clients_are_not_tried_where_few_take_long(tmp_path: Path) -> None:
    one = trial.Trial(BY_NAME["direct"], TINY_SERVER, site(tmp_path), Amount(many=50, patience=30.0))
    one._each_took = 2.0
    one._each("rate_many", one._many)
    assert one.found == {"rate_many": {"reason": "not tried: 50 clients would take 100 s to connect"}}


LATE = """import json, sys, time
print(json.dumps({"ready": 1.0, "calls": {"reason": "silence"}}), flush=True)
time.sleep(60)"""


def test_a_trial_that_takes_too_long_keeps_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "TRIAL", 1.0)
    monkeypatch.setattr(space, "apart", lambda command: [sys.executable, "-c", LATE])
    found = field.run(BY_NAME["direct"], TINY_SERVER, tmp_path, SHORT)
    assert found["ready"] == 1.0
    assert "p50" not in found  # why is known better
    assert found["left"] == {"reason": "the trial took longer than 1 s"}


def test_who_answers_no_call_is_not_asked_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "apart", lambda command: [sys.executable, "-c", LATE.replace("time.sleep(60)", "")])
    found = field.run(BY_NAME["direct"], TINY_SERVER, tmp_path, SHORT)
    assert (found["ready"], found["rate_crowd"]) == (1.0, {"reason": "silence"})
    one = trial.Trial(BY_NAME["direct"], TINY_SERVER, site(tmp_path), SHORT)
    monkeypatch.setattr(one, "_calls", lambda: (_ for _ in ()).throw(BenchError("silence")))
    assert one.run().keys() == {"ready", "calls"}


def test_a_trial_that_breaks_says_its_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space, "apart", lambda command: [sys.executable, "-c", "raise ValueError('a fault')"])
    found = field.run(BY_NAME["direct"], TINY_SERVER, tmp_path, SHORT)
    assert found == {"ready": {"reason": "ValueError: a fault"}}


def test_what_fails_in_a_trial_is_a_reason_and_no_end(tmp_path: Path) -> None:
    one = trial.Trial(BY_NAME["direct"], TINY_SERVER, site(tmp_path), SHORT)

    def broken() -> None:
        raise BenchError("not today")

    one._each("blob", broken)
    assert one.found == {"blob": {"reason": "not today"}}
