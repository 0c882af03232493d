"""What masking costs: the stderr of a server into its log, and its messages; secrets are known to one side only."""

from __future__ import annotations

import os
import random
import secrets
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import Host
from contrib.bench.place import BARE, WATCHED, Place
from contrib.bench.plan import Plan
from supervisord_mcp.credentials.masking import MaskedStream, masker
from supervisord_mcp.logs import ServerLog, StderrSink

RATIO = Bar(1.02)
SHARE = Bar(2.0)
#: How many secrets a daemon knows here.
KNOWN = 8

_MIB = 1 << 20
_CHUNK = 1 << 16
_RATE = 100_000_000
_WORDS = """2026-11-30T12:00:00.123Z INFO request finished in 12 ms GET /api/v1/items?page=3 200 OK token refreshed
ERROR connection to db.example:5432 lost, retry 1 of 5 Traceback (most recent call last): File server.py line 42"""


def stderr_with_secrets(_place: Place, plan: Plan) -> Iterator[Figure]:
    """The same megabytes by turns: while nothing is known, and while some secrets are, none of which is there."""
    chunks = _chunks(4 * _MIB)
    without: list[float] = []
    known: list[float] = []
    read: list[float] = []
    masked: list[float] = []
    with tempfile.TemporaryDirectory(prefix="smcp-bench-") as folder:
        log = ServerLog(Path(folder) / "log", max_size=2 * _MIB, keep=2)
        for number in range(3 * plan.rounds + 1):
            for taught, whole, alone in ((False, without, read), (True, known, masked)):
                _teach(taught)
                took = _processor_time(chunks, StderrSink(log).feed), _processor_time(chunks, MaskedStream(masker).feed)
                if number:  # the first round warms up
                    whole.append(took[0])
                    alone.append(took[1])
        log.close()
    masker.clear()
    size = sum(map(len, chunks))
    before, after = (Sample.of(size / took / 1e6 for took in times) for times in (without, known))
    ratio = Sample.of(known).over(Sample.of(without))
    yield Figure("stderr into a log, time with secrets over without", "×", ratio, RATIO)
    yield Figure("… how much passes, without and with", "MB/s", after, None, before, after)
    share = Sample.of(masked).less(Sample.of(read)).times(100 * _RATE / size)
    yield Figure("… of a processor for masking, at 100 MB/s", "%", share, SHARE)


def messages_with_secrets(place: Place, plan: Plan) -> Iterator[Figure]:
    """Calls by turns to a daemon that knows no secrets, to one that knows some, and to a server that is watched."""
    taken: list[list[float]] = [[], [], []]
    with Place(secrets=KNOWN) as other, ExitStack() as stack:
        commands = ((place, BARE), (other, BARE), (other, WATCHED))
        hosts = [stack.enter_context(Host(where.shim(name), where.environ)) for where, name in commands]
        for host in hosts:
            host.do("open")
            host.do("calls", count=plan.calls)
        pairs = list(zip(hosts, taken, strict=True))
        for number in range(plan.rounds):
            for host, values in (*pairs[number % 3 :], *pairs[: number % 3]):  # nobody is always the first
                values.append(statistics.median(host.do("calls", count=plan.calls)["nanoseconds"]) / 1e6)
    before, known, watched = map(Sample.of, taken)
    yield Figure("a call, with secrets over without", "×", known.over(before), RATIO, before, known, "ms")
    yield Figure("… with warn_on_echo", "×", watched.over(before), None, before, watched, "ms")


def _chunks(size: int) -> list[bytes]:
    chooser = random.Random(1)
    words, text = _WORDS.split(), bytearray()
    while len(text) < size:
        text += " ".join(chooser.choices(words, k=14)).encode() + b"\n"
    return [bytes(text[at : at + _CHUNK]) for at in range(0, size, _CHUNK)]


def _teach(taught: bool) -> None:
    masker.clear()
    for number in range(KNOWN if taught else 0):
        masker.learn(f"ghp_{secrets.token_hex(18)}", f"vault:{number}")
    masker.names(b"made ready")


def _processor_time(chunks: list[bytes], take: Callable[[bytes], object]) -> float:
    """Return how long it takes to bring chunks through a pipe to who takes them, in seconds of a processor."""
    reading, writing = os.pipe()
    try:
        began = time.process_time()
        for chunk in chunks:
            os.write(writing, chunk)
            take(os.read(reading, _CHUNK))
        return time.process_time() - began
    finally:
        os.close(reading)
        os.close(writing)
