"""What ``smcp top`` shows and what its keys do: a state, keys in, lines out. It draws nothing and asks nobody."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from supervisord_mcp.cli.amounts import length, number, percent, size, sparkline
from supervisord_mcp.cli.output import count, in_a_line, one_line
from supervisord_mcp.protocol.usage import Figures, ProcessUsage, ServerUsage, UsageResult

Verb = Literal["restart", "stop", "logs", "quit"]
Sort = Literal["cpu", "memory", "calls", "name"]

SORTS: Final[tuple[Sort, ...]] = ("cpu", "memory", "calls", "name")
_SORT_KEYS: Final[Mapping[str, Sort]] = {"C": "cpu", "M": "memory", "A": "calls", "N": "name"}
_STYLES: Final = {"RUNNING": "green", "FATAL": "bold red", "BACKOFF": "yellow", "EXITED": "yellow", "STOPPED": "dim"}
#: Columns with their widths and whether they stand at the right; the first and the last take what is left.
_COLUMNS: Final = (
    ("STATE", 8, False),
    ("CPU", 6, True),
    ("MEM", 5, True),
    ("PROC", 4, True),
    ("SESS", 4, True),
    ("CALLS", 5, True),
    ("ERR", 4, True),
    ("P95", 6, True),
)
_FIXED: Final = sum(width + 1 for _, width, _ in _COLUMNS)
_NARROWEST_NAME, _WIDEST_NAME = 10, 24
_KEYS: Final = "↑↓ select  ⏎ expand  s sort: {sort}  r restart  x stop  l logs  q quit"
_LOG_KEYS: Final = "l or Esc: back   q quit"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a key asks for, of which server."""

    verb: Verb
    server: str = ""


@dataclass(slots=True)
class View:
    """What the person chose. ``asking`` is a wish that waits for yes or no, ``log`` what is shown of a server's log."""

    sort: Sort = "cpu"
    selected: str = ""
    expanded: set[str] = field(default_factory=set)
    message: str = ""
    asking: Wish | None = None
    log: list[str] | None = None
    #: What each process had used when it was last seen, and when that was, for what it uses now.
    seen: dict[int, tuple[float, float]] = field(default_factory=dict)
    loads: dict[int, float] = field(default_factory=dict)

    def took(self, result: UsageResult) -> None:
        """There are new figures: find out how busy each process was since the last ones."""
        loads, seen = {}, {}
        for process in _processes(result):
            before = self.seen.get(process.pid)
            if before is not None and result.at > before[0]:
                loads[process.pid] = max(process.cpu - before[1], 0.0) / (result.at - before[0])
            seen[process.pid] = (result.at, process.cpu)
        self.loads, self.seen = loads, seen

    def order(self, result: UsageResult) -> list[ServerUsage]:
        """Return the servers as they are sorted."""
        return sorted(result.servers, key=lambda server: (-_weight(server, self.sort), server.name))

    def press(self, key: str, result: UsageResult) -> Wish | None:
        """A key was pressed; return what is to be done, if that is not only to show something else."""
        if self.asking is not None:
            wish, self.asking = self.asking, None
            self.message = "" if key == "y" else "not done"
            return wish if key == "y" else None
        if key == "q":
            return Wish("quit")
        if self.log is not None:
            if key in ("l", "escape", "left"):
                self.log = None
            return None
        names = [server.name for server in self.order(result)]
        if not names:
            return None
        self._move(key, names)
        self.message = ""
        match key:
            case "enter" | " ":
                self.expanded ^= {self.selected}
            case "right":
                self.expanded.add(self.selected)
            case "left":
                self.expanded.discard(self.selected)
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
            case "C" | "M" | "A" | "N":
                self.sort = _SORT_KEYS[key]
            case "r":
                self.asking = Wish("restart", self.selected)
            case "x":
                self.asking = Wish("stop", self.selected)
            case "l":
                return Wish("logs", self.selected)
        return None

    def _move(self, key: str, names: list[str]) -> None:
        at = names.index(self.selected) if self.selected in names else 0
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "home": -at, "g": -at, "end": len(names), "G": len(names)}
        self.selected = names[min(max(at + steps.get(key, 0), 0), len(names) - 1)]

    def lines(self, result: UsageResult, width: int, height: int) -> list[Text]:
        """Return exactly as many lines as the screen has."""
        head, foot = _head(result, width), [self._foot(width)]
        if self.log is not None:
            room = height - 3
            shown = [Text(_cut(in_a_line(line), width)) for line in self.log[-room:]]
            title = Text(_cut(f"log of {self.selected}", width), style="bold")
            return _filled([head, title, *shown], foot, height)
        name_width = min(max(width - _FIXED - 12, _NARROWEST_NAME), _WIDEST_NAME)
        body: list[Text] = []
        first = last = 0
        servers = self.order(result)
        if servers and self.selected not in {server.name for server in servers}:
            self.selected = servers[0].name
        for server in servers:
            rows = list(self._server(server, name_width, width))
            if server.name == self.selected:
                first, last = len(body), len(body) + len(rows)
            body += rows
        if not servers:
            body.append(Text(_cut("no servers are configured; add one with: smcp add NAME -- COMMAND", width)))
        room = height - 4
        # What is selected stays on the screen, its processes as far as there is room.
        start = max(min(first, last - room if last - first <= room else first), 0) if last > room else 0
        more = len(body) - start - room
        title = _title(name_width, width)
        note = Text(_cut(f"… {more} more lines below" if more > 0 else "", width), style="dim")
        return _filled([head, title, *body[start : start + room]], [note, *foot], height)

    def _foot(self, width: int) -> Text:
        if self.asking is not None:
            return Text(
                _cut(f"{self.asking.verb} {self.asking.server}? y: yes, any other key: no", width), style="bold"
            )
        if self.message:
            return Text(_cut(in_a_line(self.message), width), style="bold")
        keys = _LOG_KEYS if self.log is not None else _KEYS.format(sort=self.sort)
        return Text(_cut(keys, width), style="dim")

    def _server(self, server: ServerUsage, name_width: int, width: int) -> Iterator[Text]:
        figures, runs = server.figures, bool(server.figures.processes)
        mark = "-" if server.name in self.expanded else "+"
        cells = (
            (server.state, _STYLES.get(server.state, "")),
            (percent(figures.load) if runs else "-", ""),
            (size(figures.memory) if runs else "-", ""),
            (str(len(figures.processes)) if runs else "-", ""),
            (str(server.sessions), ""),
            (number(server.total.calls), ""),
            (number(server.total.errors), "red" if server.total.errors else ""),
            (length(server.total.p95), ""),
        )
        line = Text(set_cell_size(_cut(f"{mark}{in_a_line(server.name)}", name_width), name_width))
        for (_, room, right), (cell, style) in zip(_COLUMNS, cells, strict=True):
            line.append(" ")
            line.append(_fitted(cell, room, right), style)
        for curve in _curves(server, width - cell_len(line.plain) - 1):
            line.append(f" {curve}", "cyan")
        line = Text(_cut(line.plain, width), spans=line.spans)
        if server.name == self.selected:
            line.stylize("reverse")
        yield line
        if server.name in self.expanded:
            yield from self._details(server, width)

    def _details(self, server: ServerUsage, width: int) -> Iterator[Text]:
        if server.last_error:
            yield Text(_cut(f"   last error: {one_line(server.last_error)}", width), style="yellow")
        if server.breaches:
            told = ", ".join(f"{name} {count(times, 'time')}" for name, times in sorted(server.breaches.items()))
            yield Text(_cut(f"   limits exceeded: {told}", width), style="yellow")
        if server.saved.processes:
            saved = f"{server.saved.processes} processes, {size(server.saved.memory)}"
            yield Text(_cut(f"   saved by sharing: {saved}", width), style="dim")
        for instance in server.instances:
            if len(server.instances) > 1:
                yield Text(_cut(f"   {in_a_line(instance.key)} {instance.state}", width))
            if instance.figures is not None:
                yield Text(_cut(f"   {_used(instance.figures)}", width), style="dim")
                for process in instance.figures.processes:
                    load = percent(self.loads.get(process.pid, 0.0))
                    text = f"   {process.pid:>8} {load:>6} {size(process.memory):>5} {process.threads:>3} thr"
                    yield Text(_cut(f"{text} {process.files:>4} files  {in_a_line(process.name)}", width))


