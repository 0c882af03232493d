"""The vault: secrets in one encrypted file of smcp itself, for machines with and without a desktop.

The file is replaced in one step while a lock is held, and is read anew each time: commands and the daemon need not talk
to each other about it. What cannot be read is never written over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.config.files import locked, read_file, replace_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.references import check_stored_name
from supervisord_mcp.credentials.base import Source, checked
from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.credentials.vault_file import KeyKind, KeyPlace, Sealed, Stored, derive, parse, seal, unseal
from supervisord_mcp.credentials.vault_key import Keys
from supervisord_mcp.errors import SecretError, SecretTakenError

#: What a change makes of the secrets that are there; raises `SecretError` to change nothing.
Change = Callable[[dict[str, Stored]], dict[str, Stored]]


@dataclass(frozen=True, slots=True)
class Protection:
    """What protects a vault: the kind of its key, and what that is good for, for a person."""

    kind: KeyKind
    text: str


@dataclass(frozen=True, slots=True)
class NewKey:
    """Which key a vault is to have; without a kind the best that the machine offers."""

    kind: KeyKind | None = None
    passphrase: str | None = None


class Vault(Source):
    """The vault of one person. One object may serve several threads."""

    def __init__(self, paths: Paths, environ: Mapping[str, str], keyring: KeyringSource | None = None) -> None:
        self._file = paths.vault_file
        self._lock = paths.vault_lock
        self._keys = Keys(paths.state_dir, environ, keyring)

    def read(self, name: str) -> str:
        """Return a secret. Raise `SecretError` where there is none of that name, or the vault is locked or damaged."""
        stored = self.stored()
        if name not in stored:
            raise SecretError(f"the vault has no secret {name!r}", remedy=f"Store it: smcp secret set {name}")
        return stored[name].value

    def stored(self) -> dict[str, Stored]:
        """Return all secrets; none where there is no vault yet. Raise `SecretError` as `read` does."""
        content = self._content()
        if content is None:
            return {}
        with _about(self._file):
            return self._opened(parse(content))[1]

    def values(self) -> dict[str, str]:
        """Return all values by their names. Raise `SecretError` as `read` does."""
        return {name: stored.value for name, stored in self.stored().items()}

    @property
    def place(self) -> KeyPlace | None:
        """Where its key is; None where there is no vault yet. Raise `SecretError` where it is damaged."""
        content = self._content()
        with _about(self._file):
            return None if content is None else parse(content).place

    @property
    def protection(self) -> Protection | None:
        """What protects it; None where there is no vault yet. Raise `SecretError` where it is damaged."""
        place = self.place
        return None if place is None else Protection(place.kind, self._keys.protection(place))

    def put(self, name: str, value: str, *, replace: bool = False, key: NewKey = NewKey()) -> None:
        """Store a secret. A vault that is not there yet is made with a key like ``key``.

        Raise `SecretTakenError` where the name stands for another value, unless ``replace``; `SecretError` where it
        cannot be stored.
        """
        _check(name)
        entry = Stored(checked(value), time.time())

        def change(secrets: dict[str, Stored]) -> dict[str, Stored]:
            known = secrets.get(name)
            if known is not None and known.value == value:
                return secrets
            if known is not None and not replace:
                raise SecretTakenError(
                    f"the vault has a secret {name!r} already, with another value",
                    remedy=f"To give servers a new value: smcp secret rotate {name}",
                )
            return {**secrets, name: entry}

        self._change(change, key)

    def remove(self, name: str) -> None:
        """Remove a secret. Raise `SecretError` where there is none of that name."""

        def change(secrets: dict[str, Stored]) -> dict[str, Stored]:
            if name not in secrets:
                raise SecretError(f"the vault has no secret {name!r}", remedy="smcp secret list shows what there is")
            return {other: stored for other, stored in secrets.items() if other != name}

        self._change(change, NewKey())

    def unlock(self, passphrase: str) -> None:
        """Take the passphrase for as long as this object lives. Raise `SecretError` where it is the wrong one."""
        content = self._content()
        if content is None:
            raise SecretError("there is no vault yet", remedy="Store a first secret: smcp secret set NAME")
        with _about(self._file):
            sealed = parse(content)
            if sealed.place.kind != "passphrase":
                raise SecretError("it has no passphrase", remedy="Nothing needs to be unlocked here.")
            key = derive(sealed.place, passphrase)
            unseal(sealed, key)
        self._keys.remember(sealed.place, key)

    def protect(self, key: NewKey) -> None:
        """Give the vault another key, or make an empty one with it. Raise `SecretError`; then it has its old key."""
        with self._editing():
            content = self._content()
            secrets: dict[str, Stored] = {}
            before: KeyPlace | None = None
            if content is not None:
                with _about(self._file):
                    sealed = parse(content)
                    before = sealed.place
                    _, secrets = self._opened(sealed)
            self._write_new(key, secrets)
            if before is not None:
                self._keys.forget(before)

    def _change(self, change: Change, key: NewKey) -> None:
        with self._editing():
            content = self._content()
            if content is None:
                # What cannot be done makes no vault.
                secrets = change({})
                self._write_new(key, secrets)
                return
            with _about(self._file):
                sealed = parse(content)
                found, before = self._opened(sealed)
            after = change(before)
            if after != before:
                self._write(sealed.place, found, after)

    def _opened(self, sealed: Sealed) -> tuple[bytes, dict[str, Stored]]:
        """Return the key of a vault, and what is in it."""
        key = self._keys.find(sealed.place)
        try:
            return key, unseal(sealed, key)
        except SecretError:
            self._keys.mistaken(sealed.place)
            raise

    def _write_new(self, key: NewKey, secrets: Mapping[str, Stored]) -> None:
        """Write it with a new key, of which nothing is left where that fails."""
        place, made = self._keys.make(key.kind or self._keys.best(), key.passphrase)
        try:
            self._write(place, made, secrets)
        except SecretError:
            self._keys.forget(place)
            raise

    def _write(self, place: KeyPlace, key: bytes, secrets: Mapping[str, Stored]) -> None:
        try:
            replace_file(self._file, seal(place, key, secrets))
        except OSError as error:
            raise SecretError(
                f"the vault {self._file} cannot be written: {error.strerror}; nothing was changed",
                remedy="Check its permissions and the disk.",
            ) from None

    def _content(self) -> bytes | None:
        try:
            return read_file(self._file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SecretError(
                f"the vault {self._file} cannot be read: {error.strerror}", remedy="Check its owner and mode."
            ) from None

    def _editing(self) -> AbstractContextManager[None]:
        return locked(self._lock, what="vault")


@contextmanager
def _about(file: Path) -> Iterator[None]:
    """Say of which file an error is."""
    try:
        yield
    except SecretError as error:
        raise SecretError(f"the vault {file}: {error.message}", remedy=error.remedy) from None


def _check(name: str) -> None:
    try:
        check_stored_name(name)
    except ValueError as error:
        raise SecretError(str(error)) from None
