"""What an entry shows once its variables are replaced: refused where others could read it, and masked from then on."""

from __future__ import annotations

import logging

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.exposure import exposures, words_of
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import ResolvedServer
from supervisord_mcp.credentials.base import within
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.credentials.vault import Vault
from supervisord_mcp.errors import ConfigError, SecretError
from supervisord_mcp.policy.tokens import find_secrets, sounds_secret

_log = logging.getLogger(__name__)

#: How long a vault is waited for where it is only a help, in seconds.
_KEY_SECONDS = 5.0


def stored_in(text: str, told: str = "") -> frozenset[str]:
    """Return the names of the secrets from any source, SOURCE:NAME, whose values are in a text.

    ``told`` is the part of it that is called a secret: an ordinary word counts only there, and only as all of it.
    """
    return frozenset(name for name in masker.names_telling(text) | masker.names_of(told) if ":" in name)


def learn_stored(vault: Vault) -> None:
    """Let no text show what is stored, whoever is granted it; a vault that is locked keeps its secrets to itself.

    May block for as long as the vault's key takes, but not for ever.
    """
    try:
        for name, value in within(vault.values, _KEY_SECONDS).items():
            masker.learn(value, f"vault:{name}")
    except SecretError as error:
        _log.debug("what is stored cannot be looked for in texts until it is used: %s", error)


def check_command(name: str, server: ServerConfig, done: ResolvedServer, origin: Origin) -> None:
    """Given a server with what it comes to in a session, let no log show the secrets that are in it.

    Raise `ConfigError` for a word of its command that shows one which the entry does not allow there.
    """
    for variable, value in done.env:
        if sounds_secret(variable):
            masker.learn(value, variable)
        for found in find_secrets(value):
            masker.learn(found.value, variable)
    for word in done.argv:
        for found in find_secrets(word):
            masker.learn(found.value, f"a word of the command of {name}")
    words = [(path, word) for (path, _), word in zip(words_of(server), done.argv, strict=True)]
    if problems := tuple(origin.problem(name, path, text) for path, text in exposures(server, words, stored_in)):
        raise ConfigError(problems)
