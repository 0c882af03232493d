"""The file of the vault: what is in it, and how it is sealed. Nothing here reads or writes a file.

One JSON object; ``data`` is AES-256-GCM over all secrets together, so that neither names nor lengths of single values
can be seen. The rest of the object (format, where the key is, the parameters of scrypt) is its associated data: who
changes one of them makes the file unreadable, not weaker. Every version has a nonce of its own, 96 random bits:
far from the 2^32 messages for which NIST SP 800-38D allows that.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import msgspec

from supervisord_mcp.errors import SecretError

#: What the key of a vault comes from.
KeyKind = Literal["keyring", "passphrase", "file"]
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_FORMAT: Final = "smcp-vault-1"
#: Parameters of scrypt for new vaults: 128 MiB and some tenths of a second (OWASP's first choice for scrypt).
_COST: Final = {"n": 1 << 17, "r": 8, "p": 1}
#: The most that a file may ask for: whoever changes it must not make us take all memory.
_MOST: Final = {"n": 1 << 20, "r": 32, "p": 16}
#: Memory of scrypt is 128 * n * r bytes.
_MOST_MEMORY: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class KeyPlace:
    """Where the key of a vault is. ``id`` tells it from keys of other vaults; the rest is for a passphrase only."""

    kind: KeyKind
    id: str
    salt: str = ""
    n: int = 0
    r: int = 0
    p: int = 0


@dataclass(frozen=True, slots=True)
class Stored:
    """One secret. ``changed`` is when it was stored, in seconds since the epoch."""

    value: str = field(repr=False)
    changed: float = 0.0


@dataclass(frozen=True, slots=True)
class Sealed:
    """A vault as it is on disk, taken apart."""

    place: KeyPlace
    nonce: bytes
    data: bytes = field(repr=False)


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    key: KeyPlace
    nonce: str
    data: str


def new_place(kind: KeyKind) -> KeyPlace:
    """Return the place of a new key."""
    identity = os.urandom(8).hex()
    if kind != "passphrase":
        return KeyPlace(kind, identity)
    return KeyPlace(kind, identity, _text(os.urandom(16)), **_COST)


def parse(content: bytes) -> Sealed:
    """Given the content of a vault, return it taken apart. Raise `SecretError` where it is none."""
    try:
        found = msgspec.json.decode(content, type=_Document)
        _bytes(found.key.salt)
        sealed = Sealed(found.key, _bytes(found.nonce), _bytes(found.data))
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise damaged("it is not the file of a vault") from None
    if found.format != _FORMAT:
        raise SecretError("it was written by a newer smcp", remedy="Upgrade smcp.")
    if len(sealed.nonce) != _NONCE_BYTES:
        raise damaged("its nonce has the wrong length")
    place = sealed.place
    # It becomes a part of a path.
    if not re.fullmatch("[0-9a-f]+", place.id):
        raise damaged("its key has no name")
    if place.kind == "passphrase":
        asked = {"n": place.n, "r": place.r, "p": place.p}
        if any(not 0 < asked[name] <= most for name, most in _MOST.items()) or 128 * place.n * place.r > _MOST_MEMORY:
            raise damaged("it asks for more memory than any vault needs")
        if place.n < 2 or place.n & (place.n - 1):
            raise damaged("it asks for what scrypt cannot do")
    return sealed


def seal(place: KeyPlace, key: bytes, secrets: Mapping[str, Stored]) -> bytes:
    """Return the content of a vault that holds secrets."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    plain = json.dumps({name: asdict(stored) for name, stored in sorted(secrets.items())}).encode()
    data = AESGCM(key).encrypt(nonce, plain, _associated(place))
    document = {"format": _FORMAT, "key": asdict(place), "nonce": _text(nonce), "data": _text(data)}
    return json.dumps(document, indent=2).encode() + b"\n"


def unseal(sealed: Sealed, key: bytes) -> dict[str, Stored]:
    """Return the secrets of a vault. Raise `SecretError` where the key is another one, or the file was changed."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        plain = AESGCM(key).decrypt(sealed.nonce, sealed.data, _associated(sealed.place))
    except (InvalidTag, ValueError):
        if sealed.place.kind == "passphrase":
            raise SecretError(
                "the passphrase does not open it (or the file was changed)", remedy="Try again with the right one."
            ) from None
        raise damaged("its key does not open it: the file was changed, or the key is that of another vault") from None
    # What was sealed by us is of our making.
    content: dict[str, Any] = json.loads(plain)
    return {name: Stored(entry["value"], entry["changed"]) for name, entry in content.items()}


def derive(place: KeyPlace, passphrase: str) -> bytes:
    """Return the key that a passphrase stands for; takes some tenths of a second and 128 MiB."""
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    salt = _bytes(place.salt)
    return Scrypt(salt=salt, length=KEY_BYTES, n=place.n, r=place.r, p=place.p).derive(passphrase.encode())


def damaged(why: str) -> SecretError:
    """Return the error for a file that cannot be used; nothing is ever written over it."""
    return SecretError(
        f"it is damaged: {why}",
        remedy="Nothing was changed. Put back a copy of it, or move it away and store the secrets anew.",
    )


def _associated(place: KeyPlace) -> bytes:
    return json.dumps([_FORMAT, asdict(place)], sort_keys=True).encode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
