"""What a secret looks like: the shapes of known tokens, passwords in URLs, and names that secrets usually have.

The shapes are those that the services publish for scanners of secrets, so that a text that has one is hardly ever
anything else. What has no shape of its own is recognised by nobody, and is not looked for here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret: ``name`` is its word in ``exposed``, ``what`` what a person calls it.

    Only a text that has one of the ``hints``, in small letters, is compared with the ``pattern``; the secret is its
    group ``value``, or all of it.
    """

    name: str
    what: str
    hints: tuple[str, ...]
    pattern: str


def _token(name: str, what: str, hints: str, pattern: str) -> Shape:
    # A token ends where no further letter of it can follow, and is no part of a longer word.
    return Shape(name, what, tuple(hints.split()), rf"(?<![A-Za-z0-9_-])(?:{pattern})(?![A-Za-z0-9_-])")


#: Words with hyphens begin with the same letters.
_TWO_DIGITS = r"(?=[A-Za-z_-]*\d[A-Za-z_-]*\d)"
#: What a token of a service looks like; the first one that fits names what was found.
TOKENS: tuple[Shape, ...] = (
    _token(
        "github",
        "a token of GitHub",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}",
    ),
    _token("gitlab", "a token of GitLab", "gl", r"gl(?:pat|ptt|dt|rt|cbt|oas|soat|ft|imt|agent)-[A-Za-z0-9_=.-]{20,}"),
    _token(
        "slack", "a token of Slack", "xox xapp", r"xox[abeoprs]-(?:\d-)?[A-Za-z0-9-]{10,}|xapp-\d-[A-Za-z0-9-]{10,}"
    ),
    _token("anthropic", "a key of Anthropic", "sk-ant", r"sk-ant-[A-Za-z0-9_-]{20,}"),
    _token("openai", "a key of OpenAI or one like it", "sk-", _TWO_DIGITS + r"sk-[A-Za-z0-9_-]{20,}"),
    _token("aws", "a key of AWS", "akia asia", r"(?:AKIA|ASIA)[A-Z2-7]{16}"),
    _token(
        "google",
        "a key of Google",
        "aiza gocspx ya29",
        r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{20,}",
    ),
    _token("npm", "a token of npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi", "a token of PyPI", "pypi-", r"pypi-[A-Za-z0-9_-]{32,}"),
    _token(
        "stripe",
        "a key of Stripe",
        "_live_ _test_ whsec_",
        r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+]{32,}={0,2}",
    ),
    _token("huggingface", "a token of Hugging Face", "hf_", r"hf_[A-Za-z0-9]{30,}"),
    _token("jwt", "a JSON web token", "eyj", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    Shape("private-key", "a private key", ("private key",), r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----"),
)
#: What a secret is by its place. A secret of AWS has nothing that marks it but its company: the id of its key, or the
#: name of its variable.
_PLACED: tuple[Shape, ...] = (
    Shape(
        "url-password",
        "a URL with a password",
        ("://",),
        r"(?i:[a-z][a-z0-9+.-]*)://[^\s/?#:@]*:(?P<value>[^\s/?#@]+)@",
    ),
    Shape(
        "url-query",
        "a URL with a secret in its query",
        ("://",),
        r"(?i)[a-z][a-z0-9+.-]*://[^\s?#]*\?(?:[^\s#]*&)?"
        r"(?:access_token|api_?key|auth_token|client_secret|password|secret|sig|signature|token)=(?P<value>[^\s&#]{8,})",
    ),
    Shape(
        "authorization",
        "a header that authorises",
        ("authorization",),
        r"(?i)\bauthorization\s*[:=]\s*(?:(?:bearer|basic|token)\s+)?(?P<value>[^\s\"'$]{8,})",
    ),
)
_PAIRED: tuple[Shape, ...] = (
    Shape(
        "aws",
        "a secret key of AWS",
        ("akia", "asia"),
        r"(?<![A-Za-z0-9/+=])(?:AKIA|ASIA)[A-Z2-7]{16}[^A-Za-z0-9/+=]{1,4}(?P<value>[A-Za-z0-9/+=]{40})(?![A-Za-z0-9/+=])",
    ),
    Shape(
        "aws",
        "a secret key of AWS",
        ("aws",),
        r"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s*[:=]\s*[\"']?(?P<value>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
)
#: What stands in examples and in texts that are filled in later.
_PLACEHOLDER = r"(?i)[<{$*]|\.\.\.|…|^x+$|^(?:password|passwd|pass|pwd|secret|token|changeme)$"
_SECRET_NAME = (
    r"(?i)(?:^|_)(?:PAT|DSN)$|(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|SECRET_?KEY|PRIVATE_?KEY"
    r"|AUTH_?KEY|CONNECTION_?STRING)$"
)
#: The words that ``exposed`` may have, beside the names of stored secrets.
KINDS = tuple(shape.name for shape in (*TOKENS, *_PLACED))


@dataclass(frozen=True, slots=True)
class Found:
    """A secret in a text: ``kind`` is its word in ``exposed``, ``what`` what a person calls it, ``value`` itself."""

    kind: str
    what: str
    value: str

    def __repr__(self) -> str:
        return f"Found({self.kind!r})"


_AUTHORIZATION = ("authorization", "a header that authorises")


def find_secrets(text: str) -> Iterator[Found]:
    """Yield what looks like a secret in a text, each part of it once."""
    taken: list[tuple[int, int]] = []
    lower = text.lower()
    for shape in (*_PAIRED, *TOKENS, *_PLACED):
        if not any(hint in lower for hint in shape.hints):
            continue
        pattern = _compiled(shape.pattern)
        group = "value" if pattern.groups else 0
        for match in pattern.finditer(text):
            start, end = match.span(group)
            known = any(start < stop and begin < end for begin, stop in taken)
            if known or (shape in _PLACED and _compiled(_PLACEHOLDER).search(match[group])):
                continue
            taken.append((start, end))
            yield Found(shape.name, shape.what, match[group])


def conceal(text: str, mask: str) -> str:
    """Return a text with a mask in the place of everything in it that looks like a secret."""
    for found in find_secrets(text):
        text = text.replace(found.value, mask)
    return text


def sounds_secret(name: str) -> bool:
    """Return whether a variable of that name usually holds a secret."""
    return _compiled(_SECRET_NAME).search(name) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern ready for use: most configurations need none of them, and all take longer than the rest."""
    return re.compile(pattern, re.ASCII)
