"""The sealed file: what comes back, what is noticed, and what cannot be seen in it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.credentials.vault_file import KeyKind, KeyPlace, Stored, derive, new_place, parse, seal, unseal
from supervisord_mcp.errors import SecretError

KEY = bytes(range(32))
PLACE = KeyPlace("file", "0123456789abcdef")
SECRETS = {"github": Stored("s3cret-value", 12.5), "jira": Stored("other\nlines", 0.0)}
#: Cheap enough for tests.
CHEAP = KeyPlace("passphrase", "00", "AAAAAAAAAAAAAAAAAAAAAA==", 16, 1, 1)


def document(**changes: Any) -> bytes:
    return json.dumps({**json.loads(seal(PLACE, KEY, SECRETS)), **changes}).encode()


@given(st.dictionaries(st.text(), st.tuples(st.text(), st.floats(allow_nan=False))))
def test_what_was_sealed_comes_back(content: dict[str, tuple[str, float]]) -> None:
    secrets = {name: Stored(*entry) for name, entry in content.items()}
    assert unseal(parse(seal(PLACE, KEY, secrets)), KEY) == secrets


def test_neither_names_nor_values_can_be_seen_and_no_nonce_comes_twice() -> None:
    one, two = seal(PLACE, KEY, SECRETS), seal(PLACE, KEY, SECRETS)
    assert json.loads(one)["nonce"] != json.loads(two)["nonce"]
    for name, stored in SECRETS.items():
        assert name.encode() not in one
        assert stored.value.encode() not in one
        assert stored.value not in repr(stored)
    assert "data" not in repr(parse(one))


def asking(**cost: int) -> bytes:
    return document(key={**asdict(CHEAP), **cost})


DAMAGED = {
    "empty": b"",
    "no JSON": b"\0\1\2",
    "a part": seal(PLACE, KEY, SECRETS)[:-20],
    "other JSON": b"[]",
    "deep JSON": b"[" * 100_000,
    "a key more": document(more=1),
    "no base64": document(data="*"),
    "a short nonce": document(nonce="AAAA"),
    "another kind of key": document(key={"kind": "none", "id": "1"}),
    "much memory": asking(n=1 << 20, r=32),
    "more memory": asking(n=1 << 40),
    "no work": asking(n=0),
    "much work": asking(p=17),
    "work that scrypt cannot do": asking(n=3),
    "the least work that scrypt cannot do": asking(n=1),
    "no salt": document(key={**asdict(CHEAP), "salt": "*"}),
    "a key elsewhere": document(key={**asdict(PLACE), "id": "../../x"}),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_no_vault(case: str) -> None:
    with pytest.raises(SecretError, match="it is damaged") as caught:
        parse(DAMAGED[case])
    assert "Nothing was changed" in caught.value.remedy


def test_one_of_a_newer_smcp() -> None:
    with pytest.raises(SecretError, match="newer smcp"):
        parse(document(format="smcp-vault-2"))


def test_every_change_of_the_file_is_noticed() -> None:
    sealed = parse(seal(PLACE, KEY, SECRETS))
    flipped = bytes([sealed.data[0] ^ 1, *sealed.data[1:]])
    for changed in (
        replace(sealed, data=flipped),
        replace(sealed, data=sealed.data[:-1]),
        replace(sealed, data=b""),
        replace(sealed, nonce=bytes(12)),
        replace(sealed, place=replace(PLACE, id="another")),
        replace(sealed, place=replace(PLACE, kind="keyring")),
    ):
        with pytest.raises(SecretError, match="its key does not open it"):
            unseal(changed, KEY)
    with pytest.raises(SecretError, match="its key does not open it"):
        unseal(sealed, bytes(32))


def test_a_passphrase_stands_for_one_key() -> None:
    key = derive(CHEAP, "correct horse")
    assert key == derive(CHEAP, "correct horse") != derive(CHEAP, "correct house")
    sealed = parse(seal(CHEAP, key, SECRETS))
    assert unseal(sealed, key) == SECRETS
    with pytest.raises(SecretError, match="the passphrase does not open it"):
        unseal(sealed, derive(CHEAP, "wrong"))


def test_new_passphrases_cost_what_they_should_and_have_salts_of_their_own() -> None:
    one, two = new_place("passphrase"), new_place("passphrase")
    assert one.salt != two.salt
    assert 128 * one.n * one.r == 128 << 20
    assert parse(seal(one, KEY, {})).place == one
    kinds: tuple[KeyKind, ...] = ("keyring", "file")
    for kind in kinds:
        place = new_place(kind)
        assert (place.salt, place.n) == ("", 0)
        assert place.id != new_place(kind).id
