"""Keys of vaults: each kind, made and found again, and why one cannot be had."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.credentials import vault_file
from supervisord_mcp.credentials.vault_file import KeyPlace
from supervisord_mcp.credentials.vault_key import PROTECTS, Keys
from supervisord_mcp.errors import SecretError
from tests.credentials.places import MemoryKeyring


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})


def test_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "state", {}, MemoryKeyring(there=False))
    assert keys.best() == "file"
    place, key = keys.make("file")
    assert stat.S_IMODE(keys.file(place).stat().st_mode) == 0o600
    assert keys.find(place) == key
    assert str(keys.file(place)) in keys.protection(place)
    keys.file(place).chmod(0o644)
    with pytest.raises(SecretError, match=r"it has no key: .* others") as caught:
        keys.find(place)
    assert "chmod 600" in caught.value.remedy
    keys.file(place).chmod(0o600)
    keys.file(place).write_text("short")
    with pytest.raises(SecretError, match="no key of a vault"):
        keys.find(place)
    keys.forget(place)
    assert not keys.file(place).exists()
    keys.forget(place)
    with pytest.raises(SecretError, match="it has no key: there is no file") as caught:
        keys.find(place)
    assert caught.value.remedy.startswith("Put the key file back. ")
    assert "move the vault away" in caught.value.remedy


def test_a_file_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way")
    with pytest.raises(SecretError, match="no key can be kept") as caught:
        Keys(tmp_path / "state", {}, MemoryKeyring(there=False)).make("file")
    assert caught.value.remedy


def test_the_keyring_of_the_system(tmp_path: Path) -> None:
    keyring = MemoryKeyring()
    keys = Keys(tmp_path, {}, keyring)
    assert keys.best() == "keyring"
    place, key = keys.make("keyring")
    assert Keys(tmp_path, {}, keyring).find(place) == key
    assert list(tmp_path.iterdir()) == []
    keyring.locked = True
    with pytest.raises(SecretError, match=r"it is locked: .* the keyring is locked") as caught:
        keys.find(place)
    assert place.id in caught.value.remedy
    keyring.locked = False
    keys.forget(place)
    assert keyring.entries == {}


def test_a_keyring_that_forgets_is_not_trusted(tmp_path: Path) -> None:
    keyring = MemoryKeyring()
    keyring.forgets = True
    with pytest.raises(SecretError, match="does not keep"):
        Keys(tmp_path, {}, keyring).make("keyring")


def test_a_passphrase_is_asked_for_once(tmp_path: Path) -> None:
    keys = Keys(tmp_path, {}, MemoryKeyring(there=False))
    place, key = keys.make("passphrase", "correct horse")
    assert keys.find(place) == key
    keys.forget(place)
    with pytest.raises(SecretError, match="locked by a passphrase") as caught:
        keys.find(place)
    assert "smcp secret unlock" in caught.value.remedy
    keys.remember(place, key)
    assert keys.find(place) == key
    for nothing in (None, ""):
        with pytest.raises(SecretError, match="there is no passphrase"):
            keys.make("passphrase", nothing)


def test_a_passphrase_without_a_person(tmp_path: Path) -> None:
    place, key = Keys(tmp_path, {}, MemoryKeyring()).make("passphrase", "correct horse")
    file = tmp_path / "passphrase"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    assert Keys(tmp_path, {"SMCP_VAULT_PASSPHRASE_FILE": str(file)}, MemoryKeyring()).find(place) == key
    file.chmod(0o644)
    with pytest.raises(SecretError, match=r"SMCP_VAULT_PASSPHRASE_FILE: .* others"):
        Keys(tmp_path, {"SMCP_VAULT_PASSPHRASE_FILE": str(file)}, MemoryKeyring()).find(place)
    credential = tmp_path / "smcp-vault-passphrase"
    credential.write_text("correct horse")
    assert Keys(tmp_path, {"CREDENTIALS_DIRECTORY": str(tmp_path)}, MemoryKeyring()).find(place) == key


def test_each_key_is_of_one_vault(tmp_path: Path) -> None:
    keys = Keys(tmp_path, {}, MemoryKeyring())
    one, _ = keys.make("file")
    two, _ = keys.make("file")
    assert keys.find(one) != keys.find(two)
    assert len(keys.find(one)) == len(os.urandom(32))
    with pytest.raises(SecretError):
        keys.find(replace(one, id="0"))


def test_it_is_said_what_each_protects_against(tmp_path: Path) -> None:
    keys = Keys(tmp_path, {}, MemoryKeyring())
    for kind in PROTECTS:
        text = keys.protection(KeyPlace(kind, "1"))
        assert "cannot read" in text
        assert "{" not in text
