"""Fan-out of what happens: events, calls of hosts, and single messages, told to whoever watches.

This is the one place where logs, counters, taps and exporters attach. There are five channels of it, each with its own
kind of news: `Observers.events` (state changes, sessions, reloads), `Observers.bundles` (requests of hosts that are
over, summed), `Observers.calls` (each of them for itself), `Observers.messages` (each line on its way, a channel for
each server: who taps one of them is not felt by the others) and `Observers.lines` (each line of the log of a server). A
channel that nobody watches costs its publisher one look.

An observer that fails, or that takes more than its share of the time of the daemon, is taken out, never fatal: watching
must not hurt what is watched. What has to wait for something (a disk, a network) watches ``apart``: in a thread of its
own, behind a bounded queue; one that does not keep up is taken out too. Who was taken out is reported as an event
``observer-dropped``, in the log, and in `Observers.dropped`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.protocol.calls import Call, Caller
from supervisord_mcp.protocol.news import LogLine
from supervisord_mcp.protocol.tapping import Direction

_log = logging.getLogger(__name__)

T = TypeVar("T")

#: How many past events are kept for those who come later.
KEPT = 500
#: An observer that takes more than so much of a period of the event loop's time is too slow, in seconds. What is done
#: quickly does not count: it adds up to something only with the work that it is done for.
SHARE, PERIOD, QUICK = 1.0, 10.0, 0.001
_clock = time.perf_counter
#: How much may wait for an observer that watches apart.
BACKLOG = 10_000


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened: ``kind`` is its stable name, ``data`` what belongs to it, as plain JSON values."""

    kind: str
    server: str = ""
    data: dict[str, Any] = field(default_factory=dict)
    at: datetime = field(default_factory=lambda: datetime.now(UTC))


class Message(msgspec.Struct, gc=False):
    """One line on its way, without its newline. ``session`` is 0 for what goes to or comes from the server itself.

    ``host`` is how the host of the session names itself. ``size`` is the length of the line, of which there is only the
    beginning where it was too long to be passed on.
    """

    server: str
    instance: str
    session: int
    host: str
    direction: Direction
    line: bytes
    size: int


@dataclass(slots=True, eq=False)
class Bundle:
    """Calls of one caller for one thing that were over at about the same time, summed.

    For who only counts, and needs no object for each call. (No struct of msgspec: those are quickly made but slowly
    changed, and every call changes one of these.)
    """

    caller: Caller
    method: str
    tool: bytes
    #: How long each took that was answered, in seconds.
    seconds: list[float] = field(default_factory=list)
    #: How many of the answers were errors, or the result of a tool that failed; and how many calls were given up.
    errors: int = 0
    cancelled: int = 0
    timeouts: int = 0
    #: The bytes of all requests, and of all answers.
    asked: int = 0
    told: int = 0

    @property
    def calls(self) -> int:
        """How many calls they are."""
        return len(self.seconds) + self.cancelled + self.timeouts


@dataclass(slots=True, eq=False)
class _Watcher(Generic[T]):
    """Somebody who is told, and what that cost in this period."""

    name: str
    tell: Callable[[Sequence[T]], object]
    close: Callable[[], None]
    timed: bool = True
    since: float = 0.0
    spent: float = 0.0

    def slow(self, took: float, now: float) -> bool:
        """Note how long one piece of news took that took long; return whether that is too much."""
        if now - self.since > PERIOD:
            self.since, self.spent = now, 0.0
        self.spent += took
        return self.spent > SHARE


