"""What a secret looks like: the shapes of known tokens, passwords in URLs, and names that secrets usually have.

The shapes are those that the services publish for scanners of secrets, so that a text that has one is hardly ever
anything else. What has no shape of its own is recognised by nobody, and is not looked for here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of token: ``name`` is its word in ``exposed``, ``what`` what a person calls it."""

    name: str
    what: str
    pattern: re.Pattern[str]


def _shape(name: str, what: str, pattern: str) -> Shape:
    # A token ends where no further letter of it can follow, and is no part of a longer word.
    return Shape(name, what, re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})(?![A-Za-z0-9_-])", re.ASCII))


#: Words with hyphens begin with the same letters.
_TWO_DIGITS = r"(?=[A-Za-z_-]*\d[A-Za-z_-]*\d)"
#: The first one that fits names what was found.
SHAPES: tuple[Shape, ...] = (
    _shape("github", "a token of GitHub", r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}"),
    _shape("gitlab", "a token of GitLab", r"gl(?:pat|ptt|dt|rt|cbt|oas|soat|ft|imt|agent)-[A-Za-z0-9_=.-]{20,}"),
    _shape("slack", "a token of Slack", r"xox[abeoprs]-(?:\d-)?[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"),
    _shape("anthropic", "a key of Anthropic", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _shape("openai", "a key of OpenAI or one like it", _TWO_DIGITS + r"sk-[A-Za-z0-9_-]{20,}"),
    _shape("aws", "a key of AWS", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    _shape("google", "a key of Google", r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,}"),
    _shape("npm", "a token of npm", r"npm_[A-Za-z0-9]{36}"),
    _shape("pypi", "a token of PyPI", r"pypi-[A-Za-z0-9_-]{32,}"),
    _shape("stripe", "a key of Stripe", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+]{32,}={0,2}"),
    _shape("huggingface", "a token of Hugging Face", r"hf_[A-Za-z0-9]{30,}"),
    _shape("jwt", "a JSON web token", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    Shape("private-key", "a private key", re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----")),
)
#: A secret of AWS has nothing that marks it but its company: the id of its key, or the name of its variable.
_AWS_SECRET = re.compile(
    r"(?<![A-Za-z0-9/+=])(?:AKIA|ASIA)[A-Z2-7]{16}[^A-Za-z0-9/+=]{1,4}([A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])"
    r"|(?i:aws_?secret_?(?:access_?)?key)[\"']?\s*[:=]\s*[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    re.ASCII,
)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?P<user>[^\s/?#:@]*):(?P<password>[^\s/?#@]+)@", re.ASCII | re.IGNORECASE)
_QUERY = re.compile(
    r"[a-z][a-z0-9+.-]*://[^\s?#]*\?(?:[^\s#]*&)?"
    r"(?P<name>access_token|api_?key|apikey|auth_token|client_secret|password|secret|sig|signature|token)"
    r"=(?P<value>[^\s&#]{8,})",
    re.ASCII | re.IGNORECASE,
)
_HEADER = re.compile(r"\bauthorization\s*[:=]\s*(?:(?:bearer|basic|token)\s+)?(?P<value>[^\s\"'$]{8,})", re.IGNORECASE)
#: What stands in examples and in texts that are filled in later.
_PLACEHOLDER = re.compile(r"[<{$*]|\.\.\.|…|^x+$|^(?:password|passwd|pass|pwd|secret|token|changeme)$", re.IGNORECASE)
_SECRET_NAME = re.compile(
    r"(?:^|_)(?:PAT|DSN)$|(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY"
    r"|AUTH_?KEY|CONNECTION_?STRING)$",
    re.ASCII | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Found:
    """A secret in a text: ``kind`` is its word in ``exposed``, ``what`` what a person calls it, ``value`` itself."""

    kind: str
    what: str
    value: str

    def __repr__(self) -> str:
        return f"Found({self.kind!r})"


_AUTHORIZATION = ("authorization", "a header that authorises")
#: The words that ``exposed`` may have, beside the names of stored secrets.
KINDS = (*(shape.name for shape in SHAPES), "url-password", "url-query", "authorization")


def find_secrets(text: str) -> Iterator[Found]:
    """Yield what looks like a secret in a text, each part of it once."""
    taken: list[tuple[int, int]] = []
    for shape, match, group in _matches(text):
        start, end = match.span(group)
        if any(start < stop and begin < end for begin, stop in taken):
            continue
        taken.append((start, end))
        yield Found(shape[0], shape[1], match[group])


def conceal(text: str, mask: str) -> str:
    """Return a text with a mask in the place of everything in it that looks like a secret."""
    for found in find_secrets(text):
        text = text.replace(found.value, mask)
    return text


def sounds_secret(name: str) -> bool:
    """Return whether a variable of that name usually holds a secret."""
    return _SECRET_NAME.search(name) is not None


def _matches(text: str) -> Iterator[tuple[tuple[str, str], re.Match[str], int | str]]:
    for match in _AWS_SECRET.finditer(text):
        yield ("aws", "a secret key of AWS"), match, 1 if match[1] else 2
    for shape in SHAPES:
        for match in shape.pattern.finditer(text):
            yield (shape.name, shape.what), match, 0
    for match in _URL.finditer(text):
        if not _PLACEHOLDER.search(match["password"]):
            yield ("url-password", "a URL with a password"), match, "password"
    for pattern, kind in ((_QUERY, ("url-query", "a URL with a secret in its query")), (_HEADER, _AUTHORIZATION)):
        for match in pattern.finditer(text):
            if not _PLACEHOLDER.search(match["value"]):
                yield kind, match, "value"
