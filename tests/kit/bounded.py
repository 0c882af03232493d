"""A test as a coroutine with a time limit, inside a leak guard."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

from tests.kit.probe import LeakGuard

P = ParamSpec("P")
Test = Callable[P, Coroutine[Any, Any, None]]


def bounded(seconds: float) -> Callable[[Test[P]], Callable[P, None]]:
    """Given a limit, return a decorator that runs an async test at most that long and checks what it leaves behind.

    Tasks that still run at the end, errors that only reached the event loop's handler, file descriptors, children and
    unclosed resources all fail the test.
    """

    def decorate(test: Test[P]) -> Callable[P, None]:
        @functools.wraps(test)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            with LeakGuard():
                asyncio.run(_body(test(*args, **kwargs), seconds))

        return run

    return decorate


async def _body(test: Coroutine[Any, Any, None], seconds: float) -> None:
    problems: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: problems.append(str(context)))
    async with asyncio.timeout(seconds):
        await test
    await asyncio.sleep(0)
    left = [str(task) for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert not left, f"tasks are left: {left}"
    assert not problems, problems
