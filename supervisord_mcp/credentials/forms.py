"""In which forms a secret may turn up in a text: as it is, in base64, in a URL, in JSON, in the words of a program."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

#: A shorter value is not masked, in bytes: it would turn up everywhere by chance, and guessing it is easier than
#: finding it in a log.
MIN_LENGTH = 6
#: A line of a secret of several lines is a secret of its own from this length on, in bytes: logs are cut into lines.
LONG_LINE = 16
#: A longer value (a key with its certificates, say) is a file: it is looked for as such and in JSON and base64, but not
#: in all the forms of a word, in bytes.
LONG_VALUE = 4096
#: A shorter value that consists of words may be in any text by chance, in bytes.
LONG_WORDS = 16
#: More digits than that after a word are no version and no number of a copy.
_FEW_DIGITS = 3
_BETWEEN_WORDS = re.compile(r"[-_./:@ ]+")
#: What ``encodeURIComponent`` leaves as it is, beside letters and digits.
_COMPONENT = "-_.!~*'()"
_ESCAPED = re.compile(r"%[0-9A-F]{2}")


def forms(value: str) -> frozenset[bytes]:
    """Return every form in which a value is looked for; none for one that is too short. Blanks around it are none."""
    value = value.strip()
    if len(_bytes(value)) < MIN_LENGTH:
        return frozenset()
    found = {form for form in _forms(value) if len(form) >= MIN_LENGTH}
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        found |= {_bytes(line) for line in lines if len(_bytes(line)) >= LONG_LINE and not line.startswith("-----")}
    return frozenset(found)


def is_ordinary(value: str) -> bool:
    """Return whether a value is a word, a few of them or a number, such as ``postgres``: no proof that it was told.

    Where it stands in a text, it hardly ever comes from the secret. So it is masked in texts, but no command is refused
    for it unless an option says that it is a secret, and no name, state or key is taken for it.
    """
    value = value.strip()
    return len(_bytes(value)) < LONG_WORDS and all(map(_is_word, _BETWEEN_WORDS.split(value)))


def weakness(value: str) -> str:
    """Return what a person should know of a value that cannot be protected like others; nothing for a good one."""
    if not forms(value):
        return f"It has fewer than {MIN_LENGTH} bytes: it is not masked, and not looked for in commands."
    if is_ordinary(value):
        return (
            "It is an ordinary word or number: it is masked in every log and error, also where the word means something"
            " else, and refused in commands only after an option like --password."
        )
    return ""


def _is_word(text: str) -> bool:
    letters = text.rstrip("0123456789")
    if not letters:
        return True
    plain = letters.isalpha() and letters in (letters.lower(), letters.upper(), letters.title())
    return plain and len(text) - len(letters) <= _FEW_DIGITS


def _forms(value: str) -> Iterator[bytes]:
    plain = _bytes(value)
    yield plain
    if len(plain) > LONG_VALUE:
        yield from (base64.b64encode(plain).rstrip(b"=")[:-1], _bytes(json.dumps(value)[1:-1]))
        return
    yield plain.replace(b"\n", b"\r\n")
    yield from _base64(plain)
    for text in (*_urls(value), *_texts(value)):
        yield _bytes(text)


def _base64(plain: bytes) -> Iterator[bytes]:
    """Yield the digits that depend on nothing but the value, for each of the three places where it may begin."""
    for before in range(3):
        digits = base64.b64encode(bytes(before) + plain)[(0, 2, 3)[before] : (before + len(plain)) * 8 // 6]
        yield digits
        yield digits.translate(bytes.maketrans(b"+/", b"-_"))


def _urls(value: str) -> Iterator[str]:
    kept = ("", "/", _COMPONENT)
    for text in (*(quote(value, safe=safe, errors="surrogatepass") for safe in kept), quote_plus(_bytes(value))):
        yield text
        yield _ESCAPED.sub(lambda match: match[0].lower(), text)


def _texts(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield once.replace("/", "\\/")
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]  # a message that is logged as JSON
    yield repr(value)[1:-1]
    yield repr(_bytes(value))[2:-1]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
