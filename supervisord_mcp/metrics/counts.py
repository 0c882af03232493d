"""How often hosts called what, how long it took and how it ended: counted from the calls that observers are told of.

There is one cell for each server, host, method and tool; sums are made when somebody asks. Hosts and tools of a server
are bounded, for a host may call itself and its tools anything: what comes when the places are taken counts as `OTHER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.metrics import latency
from supervisord_mcp.observer import Bundle, Event
from supervisord_mcp.protocol import jsonrpc

#: What is counted of each server at most, each with a cell for those that it met.
MOST_HOSTS = 16
MOST_TOOLS = 64
OTHER = "(other)"
_LONGEST = 128
#: What of a tally, and of a cell, only grows.
_SUMS = (
    *("starts", "on_demand", "waited", "restarts", "cpu", "read", "written", "sent", "received"),
    *("oom_kills", "refused", "throttled"),
)
_CELL_SUMS = ("calls", "errors", "cancelled", "timeouts", "asked", "told", "seconds")


class Cell(msgspec.Struct):
    """The calls of one host for one tool, or of one other method. Times are in seconds; ``last`` since the epoch."""

    host: str
    method: str
    tool: str
    calls: int = 0
    errors: int = 0
    cancelled: int = 0
    timeouts: int = 0
    asked: int = 0
    told: int = 0
    seconds: float = 0.0
    last: float = 0.0
    #: How many calls that were answered, by bucket of `latency`.
    latency: dict[int, int] = msgspec.field(default_factory=dict)


class Tally(msgspec.Struct):
    """All that is counted of one server.

    ``starts`` are children that became ready, ``on_demand`` those that a call had to wait for, ``waited`` the seconds
    from the decision to start until it was ready, of all of them. ``restarts`` are starts after an end that nobody
    wanted. ``breaches`` counts the limits that were exceeded, by name. From ``cpu`` to ``throttled`` is what all runs
    used, as in `runtimes.reading.Reading`. ``memory`` and ``processes`` are what one
    instance held when it was last seen, of that ``private`` what it shared with nobody.
    """

    cells: list[Cell] = msgspec.field(default_factory=list)
    starts: int = 0
    on_demand: int = 0
    waited: float = 0.0
    waited_last: float = 0.0
    restarts: int = 0
    breaches: dict[str, int] = msgspec.field(default_factory=dict)
    cpu: float = 0.0
    read: int = 0
    written: int = 0
    sent: int = 0
    received: int = 0
    oom_kills: int = 0
    refused: int = 0
    throttled: float = 0.0
    memory: int = 0
    private: int = 0
    processes: int = 0
    since: float = 0.0


class Counts:
    """The tallies of all servers. ``wall`` is the time since the epoch."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self.tallies: dict[str, Tally] = {}
        #: Whether anything was counted since this was last set to False.
        self.changed = False
        #: Whether a call was counted since this was last set to False.
        self.called = False
        self._wall = wall
        # By what calls say of themselves, so that they find their cell in one look.
        self._cells: dict[tuple[str, str, str, bytes], Cell] = {}
        self._servers: frozenset[str] | None = None
        self._starting: dict[str, tuple[float, bool]] = {}

    def load(self, tallies: dict[str, Tally]) -> None:
        """Go on from what was counted before."""
        self.tallies = tallies
        self._cells.clear()

    def keep(self, servers: Iterable[str]) -> None:
        """Forget the servers that there are not any more."""
        self._servers = names = frozenset(servers)
        self.tallies = {name: tally for name, tally in self.tallies.items() if name in names}
        self._cells.clear()

    def tally(self, server: str) -> Tally:
        """Return the tally of a server, made now if there is none.

        What is counted of one that there is not any more is forgotten: its last calls end after it was removed.
        """
        found = self.tallies.get(server)
        if found is None:
            found = Tally(since=self._wall())
            if self._servers is None or server in self._servers:
                self.tallies[server] = found
        return found

    def calls(self, bundles: Sequence[Bundle]) -> None:
        """Count calls that are over."""
        # Calls are told of a moment after they are over, which does not matter here.
        now = self._wall()
        for bundle in bundles:
            cell = self._known(bundle)
            cell.last = now
            cell.calls += bundle.calls
            cell.errors += bundle.errors
            cell.cancelled += bundle.cancelled
            cell.timeouts += bundle.timeouts
            cell.asked += bundle.asked
            cell.told += bundle.told
            cell.seconds += sum(bundle.seconds)
            latency.count(bundle.seconds, cell.latency)
        self.changed = self.called = True

    def event(self, event: Event) -> None:
        """Count what an event says of starts, restarts and limits."""
        if event.kind == "limit":
            name = str(event.data.get("limit", ""))
            tally = self.tally(event.server)
            tally.breaches[name] = tally.breaches.get(name, 0) + 1
            self.changed = True
        elif event.kind == "state":
            self._state(event)

    def _state(self, event: Event) -> None:
        instance, now = str(event.data["instance"]), event.at.timestamp()
        match event.data["to"]:
            case "STARTING":
                # Without a session nobody waits: it is one that is to run anyway.
                waited_for = event.data.get("why") == "demand" and bool(event.data.get("sessions"))
                # One of the other era is tried in the place of the first: who waits goes on to wait.
                self._starting.setdefault(instance, (now, waited_for))
                if event.data["from"] in ("BACKOFF", "EXITED"):
                    self.tally(event.server).restarts += 1
            case "RUNNING":
                began, on_demand = self._starting.pop(instance, (now, False))
                tally = self.tally(event.server)
                tally.starts += 1
                tally.on_demand += on_demand
                tally.waited_last = max(now - began, 0.0)
                tally.waited += tally.waited_last
            case "STOPPING" if event.data.get("why") == "replace":
                return
            case _:
                self._starting.pop(instance, None)
                return
        self.changed = True

    def _known(self, bundle: Bundle) -> Cell:
        key = (bundle.caller.server, bundle.caller.host, bundle.method, bundle.tool)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cell(bundle)
            # What a host makes up is kept nowhere as long as it made it.
            if len(bundle.method) <= _LONGEST and len(bundle.tool) <= _LONGEST:
                self._cells[key] = cell
        return cell

    def _cell(self, bundle: Bundle) -> Cell:
        cells = self.tally(bundle.caller.server).cells
        host = _fitting(masker.mask(bundle.caller.host), {cell.host for cell in cells}, MOST_HOSTS)
        # They are told and kept in a file, so nothing of them may be a secret that a host takes for a name.
        tool = masker.mask(jsonrpc.string_of(bundle.tool) or "")[:_LONGEST]
        method, what = masker.mask(bundle.method)[:_LONGEST], {(cell.method, cell.tool) for cell in cells}
        if (method, tool) not in what and len(what) >= MOST_TOOLS:
            method, tool = (method, OTHER) if method == "tools/call" else (OTHER, "")
        for cell in cells:
            if (cell.host, cell.method, cell.tool) == (host, method, tool):
                return cell
        cells.append(Cell(host, method, tool))
        # What a host makes up is not remembered for ever: the next ones that are told of find their cell anew.
        if len(self._cells) > 4 * MOST_HOSTS * MOST_TOOLS:
            self._cells.clear()
        return cells[-1]


def beyond(now: Tally, before: Tally | None) -> Tally:
    """Return what was counted of a server since an earlier copy of its tally; what is no count stays as it is."""
    if before is None or before.since != now.since:
        return now
    known = {(cell.host, cell.method, cell.tool): cell for cell in before.cells}
    counted = {name: getattr(now, name) - getattr(before, name) for name in _SUMS}
    breaches = {name: count - before.breaches.get(name, 0) for name, count in now.breaches.items()}
    cells = [_cell_beyond(cell, known.get((cell.host, cell.method, cell.tool))) for cell in now.cells]
    return msgspec.structs.replace(now, **counted, breaches=breaches, cells=cells)


def _cell_beyond(now: Cell, before: Cell | None) -> Cell:
    if before is None:
        return now
    counted = {name: getattr(now, name) - getattr(before, name) for name in _CELL_SUMS}
    histogram = {bucket: count - before.latency.get(bucket, 0) for bucket, count in now.latency.items()}
    return msgspec.structs.replace(now, **counted, latency=histogram)


def _fitting(name: str, known: set[str], most: int) -> str:
    return name if name in known or len(known) < most else OTHER
