"""The markers that processes carry in their environment, asked for once and never waited for longer than a moment.

The kernel reads an environment from the memory of its process, and waits while that is locked: a process that changes
its memory all the time, or that runs out of it, holds up whoever reads, and no signal ends that wait. So a thread
reads, and what has not been read in time is not known yet.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from supervisord_mcp.runtimes import proctable
from supervisord_mcp.runtimes.proctable import Entry

#: How long one look waits for all that it asks for, in seconds: a thousand environments take a tenth of it.
PATIENCE = 0.2

# A process has its marker from its start, from its parent, so what was read once stays true: who has none later has
# cleared its environment. By the pid with the start time.
_known: dict[tuple[int, int], tuple[str, ...]] = {}
#: Whose environment a thread waits for still.
_stuck: dict[tuple[int, int], threading.Thread] = {}


def markers(entries: Sequence[Entry]) -> dict[int, tuple[str, ...] | None]:
    """Return by its pid the markers of each process; without those that are not ours to read.

    It is None where they are not known yet: the environment is empty, as it is for a moment during an execve, or was
    not read in time. A look waits for such a process only once; the next ones learn it from the thread that reads.
    """
    for identity in [identity for identity, thread in _stuck.items() if not thread.is_alive()]:
        del _stuck[identity]
    told: dict[int, tuple[str, ...] | None] = {entry.pid: None for entry in entries if entry.identity in _stuck}
    asked = [entry for entry in entries if entry.identity not in _known and entry.identity not in _stuck]
    if asked:
        told |= _ask(asked)
    return told | {entry.pid: _known[entry.identity] for entry in entries if entry.identity in _known}


def forget(present: Sequence[Entry]) -> None:
    """Forget the processes that are not present any more, once they are many."""
    if len(_known) > 2 * len(present):
        left = {entry.identity for entry in present}
        for identity in [identity for identity in _known if identity not in left]:
            del _known[identity]


def _ask(entries: Sequence[Entry]) -> dict[int, tuple[str, ...] | None]:
    """Have a thread read; return None for each that is not known in the end, but for those that are not ours."""
    waiting, foreign = deque(entries), set[int]()
    thread = threading.Thread(target=_read, args=(waiting, foreign), name="markers", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if left := list(waiting):
        # It goes on with the first only. The others wait for no one but themselves.
        waiting.clear()
        _stuck[left[0].identity] = thread
    return {entry.pid: None for entry in entries if entry.pid not in foreign}


def _read(waiting: deque[Entry], foreign: set[int]) -> None:
    while waiting:
        entry = waiting[0]
        text = proctable.environment(entry.pid)
        if text is None:
            foreign.add(entry.pid)
        # A number may have changed hands before it was read.
        elif text and (now := proctable.read_entry(entry.pid)) is not None and now.identity == entry.identity:
            _known[entry.identity] = proctable.markers_in(text)
        if waiting:
            waiting.popleft()
