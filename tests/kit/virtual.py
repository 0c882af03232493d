"""An event loop whose clock a test moves: hours pass as fast as they are computed, and chance says who is first.

Where nothing is ready the clock jumps to the next timer. With a source of chance, descriptors that are ready at the
same time come in any order, some of them later, and timers that are due soon may overtake them: everything that a
kernel may do, and that a test in real time sees once in a blue moon. Nothing outside of the process can be waited for.
"""

from __future__ import annotations

import asyncio
import functools
import random
import selectors
from collections.abc import Callable
from typing import TypeAlias

from tests.kit.bounded import P, Test, _body
from tests.kit.probe import LeakGuard

Ready: TypeAlias = list[tuple[selectors.SelectorKey, int]]

#: What each turn of the loop takes, in seconds: a clock that stands still never reaches what is due a moment later.
_TURN = 1e-6
#: How far a timer may be away, in seconds, to overtake what is ready.
_NEAR = 0.05


class _Clock(selectors.EpollSelector):
    """Finds what is ready and never waits: it moves the clock instead."""

    def __init__(self, chance: random.Random | None) -> None:
        super().__init__()
        self.now = 1000.0
        self._chance = chance

    def select(self, timeout: float | None = None) -> Ready:
        """Return what is ready now, or nothing after having moved the clock. Raise where nothing can ever happen."""
        found = super().select(0)
        self.now += _TURN
        if self._chance is not None and found:
            return self._shuffled(found, timeout)
        if not found and timeout is None:
            raise AssertionError("everybody waits for somebody: there is neither a timer nor anything to read")
        if not found and timeout:
            self.now += timeout
        return found

    def _shuffled(self, found: Ready, timeout: float | None) -> Ready:
        assert self._chance is not None
        if timeout is not None and timeout <= _NEAR and self._chance.random() < 0.1:
            self.now += timeout
            return []
        self._chance.shuffle(found)
        # At least one, or with a timeout of None the loop would turn without end.
        return found[: self._chance.randint(1, len(found))]


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop in virtual time; ``chance`` decides what comes first where several things are ready."""

    def __init__(self, chance: random.Random | None = None) -> None:
        self._clock = _Clock(chance)
        super().__init__(self._clock)

    def time(self) -> float:
        """Return the virtual time, in seconds."""
        return self._clock.now


def run_virtually(test: Callable[[], object], seconds: float, chance: random.Random | None = None) -> None:
    """Given a function that makes a coroutine, run it at most so many virtual seconds, as `bounded` does."""
    with LeakGuard(), asyncio.Runner(loop_factory=lambda: VirtualLoop(chance)) as runner:
        runner.run(_body(test(), seconds))  # type: ignore[arg-type]


def virtual(seconds: float) -> Callable[[Test[P]], Callable[P, None]]:
    """Given a limit in virtual seconds, return a decorator that runs an async test in virtual time."""

    def decorate(test: Test[P]) -> Callable[P, None]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            run_virtually(lambda: test(*args, **kwargs), seconds)

        return run

    return decorate
