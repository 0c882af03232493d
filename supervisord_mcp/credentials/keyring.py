"""The keyring of the system through the ``keyring`` package: Secret Service, KWallet, macOS.

The package is imported on use: it takes time and memory, and most daemons never ask it. Its calls block for as long as
a person thinks about a prompt, so all of them go through `base.within`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from supervisord_mcp.credentials.base import PATIENCE, Source, checked, within
from supervisord_mcp.errors import SecretError

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

T = TypeVar("T")

#: The service under which our own entries are in a keyring.
SERVICE: Final = "smcp"
#: The part of the package that holds the keyrings of systems, and those of its parts that are none.
_REAL: Final = "keyring.backends."
_NONE: Final = ("keyring.backends.fail", "keyring.backends.null")
_LOCKED: Final = "Unlock it (log in, or open it in its program), then start the server again."


class KeyringSource(Source):
    """Reads, and for ``smcp secret`` writes, entries of the person's keyring."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._seconds = seconds

    def read(self, name: str) -> str:
        """Return an entry. Raise `SecretError` where there is none, or no keyring, or a locked one."""
        service, user = _place(name)
        value = self._ask(lambda backend: backend.get_password(service, user))
        if value is None:
            raise SecretError(
                f"the keyring has no entry {user!r} of {service!r}", remedy=f"Store it: smcp secret set keyring:{name}"
            )
        return checked(value)

    def has(self, name: str) -> bool:
        """Return whether there is such an entry. Raise as `read` does."""
        service, user = _place(name)
        return self._ask(lambda backend: backend.get_password(service, user)) is not None

    def put(self, name: str, value: str) -> None:
        """Store an entry. Raise `SecretError` where the keyring does not take it."""
        service, user = _place(name)
        self._ask(lambda backend: backend.set_password(service, user, value))

    def remove(self, name: str) -> None:
        """Remove an entry. Raise `SecretError` where there is none."""
        service, user = _place(name)
        if not self.has(name):
            raise SecretError(f"the keyring has no entry {user!r} of {service!r}")
        self._ask(lambda backend: backend.delete_password(service, user))

    @property
    def available(self) -> bool:
        """Whether there is a keyring of the system, which encrypts what it is given."""
        try:
            return within(lambda: type(_backend()).__module__.startswith(_REAL), self._seconds)
        except SecretError:
            return False

    def _ask(self, question: Callable[[KeyringBackend], T]) -> T:
        return within(lambda: _asked(question), self._seconds)


def _asked(question: Callable[[KeyringBackend], T]) -> T:
    from keyring.errors import InitError, KeyringLocked

    backend = _backend()
    try:
        return question(backend)
    except KeyringLocked:
        raise SecretError("the keyring is locked", remedy=_LOCKED) from None
    except InitError:
        raise SecretError("the keyring cannot be opened", remedy=_LOCKED) from None
    except Exception as error:  # noqa: BLE001 - every keyring has errors of its own, and what they quote nobody knows
        kind = type(error)
        what = f"{kind.__module__}.{kind.__qualname__}"
        raise SecretError(f"the keyring failed ({what})", remedy="Look whether its service runs.") from None


def _backend() -> KeyringBackend:
    import keyring.core

    try:
        found = keyring.core.get_keyring()
        if type(found).__module__ in _NONE:
            # None when we looked last; one that was started since is found now.
            keyring.core.init_backend()
            found = keyring.core.get_keyring()
    except Exception as error:  # noqa: BLE001 - a person may name any module as their keyring
        raise SecretError(
            f"the keyring that is set up cannot be used: {error}",
            remedy="Correct PYTHON_KEYRING_BACKEND or keyringrc.cfg of the package keyring.",
        ) from None
    if type(found).__module__ in _NONE:
        raise SecretError(
            "there is no keyring on this machine, or the daemon cannot reach it",
            remedy="Start one and the D-Bus session before the daemon, or use the vault: smcp secret set NAME",
        )
    return found


def _place(name: str) -> tuple[str, str]:
    service, slash, user = name.partition("/")
    return (service, user) if slash else (SERVICE, name)