def _weight(server: ServerUsage, sort: Sort) -> float:
    match sort:
        case "cpu":
            return server.figures.load
        case "memory":
            return server.figures.memory
        case "calls":
            return server.total.calls
        case "name":
            return 0.0


def _processes(result: UsageResult) -> Iterator[ProcessUsage]:
    for server in result.servers:
        yield from server.figures.processes


def _used(figures: Figures) -> str:
    network = "" if figures.sent is None else f", network {size(figures.sent)}/{size(figures.received or 0)}"
    disk = f"disk {size(figures.read)}/{size(figures.written)}"
    return f"{figures.threads} threads, {figures.files} files, {figures.sockets} sockets, {disk}{network}"


def _head(result: UsageResult, width: int) -> Text:
    running = sum(bool(server.figures.processes) for server in result.servers)
    daemon = result.daemon
    parts = [
        f"smcp top  daemon {percent(daemon.load)} {size(daemon.memory)}",
        f"{running} of {len(result.servers)} servers run",
        f"sharing saves {size(result.saved.memory)}",
    ]
    told = "   ".join(parts)
    processes = f", {count(result.saved.processes, 'process', 'processes')}"
    line = Text(_cut(told + processes if cell_len(told + processes) <= width else told, width), style="bold")
    if result.problems:
        line = Text(_cut(in_a_line(f"problem: {result.problems[0]}"), width), style="bold yellow")
    return line


def _title(name_width: int, width: int) -> Text:
    cells = [set_cell_size(" SERVER", name_width)]
    cells += [_fitted(name, room, right) for name, room, right in _COLUMNS]
    left = width - sum(cell_len(cell) + 1 for cell in cells)
    if left >= 8:
        cells.append(set_cell_size("CPU", left // 2) if left >= 16 else "CPU")
    if left >= 16:
        cells.append("MEM")
    return Text(_cut(" ".join(cells), width), style="bold underline")


def _curves(server: ServerUsage, room: int) -> Iterator[str]:
    """Yield the curves of processors and memory, as far as there is room for them."""
    if room < 8 or not server.history:
        return
    each = room // 2 - 1 if room >= 16 else room - 1
    by_slot = {round(point.at / server.step): point for point in server.history}
    last = max(by_slot)
    points = [by_slot.get(last - back) for back in range(each - 1, -1, -1)]
    yield sparkline([None if point is None else point.load for point in points], each)
    if room >= 16:
        yield sparkline([None if point is None else float(point.memory) for point in points], each)


def _fitted(text: str, width: int, right: bool) -> str:
    return text.rjust(width)[-width:] if right else set_cell_size(text, width)


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _filled(above: list[Text], below: list[Text], height: int) -> list[Text]:
    shown = above[: max(height - len(below), 0)]
    return [*shown, *(Text() for _ in range(height - len(shown) - len(below))), *below][:height]
