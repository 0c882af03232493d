"""How a secret is named in a configuration: ``SOURCE:NAME``, never its value.

vault:NAME            the file of smcp itself, encrypted
keyring:NAME          the keyring of the system, what ``smcp secret set keyring:NAME`` put there
keyring:SERVICE/USER  the same, what another program put there
file:PATH             the content of a file that only its owner can read, without the newline at its end
env:NAME              a variable of the daemon's environment
command:WORDS         what a program prints; split like in a shell, but run without one
systemd:NAME          a credential that systemd gives to the daemon (``$CREDENTIALS_DIRECTORY``)
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

#: Every source, in the order in which a person would think of them.
SOURCES: Final = ("vault", "keyring", "file", "env", "command", "systemd")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}", re.ASCII)
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LONGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class SecretReference:
    """Where a secret is: a source, and what it is called there."""

    source: str
    name: str

    def __str__(self) -> str:
        return f"{self.source}:{self.name}"


def parse_reference(text: str) -> SecretReference:
    """Given SOURCE:NAME, return what it names. Raise `ValueError`, which does not quote it: it could be the secret."""
    source, colon, name = text.partition(":")
    if not colon or source not in SOURCES:
        raise ValueError(
            f'names no source; write "SOURCE:NAME" with one of {", ".join(SOURCES)}; a secret itself is stored with'
            " smcp secret set NAME, and named here as vault:NAME"
        )
    if len(name) > _LONGEST or any(ord(character) < 32 or ord(character) == 127 for character in name):
        raise ValueError(f"{source}: the name is too long, or has control characters")
    check = {"file": _file, "env": _env, "command": _command, "keyring": _keyring}.get(source, _plain)
    check(source, name)
    return SecretReference(source, name)


def command_words(name: str) -> tuple[str, ...]:
    """Given the name of a secret of the source ``command``, return the words of the command."""
    return tuple(shlex.split(name))


def check_reference(text: str) -> str:
    """Return the text. Raise `ValueError` where it names no secret."""
    parse_reference(text)
    return text


def check_stored_name(name: str) -> str:
    """Return the name. Raise `ValueError` where the vault cannot hold a secret of that name."""
    _plain("vault", name)
    return name


def _plain(source: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"{source}: a name has 1 to 128 letters, digits, '.', '_', '@', '+' or '-', and begins with a letter or a"
            " digit"
        )


def _keyring(source: str, name: str) -> None:
    service, slash, user = name.partition("/")
    if not service or (slash and not user):
        raise ValueError(f"{source}: write {source}:NAME, or {source}:SERVICE/USER for what another program put there")


def _file(source: str, name: str) -> None:
    if not name.startswith(("/", "~/")):
        raise ValueError(f"{source}: a path is absolute, or begins with ~/")


def _env(source: str, name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{source}: not a name of an environment variable")


def _command(source: str, name: str) -> None:
    try:
        words = command_words(name)
    except ValueError as error:
        raise ValueError(f"{source}: cannot be split into words: {str(error).lower()}") from None
    if not words or not words[0]:
        raise ValueError(f"{source}: there is no command to run")
