"""Time as the multiplexer has it: it asks to be woken, and is woken (protocol.md 6.5, 6.10).

Nothing here reads a clock. What is to be done later is kept under a number; the command `Alarm` asks the world to say
that number again after some seconds, and a number that nobody waits for any more is ignored.
"""

from __future__ import annotations

from collections.abc import Callable

from supervisord_mcp.protocol.commands import Alarm, Command

#: What is done when the time has come.
Act = Callable[[], list[Command]]


class Alarms:
    """Everything that one instance's conversation waits for by the clock."""

    def __init__(self) -> None:
        self._last = 0
        self._waiting: dict[int, Act] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def after(self, seconds: float, act: Act) -> Alarm:
        """Note what to do after so many seconds; return the command that asks for it."""
        self._last += 1
        self._waiting[self._last] = act
        return Alarm(self._last, seconds)

    def forget(self, alarm: Alarm | None) -> None:
        """What an alarm was set for is not needed any more; None is no alarm."""
        if alarm is not None:
            self._waiting.pop(alarm.serial, None)

    def rang(self, serial: int) -> list[Command]:
        """The time of an alarm has come."""
        act = self._waiting.pop(serial, None)
        return [] if act is None else act()
