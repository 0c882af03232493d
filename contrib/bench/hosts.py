"""Hosts as the benchmark sees them: each is a process of `client`, told over pipes what to do."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from contrib.bench import client
from contrib.bench.place import BenchError

_CLIENT = [os.path.realpath(sys.executable), "-I", "-S", str(Path(client.__file__).resolve())]
_PATIENCE = 60.0
#: Seconds between the order and the moment at which all hosts begin.
_LEAD = 0.1


class Host:
    """One host and the command that it started."""

    #: What it is a process of, and how many seconds it may take for one order above what the order itself says.
    program: ClassVar[Sequence[str]] = _CLIENT
    patience: ClassVar[float] = _PATIENCE

    def __init__(self, command: Sequence[str], environ: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [*self.program, *command],
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            # Ctrl-C is for who measures, who then ends it in order.
            process_group=0,
        )
        self._name = command[-1]
        #: The process of the command, once the host is connected.
        self.command_pid = 0

    @property
    def pid(self) -> int:
        """The process of the host itself."""
        return self._process.pid

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def order(self, do: str, **arguments: Any) -> None:
        """Tell it what to do."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        except BrokenPipeError:
            raise BenchError(f"the host of {self._name} is gone") from None

    def report(self, seconds: float = 0.0) -> dict[str, Any]:
        """Return what came of the last order, which takes so many seconds. Raise `BenchError` if nothing comes."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds + self.patience
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._process.stdout.fileno(), 1 << 16) if ready else b""
            if not piece:
                raise BenchError(f"the host of {self._name} {'hung up' if ready else 'is silent'}")
            line += piece
        done: dict[str, Any] = json.loads(line)
        return done

    def connected(self) -> None:
        """Take the report on the order to connect."""
        self.command_pid = self.report()["pid"]

    def do(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Tell it what to do, and return what came of it."""
        self.order(do, **arguments)
        return self.report()

    def close(self) -> None:
        """End it: its stdin ends, and with it the process, whose pipes the command has as its own."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


@contextmanager
def crowd(command: Sequence[str], environ: Mapping[str, str], count: int) -> Iterator[list[Host]]:
    """So many hosts of one command, connected."""
    hosts: list[Host] = []
    try:
        # Appended one by one: those that are there already are ended if the next one cannot be.
        hosts.extend(Host(command, environ) for _ in range(count))
        for host in hosts:
            host.order("open")
        for host in hosts:
            host.connected()
        yield hosts
    finally:
        for host in hosts:
            host.close()


def flood(hosts: Sequence[Host], seconds: float) -> float:
    """Let all hosts call at the same time for so long; return the calls per second of all of them."""
    start = time.monotonic() + _LEAD
    for host in hosts:
        host.order("flood", start=start, seconds=seconds)
    calls = sum(int(host.report(_LEAD + seconds)["calls"]) for host in hosts)
    return calls / seconds