class Channel(Generic[T]):
    """One kind of news and who watches it. ``tell`` and ``add`` belong to the event loop."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        """``report`` gets the name of an observer that is taken out, and why."""
        #: Whether anybody watches, so that who has much to tell need not prepare it for nobody.
        self.watched = False
        self._watchers: tuple[_Watcher[T], ...] = ()
        self._report = report

    def add(self, observer: Callable[[T], object], name: str = "", *, apart: bool = False) -> Callable[[], None]:
        """Tell the observer from now on; return the function that ends it.

        With ``apart`` it is called from a thread of its own.
        """
        name = name or getattr(observer, "__qualname__", type(observer).__name__)
        if apart:
            queue = _Queue(observer, name)
            return self._add(_Watcher(name, _each(queue.put), queue.close, timed=False))
        return self._add(_Watcher(name, _each(observer), lambda: None))

    def add_counter(self, observer: Callable[[Sequence[T]], object], name: str) -> Callable[[], None]:
        """Tell an observer of everything that is told together at once; return the function that ends it.

        For what is told of every call: it never waits, and does little that does not grow, so its time is not taken.
        """
        return self._add(_Watcher(name, observer, lambda: None, timed=False))

    def _add(self, watcher: _Watcher[T]) -> Callable[[], None]:
        self._set((*self._watchers, watcher))
        return lambda: self._remove(watcher)

    def tell(self, news: T) -> None:
        """Tell everybody."""
        self.tell_all((news,))

    def tell_all(self, news: Sequence[T]) -> None:
        """Tell everybody of several things, in their order."""
        dropped: list[tuple[_Watcher[T], Exception | None]] | None = None
        for watcher in self._watchers:
            tell = watcher.tell
            before = _clock()
            try:
                tell(news)
            except Exception as failure:  # noqa: BLE001 - whatever an observer does wrong
                dropped = [*(dropped or ()), (watcher, failure)]
                continue
            took = _clock() - before
            if took > QUICK and watcher.timed and watcher.slow(took, before):
                dropped = [*(dropped or ()), (watcher, None)]
        if dropped is not None:
            for watcher, error in dropped:
                self._drop(watcher, error)

    def _drop(self, watcher: _Watcher[T], error: Exception | None) -> None:
        self._remove(watcher)
        if error is None:
            cause = f"it took more than {SHARE:g} s within {PERIOD:g} s"
            _log.error("the observer %s is too slow and no longer told: %s", watcher.name, cause)
        else:
            cause = str(error) or type(error).__name__
            _log.error("an observer failed and is no longer told", exc_info=error)
        self._report(watcher.name, cause)

    def _remove(self, watcher: _Watcher[T]) -> None:
        if watcher in self._watchers:
            self._set(tuple(other for other in self._watchers if other is not watcher))
            watcher.close()

    def _set(self, watchers: tuple[_Watcher[T], ...]) -> None:
        self._watchers = watchers
        self.watched = bool(watchers)


def _each(observer: Callable[[T], object]) -> Callable[[Sequence[T]], None]:
    def tell(news: Sequence[T]) -> None:
        for one in news:
            observer(one)

    return tell


class _Queue(Generic[T]):
    """What waits for an observer that watches apart, and the thread that brings it there."""

    def __init__(self, observer: Callable[[T], object], name: str) -> None:
        self._observer = observer
        self._waiting: deque[T | None] = deque()
        self._filled = threading.Semaphore(0)
        self._error: Exception | None = None
        # A daemon thread: one that hangs in a write must not keep the program from ending.
        self._thread = threading.Thread(target=self._run, name=f"observer {name}", daemon=True)
        self._thread.start()

    def put(self, news: T) -> None:
        """Leave news for the observer. Raise what it failed with, or `BufferError` if it does not keep up."""
        if self._error is not None:
            raise self._error
        if len(self._waiting) >= BACKLOG:
            raise BufferError(f"it is {BACKLOG} behind")
        self._waiting.append(news)
        self._filled.release()

    def close(self) -> None:
        """Let the thread end once it has told what waits."""
        self._waiting.append(None)
        self._filled.release()

    def _run(self) -> None:
        while True:
            self._filled.acquire()
            news = self._waiting.popleft()
            if news is None:
                return
            try:
                self._observer(news)
            except Exception as error:  # noqa: BLE001 - raised where the next news comes from
                self._error = error
                return


class Messages(dict[str, Channel[Message]]):
    """The messages of each server, by its name; a channel is made when it is first asked for, and stays."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        super().__init__()
        self._report = report

    def __missing__(self, server: str) -> Channel[Message]:
        channel = self[server] = Channel(self._report)
        return channel


class Observers:
    """All channels, the last events, and the observers that were taken out, with the cause."""

    def __init__(self) -> None:
        self.dropped: dict[str, str] = {}
        self.events: Channel[Event] = Channel(self.let_go)
        self.bundles: Channel[Bundle] = Channel(self.let_go)
        self.calls: Channel[Call] = Channel(self.let_go)
        self.messages = Messages(self.let_go)
        self.lines: Channel[LogLine] = Channel(self.let_go)
        #: Whether somebody wants the line that a call was asked for in.
        self.keep_requests = False
        self.recent: deque[Event] = deque(maxlen=KEPT)

    def add(self, observer: Callable[[Event], object], name: str = "", *, apart: bool = False) -> Callable[[], None]:
        """Tell the observer of events from now on; return the function that ends it."""
        return self.events.add(observer, name, apart=apart)

    def publish(self, event: Event) -> None:
        """Tell everybody who watches events; no value that the masker knows is in what they are told."""
        event = replace(event, data=masker.mask_data(event.data))
        self.recent.append(event)
        self.events.tell(event)

    def let_go(self, name: str, cause: str) -> None:
        """An observer was taken out: report it."""
        self.dropped[name] = cause
        self.publish(Event("observer-dropped", data={"observer": name, "cause": cause}))
