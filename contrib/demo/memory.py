"""What process trees cost: how many processes, and how much memory is theirs alone or theirs in fair shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Cost:
    """The price of some processes in bytes: ``pss`` has a fair share of what is shared, ``private`` nothing of it."""

    processes: int = 0
    pss: int = 0
    private: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.processes + other.processes, self.pss + other.pss, self.private + other.private)

    def times(self, count: int) -> Cost:
        """Return what several of the same would cost: what is private each time, what they share once."""
        shared = self.pss - self.private
        return Cost(count * self.processes, count * self.private + shared, count * self.private)


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and everything below it, parents first; empty if it is gone."""
    try:
        leader = psutil.Process(pid)
        return [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cost(processes: Iterable[psutil.Process]) -> Cost:
    """Return what the processes cost right now; one that has just ended costs nothing."""
    total = Cost()
    for process in processes:
        try:
            memory = process.memory_full_info()
        except psutil.NoSuchProcess:
            continue
        except psutil.AccessDenied:
            # Some sandbox processes hide their pages; what they have resident is the most they can cost.
            resident = process.memory_info().rss
            total += Cost(1, resident, resident)
        else:
            total += Cost(1, memory.pss, memory.uss)
    return total
