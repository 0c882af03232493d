"""Secrets that stand where others can read them: refused in a command, worth a warning in ``env``.

The words of a command can be read by every user of the machine for as long as the process lives, and URLs end up in
logs and histories. A file of the configuration is the person's own, so what stands in ``env`` is no fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from supervisord_mcp.config.container import package_command
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.references import command_words, parse_reference
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.config.variables import Reference, parse
from supervisord_mcp.policy.tokens import find_secrets, sounds_secret

_OPTION = re.compile(r"--?([A-Za-z][A-Za-z0-9_-]*)(?:=(.*))?", re.ASCII | re.DOTALL)
#: Given a word of a command and the part of it that an option calls a secret (or nothing), returns the names of the
#: stored secrets whose values are in it.
Known = Callable[[str, str], Iterable[str]]
_KEEP = 'keep it with "smcp secret set NAME" and grant it: credentials = { VARIABLE = "vault:NAME" }'


def nothing_known(_text: str, _told: str) -> Iterable[str]:
    """No secret is stored."""
    return ()


def words_of(server: ServerConfig) -> Iterator[tuple[KeyPath, str]]:
    """Yield the words of a server's command with their keys, in the order of `ServerConfig.argv`."""
    if server.package is not None:
        yield from ((("package",), text) for text in package_command(server.package))
    yield from ((("command", n), text) for n, text in enumerate(server.command))
    yield from ((("args", n), text) for n, text in enumerate(server.args))


def commands_of(server: ServerConfig) -> Iterator[Iterable[tuple[KeyPath, str]]]:
    """Yield the words of every command that an entry has: the server's own, and those that print its secrets."""
    yield words_of(server)
    for variable, text in server.credentials.items():
        reference = parse_reference(text)
        if reference.source == "command":
            yield [(("credentials", variable), word) for word in command_words(reference.name)]


def exposures(
    server: ServerConfig, words: Iterable[tuple[KeyPath, str]], known: Known = nothing_known
) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key and the fault of every word that shows a secret, unless the entry allows it by name.

    ``words`` are those of a command, as they are written or with their variables replaced. No fault has the secret.
    """
    option = ""
    for path, text in words:
        called, value, option = _option_and_value(option, text)
        told = value if sounds_secret(called.replace("-", "_")) else ""
        found = [(secret.kind, secret.what) for secret in find_secrets(text)]
        found += [(name, f"the value of the secret {name}") for name in sorted(known(text, told))]
        # What is known by its name is told by that alone.
        named = [one for one in found if ":" in one[0]] or found
        if allowed := [kind for kind, _ in found if kind in server.exposed]:
            named = [one for one in named if ":" not in one[0] and one[0] not in allowed]
        for kind, what in dict.fromkeys(named):
            yield (
                path,
                (
                    f"shows {what} to every user of this machine, who can read the words of a command; {_KEEP}."
                    f' If it must stand here: exposed = ["{kind}"]'
                ),
            )


def plain_secrets(server: ServerConfig) -> Iterator[tuple[KeyPath, str]]:
    """Yield the key of everything that may be a secret in plain text and is not refused, and what to do about it.

    That is what stands in ``env``, and what follows an option that usually takes a secret.
    """
    for name, text in server.env.items():
        secret = next(find_secrets(text), None)
        if secret is not None or (_is_literal(text) and sounds_secret(name)):
            what = "a secret, by its name" if secret is None else secret.what
            yield ("env", name), f"holds {what}, in plain text; {_KEEP.replace('VARIABLE', name)}"
    option = ""
    for path, text in words_of(server):
        called, value, option = _option_and_value(option, text)
        if _is_literal(value) and sounds_secret(called.replace("-", "_")) and next(find_secrets(text), None) is None:
            yield path, f"may be a secret, after --{called}, and every user can read it; {_KEEP}"


def _option_and_value(before: str, word: str) -> tuple[str, str, str]:
    """Given the option that the last word was, return that of a word, its value, and the next ``before``."""
    match = _OPTION.fullmatch(word)
    if match is None:
        return before, word, ""
    return match[1], match[2] or "", match[1] if match[2] is None else ""


def _is_literal(text: str) -> bool:
    return bool(text) and not any(isinstance(part, Reference) for part in parse(text))
