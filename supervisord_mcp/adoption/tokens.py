"""Which texts in the file of a host are secrets that should not stand there in the open.

Too many is better than too few: what is moved to the vault still reaches its server, and what is shown is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from supervisord_mcp.policy.tokens import find_secrets, sounds_secret

#: What stands where a person was meant to write something, and what only leads to a secret.
_NO_VALUE = re.compile(
    r"<.*>|\[.*\]|your[_-]|^x+$|\.\.\.|changeme|placeholder|^\*+$|^(?:true|false|null|none|\d{1,5})$|^[/~.]|^\$\{[^{}:]*\}$",
    re.IGNORECASE,
)
#: ``--token``; with a value behind an equals sign also ``TOKEN``, as engines are told variables.
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)")
_NAMED = re.compile(r"(?:--?)?([A-Za-z][A-Za-z0-9_-]*)")
#: Options that say who somebody is, in words that are no names of variables.
_CREDENTIALS = re.compile(r"auth|bearer|pass|pwd|pw|db-?pass|passphrase", re.IGNORECASE)
_HEADER = re.compile(r"([A-Za-z][A-Za-z-]*):\s*(\S.*)", re.DOTALL)
#: An assignment in the text of a shell, and a pair of a text of JSON.
_INSIDE = re.compile(
    r"(?:^|[\s;&])([A-Za-z_][A-Za-z0-9_]*)=([^\s;&\"'$][^\s;&\"']*)|\"([A-Za-z0-9_-]+)\"\s*:\s*\"([^\"]+)\""
)


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
        before = _OPTION.fullmatch(words[number - 1]) if number else None
        follows = before is not None and not word.startswith("-") and _is_given(before[1], word)
        if follows or has_token(word) or _names_secret(word):
            yield number


def _names_secret(word: str) -> bool:
    """Return whether a word says itself that there is a secret in it."""
    name, equals, value = word.partition("=")
    if equals and (named := _NAMED.fullmatch(name)) and (name.startswith("-") or not re.search(r"\s", value)):
        return _is_given(named[1], value)
    if header := _HEADER.fullmatch(word):
        return is_secret(header[1], header[2])
    return any(is_secret(pair[1] or pair[3], pair[2] or pair[4]) for pair in _INSIDE.finditer(word))


def _is_given(option: str, value: str) -> bool:
    """Return whether the value of an option is a secret."""
    if is_secret(option, value):
        return True
    return bool(value and _CREDENTIALS.fullmatch(option) and not _NO_VALUE.search(value))
