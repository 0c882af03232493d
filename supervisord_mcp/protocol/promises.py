"""What a legacy host was told that its server offers, compared with what a later child does (protocol.md 6.8 step 4).

Such a host is told once, in the answer to `initialize`, and cannot ask again on the same session. So where a child
offers less, the session ends, and the host is told the truth when it connects anew; what came in addition does no harm.

6.8 also names a change of the era. Here that alone ends nothing: which revision a host was told is agreed on with the
daemon, which goes on speaking it whatever the child speaks (6.4), so that of a child of the other era, or of another
revision, a host can miss nothing but capabilities. Hosts of the modern era are not bound to what they were told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def lacking(told: Mapping[str, Any], offered: Mapping[str, Any]) -> tuple[str, ...]:
    """Given two sets of capabilities in words of one revision, return what the second one lacks, by dotted names.

    An object stands for itself and for every member that is not false; other values are details of no promise.
    """
    missing: list[str] = []
    for name, value in told.items():
        now = offered.get(name)
        if not _holds(value):
            continue
        if not _holds(now):
            missing.append(name)
        elif isinstance(value, Mapping):
            missing += [f"{name}.{one}" for one in lacking(value, now if isinstance(now, Mapping) else {})]
    return tuple(missing)


def _holds(value: Any) -> bool:
    """Whether a capability is there: an empty object is one, what is false or null is none."""
    return value is not None and value is not False
