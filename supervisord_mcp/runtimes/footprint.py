"""How much memory a child uses with all its processes."""

from __future__ import annotations

from supervisord_mcp.runtimes.kernelfile import content
from supervisord_mcp.runtimes.proctable import entries


def memory(leader: int) -> int:
    """Return the bytes of a process and all that descend from it: the share of each in what it has mapped (PSS).

    What cannot be read, or is gone meanwhile, counts as nothing.
    """
    children: dict[int, list[int]] = {}
    for entry in entries():
        children.setdefault(entry.ppid, []).append(entry.pid)
    total, waiting = 0, [leader]
    while waiting:
        pid = waiting.pop()
        total += _share(pid)
        waiting += children.get(pid, ())
    return total


def _share(pid: int) -> int:
    try:
        lines = content(f"/proc/{pid}/smaps_rollup").splitlines()
    except OSError:
        return 0
    found = next((line for line in lines if line.startswith(b"Pss:")), None)
    return 0 if found is None else int(found.split()[1]) * 1024
