"""What runs in a trial besides its clients: processes of the server, and everything else, which is the gateway."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from contrib.bench.place import BenchError

_MIB = 1 << 20
#: A container engine serves a whole machine; only what it has for each container counts, like what holds a sandbox.
_ENGINE = {"dockerd", "containerd"}


@dataclass(frozen=True, slots=True)
class Census:
    """The processes at one moment."""

    servers: tuple[psutil.Process, ...]
    others: tuple[psutil.Process, ...]

    @property
    def private(self) -> float:
        """What all of them have for themselves, in MiB; `BenchError` where that is hidden."""
        return sum(_memory(process)[1] for process in (*self.servers, *self.others)) / _MIB

    @property
    def gateway(self) -> float:
        """What the gateway has, with its part of what it shares (PSS), in MiB; `BenchError` where that is hidden."""
        return sum(_memory(process)[0] for process in self.others) / _MIB

    def begin(self) -> float:
        """Forget the peaks of the gateway so far; return what it holds (RSS), in MiB. Raise `BenchError`."""
        for process in self.others:
            try:
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
            except PermissionError:
                raise _hidden(process) from None
            except OSError:
                continue  # it has ended
        return self._sum("VmRSS:")

    def peak(self) -> float:
        """Return the most that each process of the gateway held since, all together, in MiB."""
        return self._sum("VmHWM:")

    def _sum(self, name: str) -> float:
        return sum(_field(process.pid, name) for process in self.others) / 1024


def take(command: Sequence[str], ours: frozenset[int]) -> Census:
    """Count all descendants of this process but these of ours and a container engine.

    A server is who runs exactly its command, in a container too.
    """
    servers: list[psutil.Process] = []
    others: list[psutil.Process] = []
    for process in _living():
        if process.pid in ours:
            continue
        with suppress(psutil.Error):
            if process.name() in _ENGINE:
                continue
            (servers if process.cmdline() == list(command) else others).append(process)
    return Census(tuple(servers), tuple(others))


def living() -> frozenset[int]:
    """Return the pids of all descendants of this process."""
    return frozenset(process.pid for process in _living())


def _living() -> Iterator[psutil.Process]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _memory(process: psutil.Process) -> tuple[int, int]:
    """Return the PSS and the private memory of a process in bytes, nothing if it has ended. Raise `BenchError`."""
    try:
        memory = process.memory_full_info()
    except psutil.NoSuchProcess:
        return 0, 0
    except psutil.AccessDenied:
        raise _hidden(process) from None
    return memory.pss, memory.uss


def _hidden(process: psutil.Process) -> BenchError:
    # A process that has secrets to keep shows its memory to nobody but root.
    return BenchError(f"only root sees the memory of {process.name()}")


def _field(pid: int, name: str) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1])
    return 0
