"""Which texts in the file of a host are secrets that should not stand there in the open.

Too many is better than too few: what is moved to the vault still reaches its server, and what is shown is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from supervisord_mcp.policy.tokens import find_secrets, sounds_secret

#: What stands where a person was meant to write something, and what only leads to a secret.
_NO_VALUE = re.compile(
    r"<.*>|\[.*\]|your[_-]|^x+$|\.\.\.|changeme|placeholder|^\*+$|^(?:true|false|null|none|\d{1,5})$|^[/~.]",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)")


def is_secret(name: str, value: str) -> bool:
    """Given the name of a variable or an option and its plain value, return whether that is a secret."""
    if has_token(value):
        return True
    return bool(value) and sounds_secret(name.replace("-", "_")) and not _NO_VALUE.search(value)


def has_token(text: str) -> bool:
    """Return whether a text has something in it with the shape of a secret."""
    return next(find_secrets(text), None) is not None


def secrets_in(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of plain values that are secrets."""
    return {name: value for name, value in env.items() if is_secret(name, value)}


def secret_words(words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of the words of a command that hold a secret; every user of the machine can read them."""
    for number, word in enumerate(words):
        option, equals, value = word.partition("=")
        before = _OPTION.fullmatch(words[number - 1]) if number else None
        named = _OPTION.fullmatch(option) if equals else None
        if named:
            found = is_secret(named[1], value)
        else:
            found = has_token(word) or bool(before and not word.startswith("-") and is_secret(before[1], word))
        if found:
            yield number
