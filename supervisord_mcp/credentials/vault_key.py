"""Where the key of a vault is: the keyring of the system, a passphrase, or a file beside the vault that only you read.

What each protects against is said in `PROTECTS`, and shown whenever one is chosen. A daemon has nobody to ask for a
passphrase: it is told one (`smcp secret unlock`), or finds it in a credential of systemd or in a file that is named.
"""

from __future__ import annotations

import base64
import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from supervisord_mcp.config.files import replace_file
from supervisord_mcp.credentials.base import text_of
from supervisord_mcp.credentials.file import read_private
from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.credentials.systemd import SystemdSource
from supervisord_mcp.credentials.vault_file import KEY_BYTES, KeyKind, KeyPlace, derive, new_place
from supervisord_mcp.errors import SecretError

#: The variable that names a file with the passphrase, and the credential of systemd that holds it.
PASSPHRASE_FILE: Final = "SMCP_VAULT_PASSPHRASE_FILE"
PASSPHRASE_CREDENTIAL: Final = "smcp-vault-passphrase"
#: The entry of the keyring is called after the vault's key.
_ENTRY: Final = "smcp-vault/{}"

_LOST: Final = (
    "Put the key file back. Where nobody has it any more nobody can read the vault: move the vault away, and store the"
    " secrets anew."
)

PROTECTS: Final[Mapping[KeyKind, str]] = {
    "keyring": "Its key is in the keyring of your system: whoever gets a copy of your files or your disk cannot read"
    " it. Programs that run as you can, while the keyring is open.",
    "passphrase": "Its key is made of your passphrase, which is stored nowhere: whoever gets a copy of your files or"
    " your disk cannot read it. A daemon has to be told it after each start: smcp secret unlock",
    "file": "Its key is in the file {key}, which only you can read: other users cannot read it, nor can who"
    " gets a copy of the vault without that file. A backup or a thief that has both can; so can programs that run as"
    " you. A keyring or a passphrase protects better: smcp secret key --help",
}


class Keys:
    """Finds and makes keys of vaults. ``directory`` is where key files are; it belongs to the person alone."""

    def __init__(self, directory: Path, environ: Mapping[str, str], keyring: KeyringSource | None = None) -> None:
        self._directory = directory
        self._environ = environ
        self._keyring = keyring or KeyringSource()
        # Derived keys: whoever reads a secret at each start of a server must not wait for scrypt each time.
        self._derived: dict[KeyPlace, bytes] = {}
        self._deriving = threading.Lock()

    def find(self, place: KeyPlace) -> bytes:
        """Return a key. Raise `SecretError` where it cannot be had, as long as nobody unlocks it."""
        match place.kind:
            case "keyring":
                try:
                    return _decoded(self._keyring.read(_ENTRY.format(place.id)))
                except SecretError as error:
                    raise SecretError(
                        f"it is locked: its key is in the keyring of the system, and {error.message}",
                        remedy=f"Open it. Without its entry {_ENTRY.format(place.id)} the vault cannot be read.",
                    ) from None
            case "file":
                try:
                    return _decoded(text_of(read_private(str(self.file(place)))))
                except SecretError as error:
                    # Its rights can be set right; what is not there, or is another one, has to come back.
                    remedy = error.remedy if os.path.exists(self.file(place)) else ""
                    raise SecretError(f"it has no key: {error.message}", remedy=remedy or _LOST) from None
            case "passphrase":
                with self._deriving:
                    return self._of_passphrase(place)

    def make(self, kind: KeyKind, passphrase: str | None = None) -> tuple[KeyPlace, bytes]:
        """Make a key, keep it where it belongs, and return both. Raise `SecretError` where that cannot be."""
        place = new_place(kind)
        if kind == "passphrase":
            if not passphrase:
                raise SecretError("there is no passphrase", remedy="Give one that is not empty.")
            key = derive(place, passphrase)
            self.remember(place, key)
            return place, key
        key = os.urandom(KEY_BYTES)
        text = base64.b64encode(key).decode()
        if kind == "keyring":
            entry = _ENTRY.format(place.id)
            self._keyring.put(entry, text)
            if self._keyring.read(entry) != text:
                raise SecretError("the keyring does not keep what it is given", remedy="Use a passphrase or a file.")
            return place, key
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.file(place), text.encode() + b"\n")
        except OSError as error:
            raise SecretError(
                f"no key can be kept in {self.file(place)}: {error.strerror}", remedy="Check the disk and its rights."
            ) from None
        return place, key

    def forget(self, place: KeyPlace) -> None:
        """Remove a key that no vault needs any more, as far as it is there."""
        with suppress(SecretError, OSError):
            if place.kind == "keyring":
                self._keyring.remove(_ENTRY.format(place.id))
            elif place.kind == "file":
                self.file(place).unlink()
        self._derived.pop(place, None)

    def remember(self, place: KeyPlace, key: bytes) -> None:
        """Keep the key of a passphrase for as long as this process lives."""
        self._derived[place] = key

    def mistaken(self, place: KeyPlace) -> None:
        """Take note that the key of a passphrase does not open its vault: the next one is asked for, not remembered."""
        self._derived.pop(place, None)

    def best(self) -> KeyKind:
        """Return where the key of a new vault is kept unless somebody says otherwise."""
        return "keyring" if self._keyring.available else "file"

    def file(self, place: KeyPlace) -> Path:
        """Return the file of a key."""
        return self._directory / f"vault-{place.id}.key"

    def protection(self, place: KeyPlace) -> str:
        """Return what a key protects against, for a person."""
        return PROTECTS[place.kind].format(key=self.file(place))

    def _of_passphrase(self, place: KeyPlace) -> bytes:
        if place not in self._derived:
            self._derived[place] = derive(place, self._passphrase())
        return self._derived[place]

    def _passphrase(self) -> str:
        """Return the passphrase where it is provided without a person. Raise `SecretError` where it is not."""
        if path := self._environ.get(PASSPHRASE_FILE):
            try:
                return text_of(read_private(path))
            except SecretError as error:
                raise SecretError(f"${PASSPHRASE_FILE}: {error.message}", remedy=error.remedy) from None
        try:
            return SystemdSource(self._environ).read(PASSPHRASE_CREDENTIAL)
        except SecretError:
            raise SecretError(
                "it is locked by a passphrase",
                remedy="Unlock it: smcp secret unlock (without a person: name a file that only you can read in"
                f" {PASSPHRASE_FILE}, or give the unit of the daemon the credential {PASSPHRASE_CREDENTIAL})",
            ) from None


def _decoded(text: str) -> bytes:
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise SecretError("it is no key of a vault")
    return key
