"""How an environment is shown in a command line to paste: by name, so that no secret is in it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

# Variables of the documented base environment: their values say nothing that is worth hiding.
_PLAIN = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR"})


def environment_words(env: Iterable[tuple[str, str]]) -> list[str]:
    """Return NAME=value for the base environment, and NAME="$NAME" for all else: the person's shell has the value."""
    words = []
    for name, value in env:
        plain = name in _PLAIN or name.startswith("LC_")
        words.append(f"{name}={shlex.quote(value)}" if plain else f'{name}="${name}"')
    return words
