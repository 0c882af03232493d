"""The vault: what is stored, what is refused, and that nothing is lost."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp.config.paths import Paths
from supervisord_mcp.credentials import vault_file
from supervisord_mcp.credentials.vault import NewKey, Vault
from supervisord_mcp.errors import SecretError, SecretTakenError, SmcpError
from tests.credentials.places import MemoryKeyring, paths_in
from tests.kit.daemon import ROOT
from tests.kit.required import as_person

VALUE = "s3cret-of-the-vault"
Action = Callable[[], object]


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})
    return paths_in(tmp_path)


def headless(paths: Paths) -> Vault:
    return Vault(paths, {}, MemoryKeyring(there=False))


def files(paths: Paths) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in paths.state_dir.iterdir() if path.is_file()}


def test_the_first_secret_makes_it_and_everybody_finds_it(paths: Paths) -> None:
    vault = headless(paths)
    assert vault.stored() == {}
    assert vault.place is None
    assert vault.protection is None
    vault.put("github", VALUE)
    vault.put("jira", "two\nlines ü")
    assert stat.S_IMODE(paths.vault_file.stat().st_mode) == 0o600
    other = headless(paths)
    assert other.read("github") == VALUE
    assert other.values() == {"github": VALUE, "jira": "two\nlines ü"}
    assert other.protection is not None
    assert other.protection.kind == "file"
    assert all(VALUE.encode() not in content for content in files(paths).values())
    other.remove("github")
    assert vault.values() == {"jira": "two\nlines ü"}


def test_a_missing_secret(paths: Paths) -> None:
    vault = headless(paths)
    for _ in range(2):
        with pytest.raises(SecretError, match="no secret 'github'") as caught:
            vault.read("github")
        assert "smcp secret set github" in caught.value.remedy
        with pytest.raises(SecretError, match="no secret 'github'"):
            vault.remove("github")
        assert ("vault.json" in files(paths)) is ("jira" in vault.stored())
        vault.put("jira", VALUE)


def test_a_name_stands_for_one_value_until_it_is_replaced(paths: Paths) -> None:
    vault = headless(paths)
    vault.put("github", VALUE)
    before = files(paths)
    vault.put("github", VALUE)
    with pytest.raises(SecretTakenError, match="already, with another value") as caught:
        vault.put("github", "another-value")
    assert "another-value" not in str(caught.value)
    assert VALUE not in str(caught.value)
    assert files(paths) == before
    vault.put("github", "another-value", replace=True)
    assert vault.read("github") == "another-value"


@pytest.mark.parametrize(("name", "value"), [("", VALUE), ("a b", VALUE), ("-x", VALUE), ("x", ""), ("x", "a\0b")])
def test_what_cannot_be_stored_makes_no_vault(paths: Paths, name: str, value: str) -> None:
    with pytest.raises(SecretError):
        headless(paths).put(name, value)
    assert "vault.json" not in files(paths)


def test_the_keyring_holds_the_key_where_there_is_one(paths: Paths) -> None:
    keyring = MemoryKeyring()
    vault = Vault(paths, {}, keyring)
    vault.put("github", VALUE)
    assert vault.protection is not None
    assert vault.protection.kind == "keyring"
    assert [name for name in files(paths) if name.endswith(".key")] == []
    keyring.locked = True
    with pytest.raises(SecretError, match=r"vault\.json: it is locked"):
        vault.read("github")
    before = files(paths)
    changes: tuple[Action, ...] = (
        lambda: vault.put("x", VALUE),
        lambda: vault.remove("github"),
        lambda: vault.protect(NewKey("file")),
    )
    for change in changes:
        with pytest.raises(SecretError, match="it is locked"):
            change()
    assert files(paths) == before


def test_a_passphrase(paths: Paths) -> None:
    vault = headless(paths)
    with pytest.raises(SecretError, match="no vault yet"):
        vault.unlock("x")
    vault.put("github", VALUE, key=NewKey("passphrase", "correct horse"))
    assert vault.read("github") == VALUE
    other = headless(paths)
    with pytest.raises(SecretError, match="locked by a passphrase"):
        other.read("github")
    with pytest.raises(SecretError, match="the passphrase does not open it"):
        other.unlock("wrong horse")
    with pytest.raises(SecretError, match="locked by a passphrase"):
        other.read("github")
    other.unlock("correct horse")
    assert other.read("github") == VALUE


def test_another_key_and_the_old_one_is_gone(paths: Paths) -> None:
    vault = headless(paths)
    vault.protect(NewKey())
    assert vault.stored() == {}
    vault.put("github", VALUE)
    with pytest.raises(SecretError, match="it has no passphrase"):
        vault.unlock("x")
    (old,) = (name for name in files(paths) if name.endswith(".key"))
    vault.protect(NewKey("passphrase", "correct horse"))
    assert old not in files(paths)
    assert vault.read("github") == VALUE
    vault.protect(NewKey("file"))
    assert headless(paths).read("github") == VALUE
    before = files(paths)
    with pytest.raises(SecretError, match="there is no passphrase"):
        vault.protect(NewKey("passphrase"))
    assert files(paths) == before


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "a bit": lambda content: content.replace(b'"data": "', b'"data": "AAAA'),
    "no vault": lambda content: b"{}",
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_damaged_file_is_told_and_kept(paths: Paths, case: str) -> None:
    vault = headless(paths)
    vault.put("github", VALUE)
    broken = BROKEN[case](paths.vault_file.read_bytes())
    paths.vault_file.write_bytes(broken)
    actions: tuple[Action, ...] = (
        lambda: vault.read("github"),
        lambda: vault.put("jira", VALUE),
        lambda: vault.put("github", "x", replace=True),
        lambda: vault.remove("github"),
        lambda: vault.protect(NewKey("file")),
    )
    for action in actions:
        with pytest.raises(SecretError, match=r"vault\.json: it is damaged") as caught:
            action()
        assert caught.value.remedy
    assert paths.vault_file.read_bytes() == broken


def test_a_vault_that_cannot_be_read_or_written(paths: Paths) -> None:
    vault = headless(paths)
    paths.vault_file.mkdir()
    with pytest.raises(SecretError, match="cannot be read"):
        vault.read("github")
    with pytest.raises(SecretError, match="cannot be read"):
        vault.put("github", VALUE)


@as_person
def test_a_read_only_vault_stays_as_it_is(paths: Paths) -> None:
    vault = headless(paths)
    vault.put("github", VALUE)
    paths.vault_file.chmod(0o400)
    with pytest.raises(SecretError, match=r"cannot be written: .*; nothing was changed"):
        vault.put("jira", VALUE)
    assert vault.values() == {"github": VALUE}


def test_a_full_disk_loses_nothing(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = headless(paths)
    vault.put("github", VALUE)
    before = files(paths)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SecretError, match="No space left on device; nothing was changed"):
        vault.put("jira", VALUE)
    assert files(paths) == before
    assert vault.values() == {"github": VALUE}


def test_a_key_for_what_could_not_be_written_is_not_left(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = headless(paths)

    def full(path: Path, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("supervisord_mcp.credentials.vault.replace_file", full)
        with pytest.raises(SecretError, match="nothing was changed"):
            vault.put("github", VALUE)
        assert not [name for name in files(paths) if name.endswith(".key")]
    vault.put("github", VALUE)
    before = files(paths)
    with monkeypatch.context() as patch:
        patch.setattr("supervisord_mcp.credentials.vault.replace_file", full)
        with pytest.raises(SecretError, match="nothing was changed"):
            vault.protect(NewKey("file"))
    assert files(paths) == before
    assert vault.values() == {"github": VALUE}


def test_a_wrong_passphrase_in_a_file_is_not_kept(paths: Paths) -> None:
    headless(paths).put("github", VALUE, key=NewKey("passphrase", "correct horse"))
    file = paths.state_dir / "passphrase"
    file.write_text("wrong horse")
    file.chmod(0o600)
    daemon = Vault(paths, {"SMCP_VAULT_PASSPHRASE_FILE": str(file)}, MemoryKeyring(there=False))
    with pytest.raises(SecretError, match="the passphrase does not open it"):
        daemon.read("github")
    file.write_text("correct horse")
    assert daemon.read("github") == VALUE
    daemon.put("jira", VALUE)
    assert set(daemon.values()) == {"github", "jira"}


def test_writers_at_the_same_time_lose_nothing(paths: Paths) -> None:
    headless(paths).put("first", VALUE)
    code = (
        "import sys; from pathlib import Path; from supervisord_mcp.config.paths import Paths;"
        " from supervisord_mcp.credentials.vault import Vault; base = Path(sys.argv[1]);"
        " vault = Vault(Paths(base / 'config', base / 'state', base / 'run', base / 'cache'), {});"
        " [vault.put(f'{sys.argv[2]}-{n}', 'value') for n in range(5)]"
    )
    words = [sys.executable, "-c", code, str(paths.state_dir.parent)]
    writers = [subprocess.Popen([*words, name], cwd=ROOT) for name in ("a", "b", "c")]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    wanted = {"first", *(f"{name}-{n}" for name in "abc" for n in range(5))}
    assert headless(paths).stored().keys() == wanted


def test_somebody_who_keeps_the_lock(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    from supervisord_mcp.config import files as module
    from supervisord_mcp.credentials import vault as user

    monkeypatch.setattr(user, "locked", lambda path, what: module.locked(path, 0.05, what))
    with (
        module.locked(paths.vault_lock),
        pytest.raises(SmcpError, match=r"editing the vault for 0\.05 s"),
    ):
        headless(paths).put("github", VALUE)
