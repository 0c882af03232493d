"""The event loop of the daemon: asyncio's own, with a shorter way to those who read what every call brings.

Asyncio makes a handle of each piece of news, queues it, and runs it in a context of its own. Who reads a pipe needs
none of that: it never waits, and looks at no context variable. And as long as nothing else is to be done, there is no
reason to go once around asyncio's loop before the next look. What that saves: ``contrib/bench/SPEED.md``.
"""

from __future__ import annotations

import asyncio
import math
import select
import selectors
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import Context
from typing import Any, Protocol, TypeVarTuple, Unpack

_Ts = TypeVarTuple("_Ts")
_monotonic = time.monotonic


class _HasNumber(Protocol):
    def fileno(self) -> int: ...


class DirectLoop(asyncio.SelectorEventLoop):
    """Asyncio's event loop, with readers that are called as soon as there is something for them."""

    def __init__(self) -> None:
        self._direct = DirectSelector(self._failed)
        super().__init__(self._direct)

    def add_direct_reader(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back whenever a descriptor can be read, like ``add_reader``; the callback gets no context of its own."""
        self.add_reader(descriptor, callback)
        self._direct.readers[descriptor] = callback

    def remove_direct_reader(self, descriptor: int) -> None:
        """Do not call back any more."""
        self._direct.readers.pop(descriptor, None)
        self.remove_reader(descriptor)

    # What readers arrange for is to be done before the selector waits again: that is for asyncio to see.

    def call_soon(
        self, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Call back in the next turn, as asyncio does."""
        self._direct.returns = True
        return super().call_soon(callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[_Ts]], object], *args: *_Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Call back at a time, as asyncio does; ``call_later`` comes through here as well."""
        self._direct.returns = True
        return super().call_at(when, callback, *args, context=context)

    def stop(self) -> None:
        """Stop after this turn."""
        self._direct.returns = True
        super().stop()

    def _failed(self, error: Exception) -> None:
        self.call_exception_handler({"message": "a reader failed", "exception": error})


class DirectSelector(selectors.BaseSelector):
    """Epoll, as `selectors.EpollSelector` has it, but for ``readers``: those it calls itself.

    ``failed`` is told what one of them raises.
    """

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        #: Whom to call when a descriptor can be read, by its number; it is registered, too.
        self.readers: dict[int, Callable[[], None]] = {}
        #: Whether a reader left something to be done, so that the loop is to have its turn.
        self.returns = False
        self._failed = failed
        self._epoll = select.epoll()
        self._keys: dict[int, selectors.SelectorKey] = {}
        self._watched = _Watched(self._keys)

    def register(self, fileobj: int | _HasNumber, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch for events. Raise `KeyError` for what is watched already."""
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if number in self._keys:
            raise KeyError(f"{fileobj!r} is registered already")
        self._epoll.register(number, _mask(events))
        key = self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return key

    def unregister(self, fileobj: int | _HasNumber) -> selectors.SelectorKey:
        """Watch no more. Raise `KeyError` for what is not watched."""
        key = self._watched[fileobj]
        del self._keys[key.fd]
        # It may be closed already, and epoll has forgotten it then.
        with suppress(OSError):
            self._epoll.unregister(key.fd)
        return key

    def modify(self, fileobj: int | _HasNumber, events: int, data: Any = None) -> selectors.SelectorKey:
        """Watch for other events. Raise `KeyError` for what is not watched."""
        key = self._watched[fileobj]
        if events != key.events:
            self._epoll.modify(key.fd, _mask(events))
        key = self._keys[key.fd] = key._replace(events=events, data=data)
        return key

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Call the readers of what can be read until anything else is to be done; return what else happened.

        Given a ``timeout``, return after so many seconds at the latest; given 0, look once.
        """
        self.returns = False
        if timeout is None:
            return self._until(None)
        return self._until(_monotonic() + timeout) if timeout > 0 else self._look(0.0)

    def _until(self, end: float | None) -> list[tuple[selectors.SelectorKey, int]]:
        left = -1.0
        while True:
            if end is not None:
                left = end - _monotonic()
                if left <= 0:
                    return []
                # Epoll counts in milliseconds, and nobody may be woken too early.
                left = math.ceil(left * 1e3) * 1e-3
            if (others := self._look(left)) or self.returns:
                return others

    def _look(self, timeout: float) -> list[tuple[selectors.SelectorKey, int]]:
        keys, readers = self._keys, self.readers
        others: list[tuple[selectors.SelectorKey, int]] = []
        for number, event in self._epoll.poll(timeout, len(keys) or 1):
            reader = readers.get(number)
            # What is written to as well has two callbacks, which is for the loop to sort out.
            if reader is not None and not event & select.EPOLLOUT:
                try:
                    reader()
                except Exception as error:  # noqa: BLE001 - as the loop does with what a callback raises
                    self._failed(error)
            elif (key := keys.get(number)) is not None:
                write = selectors.EVENT_WRITE if event & ~select.EPOLLIN else 0
                read = selectors.EVENT_READ if event & ~select.EPOLLOUT else 0
                others.append((key, (read | write) & key.events))
        return others

    def close(self) -> None:
        """Watch nothing any more."""
        self.readers.clear()
        self._keys.clear()
        self._epoll.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """Return what is watched, by what it was registered as, or by number."""
        return self._watched


class _Watched(Mapping[Any, selectors.SelectorKey]):
    def __init__(self, keys: dict[int, selectors.SelectorKey]) -> None:
        self._keys = keys

    def __getitem__(self, fileobj: int | _HasNumber) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        if number >= 0:
            return self._keys[number]
        # It is closed, and has no number any more.
        for key in self._keys.values():
            if key.fileobj is fileobj:
                return key
        raise KeyError(f"{fileobj!r} is not registered")

    def __iter__(self) -> Iterator[int]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop for a daemon; asyncio's own where the system has no epoll."""
    return DirectLoop() if hasattr(select, "epoll") else asyncio.new_event_loop()


def _mask(events: int) -> int:
    read = select.EPOLLIN if events & selectors.EVENT_READ else 0
    write = select.EPOLLOUT if events & selectors.EVENT_WRITE else 0
    return read | write
