"""Plain secrets that move into the vault."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.credentials import vault_key
from supervisord_mcp.credentials.adoption import adopt_secret, free_name
from supervisord_mcp.credentials.vault import NewKey, Vault
from supervisord_mcp.errors import SecretError, SecretTakenError
from tests.credentials.places import MemoryKeyring, paths_in


@pytest.fixture(autouse=True)
def _headless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_key, "KeyringSource", lambda: MemoryKeyring(there=False))


def test_one_value_is_stored_once_and_another_gets_another_name(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    assert free_name(Vault(paths, {}), "GITHUB_TOKEN", "one") == "GITHUB_TOKEN"
    assert adopt_secret(Vault(paths, {}), "GITHUB_TOKEN", "one") == "vault:GITHUB_TOKEN"
    assert adopt_secret(Vault(paths, {}), "GITHUB_TOKEN", "one") == "vault:GITHUB_TOKEN"
    assert free_name(Vault(paths, {}), "GITHUB_TOKEN", "one") == "GITHUB_TOKEN"
    with pytest.raises(SecretTakenError):
        adopt_secret(Vault(paths, {}), "GITHUB_TOKEN", "two")
    assert free_name(Vault(paths, {}), "GITHUB_TOKEN", "two") == "GITHUB_TOKEN-2"
    adopt_secret(Vault(paths, {}), "GITHUB_TOKEN-2", "two")
    assert free_name(Vault(paths, {}), "GITHUB_TOKEN", "two") == "GITHUB_TOKEN-2"
    assert free_name(Vault(paths, {}), "GITHUB_TOKEN", "three") == "GITHUB_TOKEN-3"
    assert Vault(paths, {}).values() == {"GITHUB_TOKEN": "one", "GITHUB_TOKEN-2": "two"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [("my server/TOKEN", "my-server-TOKEN"), ("--x", "x"), ("", "secret"), ("ключ", "secret"), ("a" * 200, "a" * 100)],
)
def test_names_come_to_what_the_vault_allows(tmp_path: Path, name: str, wanted: str) -> None:
    paths = paths_in(tmp_path)
    found = free_name(Vault(paths, {}), name, "value")
    assert found == wanted
    assert adopt_secret(Vault(paths, {}), found, "value") == f"vault:{wanted}"


def test_a_locked_vault_is_not_asked_about(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    Vault(paths, {}).put("first", "value", key=NewKey("passphrase", "correct horse"))
    with pytest.raises(SecretError, match="locked by a passphrase"):
        adopt_secret(Vault(paths, {}), "x", "value")
    with pytest.raises(SecretError, match="locked by a passphrase"):
        free_name(Vault(paths, {}), "x", "value")
