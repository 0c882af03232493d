"""A client in a process of its own, told over its stdin what to do: ``caller.py WIRE WORD…``, see `wires`.

Run as a script, without the project. Orders and reports are JSON objects, one a line; an order that cannot be carried
out is reported with the reason (``{"failed": "…"}``), never left without an answer.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from contrib.bench.field.wires import WIRES, CallError, LostError, Wire
else:
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from wires import WIRES, CallError, LostError, Wire

#: How long after a failed attempt the next one is made, in seconds, and how long one may take.
AGAIN, ATTEMPT = 0.002, 2.0


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise `TimeoutError` in the block once it takes longer: no read has to be guarded for that."""
    before = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))[0]
    began = time.monotonic()
    try:
        yield
    finally:
        left = before - (time.monotonic() - began)
        signal.setitimer(signal.ITIMER_REAL, max(left, 0.001) if before else 0.0)


class Caller:
    """One client: a wire, and the tool that it calls with what its argument is called."""

    def __init__(self, kind: str, *words: str) -> None:
        self._kind, self._words = kind, words
        self._wire: Wire = WIRES[kind](*words)
        self._tool, self._argument, self._blob = "echo", "text", "blob"
        self._number = 0

    def speak(self, tool: str, argument: str, blob: str) -> dict[str, Any]:
        """Be told what the tools are called."""
        self._tool, self._argument, self._blob = tool, argument, blob
        return {}

    def open(self, since: float, patience: float) -> dict[str, Any]:
        """Connect as soon as it is possible; return the seconds from a moment until a first call was answered."""
        end = time.monotonic() + patience
        said, there = "silence", False
        while time.monotonic() < end:
            try:
                with within(end - time.monotonic()):
                    if not there:
                        self._fresh()
                        there = True
                    self._echo()
                return {"seconds": time.monotonic() - since}
            except TimeoutError:
                break
            except (CallError, LostError, OSError, ValueError) as error:
                said = str(error) or type(error).__name__
                there = there and isinstance(error, CallError)
                if not there:
                    self.close()
                if not there and self._kind in ("pipes", "terminal"):
                    break  # a host tells the person about a command that fails, and does not start it again
            time.sleep(AGAIN)
        return {"failed": said}

    def calls(self, count: int, limit: float) -> dict[str, Any]:
        """Call one time after the other, for so many seconds at most; return the nanoseconds of each call."""
        clock = time.perf_counter_ns
        end = clock() + int(limit * 1e9)
        taken: list[int] = []
        before = clock()
        while len(taken) < count and before < end:
            self._echo()
            now = clock()
            taken.append(now - before)
            before = now
        return {"nanoseconds": taken}

    def flood(self, start: float, seconds: float) -> dict[str, Any]:
        """From a moment of the monotonic clock on, call as often as possible; return how many calls were answered."""
        time.sleep(max(0.0, start - time.monotonic()))
        # One that is woken late calls for as long as the others, and at least once.
        end = time.monotonic() + seconds
        count = 0
        while time.monotonic() < end:
            self._echo()
            count += 1
        return {"calls": count}

    def blob(self, size: int) -> dict[str, Any]:
        """Fetch a large result; return the seconds until it was read and decoded."""
        before = time.perf_counter()
        length = len(self._wire.call(self._blob, {"bytes": size}))
        if length < size:
            return {"failed": f"{length:,} of {size:,} bytes arrived"}
        return {"seconds": time.perf_counter() - before}

    def again(self, since: float, limit: float) -> dict[str, Any]:
        """Call until it is answered; return the seconds from a moment to that, and how many attempts failed.

        A session that the server does not know any more is opened anew, as the protocol says a client does.
        """
        end = time.monotonic() + limit
        failed, said = 0, "silence"
        while time.monotonic() < end:
            try:
                with within(min(ATTEMPT, end - time.monotonic())):
                    self._echo()
                return {"seconds": time.monotonic() - since, "failures": failed}
            except TimeoutError:
                said = "silence"
                self._wire.forget()
            except CallError as error:
                said = str(error) or type(error).__name__
            except (LostError, OSError) as error:
                said = str(error) or type(error).__name__
                if self._kind in ("pipes", "terminal"):
                    return {"failed": f"its connection ended: {said}"}
                with suppress(CallError, LostError, OSError, TimeoutError), within(end - time.monotonic()):
                    self._wire.open()
            failed += 1
            time.sleep(AGAIN)
        return {"failed": said}

    def close(self) -> None:
        """Hang up."""
        self._wire.close()

    def forget(self) -> None:
        """Expect no answer any more to what was asked."""
        self._wire.forget()

    def _fresh(self) -> None:
        self._wire.close()
        self._wire = WIRES[self._kind](*self._words)
        self._wire.open()

    def _echo(self) -> None:
        self._number += 1
        text = f"call {self._number}"
        answer = self._wire.call(self._tool, {self._argument: text})
        if text not in answer:
            raise CallError(f"{answer[:100]!r} instead of {text!r}")


def main() -> None:
    """Do what stdin says."""
    signal.signal(signal.SIGALRM, ring)
    caller = Caller(*sys.argv[1:])
    try:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_done(caller, json.loads(line))) + "\n")
            sys.stdout.flush()
    finally:
        caller.close()


def _done(caller: Caller, order: dict[str, Any]) -> dict[str, Any]:
    """Carry out an order within its time; return what came of it."""
    limit = order.pop("within")
    try:
        with within(limit):
            done: dict[str, Any] = getattr(caller, order.pop("do"))(**order)
            return done
    except TimeoutError:
        caller.forget()
        return {"failed": f"no answer within {limit:.0f} s"}
    except (CallError, LostError, OSError, ValueError) as error:
        return {"failed": str(error) or type(error).__name__}


def ring(*_: object) -> None:
    """Raise `TimeoutError`: the handler of SIGALRM."""
    raise TimeoutError("nothing came in time")


if __name__ == "__main__":
    main()
