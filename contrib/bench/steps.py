"""What a profile of the daemon says: how many functions each step of a call calls, and how long they take."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

#: A function as a profile names it: its file (``~`` for one in C), its line, its name.
Function = tuple[str, int, str]
#: Calls without and with recursion, seconds for itself and with what it calls, and the same for each caller.
Callers = Mapping[Function, tuple[int, int, float, float]]
Stats = Mapping[Function, tuple[int, int, float, float, Callers]]

WAIT, MOVE, LOOP, PARSE, ROUTE = "wait for events", "read and write", "event loop", "parse", "route"
QUEUE, NOTE, COUNT, OTHER = "queue and write", "note what is pending", "measure", "other"
#: All steps, in the order in which a message meets them.
STEPS = (WAIT, MOVE, LOOP, PARSE, ROUTE, NOTE, COUNT, QUEUE, OTHER)

#: Parts of names of functions in C that are a step of their own, whoever calls them.
_BUILTINS = {
    "select.epoll": WAIT,
    "posix.read": MOVE,
    "posix.write": MOVE,
    "msgspec.json.Decoder": PARSE,
    "msgspec.json.Encoder": QUEUE,
}
#: What methods of an object of ``select.epoll`` are as system calls.
_EPOLL = {"'poll'": "epoll_wait", **dict.fromkeys(("'register'", "'unregister'", "'modify'"), "epoll_ctl")}
#: Parts of paths; the first one that fits counts.
_PLACES = {
    "/asyncio/": LOOP,
    "/selectors.py": LOOP,
    "/supervisord_mcp/eventloop.py": LOOP,
    "/protocol/framing.py": PARSE,
    "/protocol/jsonrpc.py": PARSE,
    "/protocol/": ROUTE,
    "/policy/": ROUTE,
    "/supervisord_mcp/server.py": ROUTE,
    "/supervisord_mcp/session.py": ROUTE,
    "/supervisord_mcp/supervisor.py": ROUTE,
    "/supervisord_mcp/journal.py": NOTE,
    "/supervisord_mcp/reception.py": NOTE,
    "/supervisord_mcp/traffic.py": COUNT,
    "/supervisord_mcp/metrics/": COUNT,
    "/supervisord_mcp/observer.py": COUNT,
    "/supervisord_mcp/pipes.py": QUEUE,
    "/supervisord_mcp/conduit.py": QUEUE,
    "/supervisord_mcp/congestion.py": QUEUE,
}


@dataclass(frozen=True, slots=True)
class Profile:
    """What one call costs by steps: functions called, and microseconds (the profiler makes them longer)."""

    calls: Mapping[str, float]
    times: Mapping[str, float]
    system: Mapping[str, float] = field(default_factory=dict)

    @property
    def functions(self) -> float:
        """How many functions are called for one call."""
        return sum(self.calls.values())


def profile_of(stats: Stats, count: int) -> Profile:
    """Given what was counted over so many calls, return what one of them costs."""
    calls: defaultdict[str, float] = defaultdict(float)
    times: defaultdict[str, float] = defaultdict(float)
    system: Counter[str] = Counter()
    for function, (_, number, seconds, _, callers) in stats.items():
        if step := _own_step(function):
            calls[step] += number / count
            times[step] += seconds / count * 1e6
            if step in (WAIT, MOVE):
                system[_name(function)] += number
            continue
        # What a function in C does is the work of who calls it.
        for caller, (_, often, spent, _) in callers.items():
            step = _own_step(caller) or OTHER
            calls[step] += often / count
            times[step] += spent / count * 1e6
    ordered = {step: calls[step] for step in STEPS}
    return Profile(ordered, {step: times[step] for step in STEPS}, {name: n / count for name, n in system.items()})


def hottest(stats: Stats, count: int) -> Iterator[tuple[str, float, float]]:
    """Yield the functions that take longest for themselves: name, and calls and microseconds of one call."""
    own = [(seconds, number, function) for function, (_, number, seconds, _, _) in stats.items() if function[1]]
    for seconds, number, (path, _, name) in sorted(own, reverse=True):
        where = path.rpartition("supervisord_mcp/")[2] if "supervisord_mcp/" in path else path.rpartition("/")[2]
        yield f"{where} {name}", number / count, seconds / count * 1e6


def _own_step(function: Function) -> str:
    """Return the step that a function is part of; empty for one in C that is nobody's in particular."""
    path, _, name = function
    if path == "~":
        return next((step for part, step in _BUILTINS.items() if part in name), "")
    return next((step for part, step in _PLACES.items() if part in path), OTHER)


def _name(function: Function) -> str:
    """Return what a system call is called."""
    words = function[2].strip("<>").split()
    return _EPOLL.get(words[1], words[-1].rpartition(".")[2])
