"""What a new configuration means for what runs: the difference of two mappings from names to frozen values.

The values are compared, not the files they came from, so a file that was only formatted anew, or saved five times,
changes nothing; and what did not change is named too, since leaving it alone is the point of a reload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """The names in each case: removed ones in the order of the old configuration, all others in that of the new."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.added or self.removed or self.changed)


def diff(old: Mapping[str, object], new: Mapping[str, object]) -> Plan:
    """Given what is in force and what shall be, return what to start, stop, restart and leave alone."""
    kept = [name for name in new if name in old]
    changed = tuple(name for name in kept if old[name] != new[name])
    return Plan(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=changed,
        unchanged=tuple(name for name in kept if name not in changed),
    )
