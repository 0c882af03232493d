"""The end of a stream that is not read for now: whether the other side has gone is known without taking its bytes."""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable


class HangupWatch:
    """Calls ``on_hangup`` once, as soon as nobody can write to a pipe or socket any more, however much is left in it.

    The event loop asks only for what can be read, which a full pipe always says. An epoll of our own asks for the end
    alone. Raise `OSError` where descriptors have run out.
    """

    def __init__(self, descriptor: int, on_hangup: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_hangup = on_hangup
        self._poll = select.epoll()
        try:
            # The end of a pipe is told unasked, that of one direction of a socket is not.
            self._poll.register(descriptor, select.EPOLLRDHUP)
        except OSError:
            self._poll.close()
            raise
        self._loop.add_reader(self._poll.fileno(), self._hung_up)

    def close(self) -> None:
        """Watch no more. Idempotent; to be called before the descriptor is closed."""
        if not self._poll.closed:
            self._loop.remove_reader(self._poll.fileno())
            self._poll.close()

    def _hung_up(self) -> None:
        self.close()
        self._on_hangup()
