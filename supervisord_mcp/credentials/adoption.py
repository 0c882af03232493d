"""Plain secrets that were found in files of hosts, moved into the vault without asking anybody."""

from __future__ import annotations

import itertools
import re

from supervisord_mcp.credentials.vault import Vault


def adopt_secret(vault: Vault, name: str, value: str) -> str:
    """Store a value and return its reference, ``vault:NAME``; the same value under the same name is stored once.

    A vault is made where there is none, with a key in the keyring of the system or else in a file: nobody is asked for
    a passphrase. Raise `SecretTakenError` where the name stands for another value (`free_name` finds one that does
    not), and `SecretError` where the value cannot be stored.
    """
    vault.put(name, value)
    return f"vault:{name}"


def free_name(vault: Vault, name: str, value: str) -> str:
    """Return the first of NAME, NAME-2, NAME-3 … that is free or stands for this value, in letters the vault allows.

    Raise `SecretError` where the vault cannot be read.
    """
    base = re.sub(r"[^A-Za-z0-9._@+-]+", "-", name).lstrip("._@+-")[:100] or "secret"
    values = vault.values()
    candidates = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
    return next(candidate for candidate in candidates if values.get(candidate, value) == value)
