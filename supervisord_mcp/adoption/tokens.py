"""Which texts in the file of a host are secrets that should not stand there in the open.

A variable whose name says so, or a value with the shape of a token. Too many is better than too few: what is moved to
the vault still reaches its server, and what is shown is masked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import parse_qsl, urlsplit

_NAMES = re.compile(
    r"(?:^|[_-])(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|AUTH|AUTHORIZATION|CREDENTIALS?|BEARER|COOKIE"
    r"|(?:API|ACCESS|PRIVATE|SIGNING|ENCRYPTION|SERVICE|ACCOUNT|CLIENT|SECRET|SUBSCRIPTION|LICENSE|AUTH)[_-]?KEY|APIKEY"
    r"|KEY|DSN)(?:$|[_-]?\d*$)",
    re.IGNORECASE,
)
#: Names that look like one of a secret and are none.
_INNOCENT = re.compile(
    r"[_-](?:FILE|PATH|DIR|URL|HOST|PORT|USER|NAME|ID|TYPE|LIMIT|COUNT)$|(?:^|[_-])(?:MAX|PUBLIC)[_-]", re.IGNORECASE
)
#: Tokens that say by their first letters whose they are; the lengths are below those of real ones.
_SHAPES = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abposr]-[A-Za-z0-9-]{10,}"
    r"|xapp-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16}"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{20,}|hf_[A-Za-z0-9]{20,}"
    r"|ntn_[A-Za-z0-9]{20,}|secret_[A-Za-z0-9]{30,}|lin_api_[A-Za-z0-9]{20,}|dop_v1_[a-f0-9]{40,}|SG\.[A-Za-z0-9_.-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r")"
)
#: What stands where a person was meant to write something.
_PLACEHOLDER = re.compile(
    r"<.*>|\[.*\]|your[_-]|xxx|\.\.\.|changeme|example|placeholder|^\*+$|^(true|false|null|none|\d{1,5})$",
    re.IGNORECASE,
)
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)")


def is_secret(name: str, value: str) -> bool:
    """Given the name of a variable or an option and its plain value, return whether that is a secret."""
    if has_token(value):
        return True
    if not value or _PLACEHOLDER.search(value) or value.startswith(("/", "~", "./")):
        return False
    return bool(_NAMES.search(name)) and not _INNOCENT.search(name)


def has_token(text: str) -> bool:
    """Return whether a text has something with the shape of a token in it, or a password in an address."""
    if _SHAPES.search(text):
        return True
    if "://" not in text:
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    if parts.password and not _PLACEHOLDER.search(parts.password):
        return True
    return any(is_secret(name, value) for name, value in parse_qsl(parts.query))


def secrets_in(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of plain values that are secrets."""
    return {name: value for name, value in env.items() if is_secret(name, value)}


def secret_words(words: Sequence[str]) -> Iterator[int]:
    """Yield the positions of the words of a command that hold a secret; every user of the machine can read them."""
    for number, word in enumerate(words):
        option, equals, value = word.partition("=")
        before = _OPTION.fullmatch(words[number - 1]) if number else None
        named = _OPTION.fullmatch(option)
        if equals and named:
            if is_secret(named[1], value):
                yield number
        elif has_token(word) or (before and not word.startswith("-") and is_secret(before[1], word)):
            yield number
