"""One peer in front of one server, from its start to its end: ``python -m contrib.bench.field.trial PEER SERVER …``.

Run in a network of its own (see `space`); everything that descends from it belongs to the trial.
Prints one JSON object after each step, the last one has all: for every measure a number, or ``{"reason": "…"}`` where
there is none to be had.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil

from contrib.bench.calls import percentile
from contrib.bench.field import caller, census, engine, space
from contrib.bench.field.amount import Amount
from contrib.bench.field.peers import BY_NAME, SERVERS, Command, Peer, Server, Site
from contrib.bench.hosts import Host
from contrib.bench.place import BenchError

Found = dict[str, float | dict[str, str]]
#: Seconds that a large result may take.
_LARGE = 30.0
#: Seconds that a gateway may take to end when it is asked to.
_END = 3.0
#: Seconds for calls one after the other, and those from an order to the moment at which all begin.
_CALLS, _LEAD = 15.0, 0.1


class Client(Host):
    """A client of a peer, told what to do within which time."""

    program = (os.path.realpath(sys.executable), "-I", "-S", str(Path(caller.__file__).resolve()))
    patience = 10.0

    def ask(self, within: float, do: str, **arguments: Any) -> dict[str, Any]:
        """Tell it what to do, within so many seconds; return what came of it."""
        self.order(do, within=within, **arguments)
        return self.report(within)

    def good(self, within: float, do: str, **arguments: Any) -> dict[str, Any]:
        """Do the same. Raise `BenchError` if nothing came of it."""
        done = self.ask(within, do, **arguments)
        if "failed" in done:
            raise BenchError(str(done["failed"]))
        return done


class Trial:
    """The gateway, the clients that are connected, and what was found out so far."""

    def __init__(self, peer: Peer, server: Server, site: Site, amount: Amount) -> None:
        #: Seconds that each client of a crowd took to be connected, all of them at once.
        self._each_took = 0.0
        #: Told what was found so far, after each step.
        self.tell: Callable[[Found], None] = lambda found: None
        self.peer, self.server, self.site, self.amount = peer, server, site, amount
        self.found: Found = {}
        self._clients: list[Client] = []
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        home = str(site.home)
        self._environ = kept | {"HOME": home, "SMCP_HOME": f"{home}/smcp", "TMPDIR": home, "NODE_NO_WARNINGS": "1"}
        self._gateway: subprocess.Popen[bytes] | None = None
        #: Private memory of everything while one client is connected, in MiB; None where it is hidden.
        self._alone: float | None = None
        self._log = site.home / "gateway.log"
        # Whoever runs the trial may have children of its own: they are nobody's gateway, and live on after it.
        self._strangers = census.living()

    def run(self) -> Found:
        """Measure everything that there is, in an order in which nothing spoils what comes after it."""
        with ExitStack() as stack:
            stack.callback(self._end)
            if not self._ready():
                return self.found
            self._each("calls", self._calls)
            if "calls" in self.found:
                return self.found  # of who answers no call in time there is nothing else to be had, slowly
            self._each("memory", self._memory)
            self._each("rate_1", lambda: self._flood("rate_1"))
            self._each("crowd", self._crowd)
            if self.server.large:
                self._each("left", self._vanish)
                self._each("rate_many", self._many)
                self._each("start", self._start)
                self._each("crash", self._crash)
                # Not everybody works again after a crash, and a result that is too large for some is one, too.
                self._end()
                self._each("blob", self._blob)
        return self.found

    def _each(self, name: str, measure: Callable[[], None]) -> None:
        """Measure one thing; where that is not possible, the reason stands in its place."""
        try:
            measure()
        except BenchError as error:
            self.none(str(error), name)
        self.tell(self.found)

    def none(self, reason: str, *names: str) -> None:
        """Say why there is no figure."""
        for name in names:
            self.found[name] = {"reason": reason}

    def _ready(self) -> bool:
        try:
            if self.peer.prepare is not None:
                self._command(self.peer.prepare(self.site))
            self.found["ready"] = self._begin()
        except BenchError as error:
            self.none(str(error), "ready")
        return isinstance(self.found["ready"], float)

    def _begin(self) -> float:
        """Start the gateway; return after how many milliseconds a first client had its first call answered."""
        client = self._new()
        since = time.monotonic()
        if self.peer.gateway is not None:
            with self._log.open("wb") as log:
                self._gateway = subprocess.Popen(
                    self.peer.gateway(self.site),
                    cwd=self.site.home,
                    env=self._environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            if self.peer.wire(self.site)[0] in ("pipes", "terminal"):
                self._socket(since)
        done = client.ask(self.amount.patience + 1, "open", since=since, patience=self.amount.patience)
        if "failed" in done:
            raise BenchError(self._why(done["failed"]))
        return float(done["seconds"]) * 1e3

    def _socket(self, since: float) -> None:
        """Wait until the daemon listens: its clients would start another one."""
        while not (self.site.home / "smcp" / "run" / "daemon.sock").exists():
            assert self._gateway is not None
            if self._gateway.poll() is not None or time.monotonic() > since + self.amount.patience:
                raise BenchError(self._why("the gateway does not listen"))
            time.sleep(0.002)

    def _why(self, said: str) -> str:
        """Return what a client was told, with the last line that the peer itself wrote."""
        lines = [line.strip() for line in _read(self._log).splitlines() if line.strip()]
        return f"{said} ({lines[-1][:200]})" if lines else said

    def _calls(self) -> None:
        [client] = self._clients
        client.good(_CALLS, "calls", count=self.amount.warm, limit=_CALLS / 3)
        done = client.good(_CALLS, "calls", count=self.amount.calls, limit=_CALLS / 3)
        taken = sorted(done["nanoseconds"])
        for percent in (50, 95, 99):
            self.found[f"p{percent}"] = percentile(taken, percent) / 1e6

    def _memory(self) -> None:
        now = self._census()
        if now.others:
            self.found["pss"] = now.gateway
        else:
            self.none("there is no gateway", "pss")
        self._alone = now.private

    def _flood(self, name: str) -> None:
        start, seconds = time.monotonic() + _LEAD, self.amount.seconds
        for client in self._clients:
            client.order("flood", within=_LEAD + seconds + _CALLS, start=start, seconds=seconds)
        reports = [client.report(_LEAD + seconds + _CALLS) for client in self._clients]
        if failures := [done["failed"] for done in reports if "failed" in done]:
            raise BenchError(f"{len(failures)} of {len(reports)} clients could not go on: {failures[0]}")
        self.found[name] = sum(done["calls"] for done in reports) / seconds

    def _crowd(self) -> None:
        count = len(self._clients)
        began = time.monotonic()
        self._connect(self.amount.crowd - count)
        self._each_took = (time.monotonic() - began) / (self.amount.crowd - count)
        for client in self._clients:
            client.good(_CALLS, "calls", count=10, limit=_CALLS / 3)
        now = self._census()
        self.found["servers"] = len(now.servers)
        if self._alone is not None:  # else the reason is that of the step before
            self.found["per_client"] = (now.private - self._alone) / (self.amount.crowd - count)
        self._flood("rate_crowd")

    def _blob(self) -> None:
        self._begin()
        gateway = self._census()
        held = None
        try:
            held = gateway.begin()
        except BenchError as error:
            self.none(str(error), "blob_memory")
        done = self._clients[0].good(_LARGE, "blob", size=self.amount.blob)
        self.found["blob"] = done["seconds"] * 1e3
        if not gateway.others:
            self.none("there is no gateway", "blob_memory")
        elif held is not None:
            self.found["blob_memory"] = max(gateway.peak() - held, 0.0)

    def _vanish(self) -> None:
        self._hang_up()
        time.sleep(self.amount.left)
        now = self._census()
        self.found["left"] = len(now.servers)

    def _start(self) -> None:
        """A client comes while the gateway runs and its server does not."""
        patience = self.amount.patience
        samples, known = [], _pids(self._census())
        for wire in self.peer.fresh or (self.peer.wire,) * 3:
            client = self._new(wire)
            done = client.good(patience + 1, "open", since=time.monotonic(), patience=patience)
            samples.append(done["seconds"] * 1e3)
            now = _pids(self._census())
            if now <= known:
                raise BenchError("no server is started for a client")
            known = now
        self.found["start"] = statistics.median(samples)

    def _crash(self) -> None:
        self._hang_up()
        self._connect(1)
        [old], new = list(self._clients), self._new()
        servers = self._census().servers
        if not servers:
            raise BenchError("no server runs while a client is connected")
        since = time.monotonic()
        for server in servers:
            with suppress(ProcessLookupError):
                os.kill(server.pid, signal.SIGKILL)
        limit = self.amount.recovery
        old.order("again", within=limit + 1, since=since, limit=limit)
        new.order("open", within=limit + 1, since=since, patience=limit)
        for name, client in (("old", old), ("new", new)):
            done = client.report(limit + 1)
            if "failed" in done:
                self.none(f"not within {limit:.0f} s: {done['failed']}", name)
            else:
                self.found[name] = done["seconds"] * 1e3

    def _many(self) -> None:
        if (expected := self._each_took * self.amount.many) > self.amount.patience:
            raise BenchError(f"not tried: {self.amount.many} clients would take {expected:.0f} s to connect")
        self._connect(self.amount.many)
        try:
            self._flood("rate_many")
        finally:
            self._hang_up()

    def _hang_up(self) -> None:
        """Let all clients vanish: they are killed, and say good-bye to nobody."""
        for client in self._clients:
            client.kill()
        self._clients.clear()

    def _connect(self, count: int) -> None:
        limit = self.amount.patience
        clients = [self._new() for _ in range(count)]
        since = time.monotonic()
        for client in clients:
            client.order("open", within=limit + 1, since=since, patience=limit)
        failures = [done["failed"] for client in clients if "failed" in (done := client.report(limit))]
        if failures:
            self._hang_up()
            raise BenchError(f"{len(failures)} of {count} clients could not connect: {failures[0]}")

    def _new(self, wire: Command | None = None) -> Client:
        client = Client((wire or self.peer.wire)(self.site), self._environ)
        self._clients.append(client)
        tool = self.peer.tool.format
        client.good(1.0, "speak", tool=tool(self.server.tool), argument=self.server.argument, blob=tool("blob"))
        return client

    def _census(self) -> census.Census:
        return census.take(self.site.server, self._strangers | {client.pid for client in self._clients})

    def _command(self, command: list[str]) -> None:
        done = subprocess.run(
            command, env=self._environ, cwd=self.site.home, capture_output=True, text=True, timeout=30, check=False
        )
        if done.returncode:
            raise BenchError(f"{command[-1]}: {(done.stderr or done.stdout).strip()[-200:]}")

    def _end(self) -> None:
        """Take away the clients, the gateway, and whatever is left of them."""
        self._hang_up()
        if self._gateway is not None:
            self._gateway.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._gateway.wait(_END)
        now = self._census()
        for process in now.servers + now.others:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(now.servers + now.others, timeout=_END)
        if self._gateway is not None:
            self._gateway.wait()
            self._gateway = None


def _pids(found: census.Census) -> set[int]:
    return {process.pid for process in found.servers}


def _read(path: Path) -> str:
    with suppress(OSError):
        return path.read_text(errors="replace")
    return ""


def main(words: Sequence[str]) -> None:
    """Run the trial and print what was found. Whoever ends it early ends what it has started, too."""
    signal.signal(signal.SIGTERM, _stop)
    space.settle()
    peer, server = BY_NAME[words[0]], SERVERS[words[1]]
    place, amount = Path(words[2]), Amount(**json.loads(words[3]))
    command = server.command(place)
    with ExitStack() as stack:
        home = Path(tempfile.mkdtemp(prefix="smcp-field-"))
        stack.callback(shutil.rmtree, home, ignore_errors=True)
        url = stack.enter_context(engine.running(command[:1])) if peer.contained else ""
        one = Trial(peer, server, Site(home, place, peer.kit, command, url), amount)
        one.tell = _print
        _print(one.run())


def _stop(*_: object) -> None:
    # Once is enough: what is taken away after it is taken away to the end.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def _print(found: Found) -> None:
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
