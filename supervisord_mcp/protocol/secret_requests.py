"""What commands ask of the daemon about secrets; a value never travels here, it is in its source."""

from __future__ import annotations

import msgspec


class SecretChanged(msgspec.Struct, frozen=True, kw_only=True):
    """Secrets have new values: restart the instances that were given the old ones. Answer: `SecretChangedResult`.

    ``secrets`` are references as entries write them (``vault:github``). With ``only_failed`` they are new, so that
    only instances that gave up without them are started.
    """

    secrets: tuple[str, ...]
    only_failed: bool = False


class SecretCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Try to read the secrets that servers are granted, of all if no names are given. Answer: `SecretCheckResult`."""

    names: tuple[str, ...] = ()


class SecretUnlock(msgspec.Struct, frozen=True, kw_only=True):
    """Open the vault for as long as the daemon lives, and start again what gave up without it.

    Answer: `SecretChangedResult`.
    """

    passphrase: str

    def __repr__(self) -> str:
        return "SecretUnlock()"


class SecretChangedResult(msgspec.Struct, frozen=True, kw_only=True):
    """The servers that were restarted."""

    restarted: tuple[str, ...] = ()


class GrantCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one grant can be read now; if not, what a person reads about it."""

    server: str
    variable: str
    secret: str
    problem: str = ""
    remedy: str = ""


class SecretCheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """Every grant, in the order of servers and variables."""

    grants: tuple[GrantCheck, ...] = ()
