"""From grants to values, and errors that name server, variable, source and remedy, for every source that fails."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.references import parse_reference
from supervisord_mcp.credentials import reading, vault_file, vault_key
from supervisord_mcp.credentials.base import Source, within_async
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.credentials.reading import Credentials, Grant, grants_of
from supervisord_mcp.credentials.vault import NewKey
from supervisord_mcp.errors import SecretError
from tests.credentials.places import MemoryKeyring, paths_in
from tests.kit.bounded import bounded

VALUE = "s3cret-of-every-source"


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryKeyring]:
    made = MemoryKeyring(there=False)
    monkeypatch.setattr(reading, "KeyringSource", lambda: made)
    monkeypatch.setattr(vault_key, "KeyringSource", lambda: made)
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})
    yield made
    masker.clear()


def credentials(folder: Path, environ: Mapping[str, str] | None = None) -> Credentials:
    return Credentials(paths_in(folder), {"HOME": str(folder), "PATH": "/usr/bin:/bin", **(environ or {})})


def grants(*texts: str) -> tuple[Grant, ...]:
    return tuple(Grant(f"V{number}", parse_reference(text)) for number, text in enumerate(texts))


def keep(path: Path, mode: int = 0o600) -> None:
    path.write_text(VALUE)
    path.chmod(mode)


@bounded(30)
async def test_every_source_side_by_side(tmp_path: Path, keyring: MemoryKeyring) -> None:
    keyring.there = True
    keyring.entries["k"] = f"{VALUE}-1"
    keep(tmp_path / "file")
    (tmp_path / "cred").mkdir()
    keep(tmp_path / "cred" / "c")
    one = credentials(tmp_path, {"E": f"{VALUE}-2", "CREDENTIALS_DIRECTORY": str(tmp_path / "cred")})
    one.vault.put("v", f"{VALUE}-3")
    wanted = grants("keyring:k", "file:~/file", "env:E", "vault:v", "systemd:c", f"command:printf {VALUE}-4")
    assert await one.values("s", wanted) == {
        "V0": f"{VALUE}-1",
        "V1": VALUE,
        "V2": f"{VALUE}-2",
        "V3": f"{VALUE}-3",
        "V4": VALUE,
        "V5": f"{VALUE}-4",
    }
    assert f"{VALUE}-3" not in masker.mask(f"x {VALUE}-3 y")
    used = one.last_use()
    assert used.keys() == {str(grant.reference) for grant in wanted}
    assert stat.S_IMODE((tmp_path / "state" / "secret-use.json").stat().st_mode) & 0o077 in (0, 0o044)
    assert VALUE not in (tmp_path / "state" / "secret-use.json").read_text().replace(f"printf {VALUE}", "")


Case = tuple[str, Callable[[Path, Credentials, MemoryKeyring], object], str, str]


def lock_vault(folder: Path, one: Credentials, keyring: MemoryKeyring) -> None:
    Credentials(paths_in(folder), {}).vault.put("x", VALUE, key=NewKey("passphrase", "correct horse"))


def damage_vault(folder: Path, one: Credentials, keyring: MemoryKeyring) -> None:
    one.vault.put("x", VALUE)
    (folder / "state" / "vault.json").write_text(VALUE)


def lose_key(folder: Path, one: Credentials, keyring: MemoryKeyring) -> None:
    one.vault.put("x", VALUE)
    for path in (folder / "state").glob("*.key"):
        path.unlink()


def lock_keyring(folder: Path, one: Credentials, keyring: MemoryKeyring) -> None:
    keyring.there = keyring.locked = True
    keyring.entries["x"] = VALUE


def nothing(folder: Path, one: Credentials, keyring: MemoryKeyring) -> None:
    """Leave it as it is."""


#: What is granted, what is done before, what the error says, and what its remedy says.
FAILURES: dict[str, Case] = {
    "no vault": ("vault:x", nothing, "the vault has no secret 'x'", "smcp secret set x"),
    "a locked vault": ("vault:x", lock_vault, "it is locked by a passphrase", "smcp secret unlock"),
    "a damaged vault": ("vault:x", damage_vault, "it is damaged", "Put back a copy"),
    "a lost key": ("vault:x", lose_key, "it has no key: there is no file", "Put the key file back"),
    "no keyring": ("keyring:x", nothing, "there is no keyring", ""),
    "a locked keyring": ("keyring:x", lock_keyring, "the keyring is locked", "Unlock it"),
    "no file": ("file:~/x", nothing, "there is no file", "Create it"),
    "an open file": ("file:~/x", lambda folder, *_: keep(folder / "x", 0o644), "others (mode 0644)", "chmod 600"),
    "no variable": ("env:X", nothing, "the daemon has no variable X", "smcp secret set x"),
    "no program": ("command:no-such-program", nothing, "no-such-program", "Install it"),
    "a failing program": (f"command:sh -c 'echo {VALUE}; exit 7'", nothing, "sh failed (exit 7)", "Try it by hand"),
    "no credentials": ("systemd:x", nothing, "CREDENTIALS_DIRECTORY is not set", "LoadCredential=x"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_names_server_variable_source_and_remedy(tmp_path: Path, keyring: MemoryKeyring, case: str) -> None:
    text, prepare, why, remedy = FAILURES[case]
    one = credentials(tmp_path)
    prepare(tmp_path, one, keyring)

    @bounded(30)
    async def run() -> None:
        with pytest.raises(SecretError) as caught:
            await one.values("github", grants(text))
        said = str(caught.value).replace(text, "REFERENCE")
        assert said.startswith("server 'github' was not given V0 from REFERENCE: ")
        assert why in said
        assert remedy in str(caught.value)
        assert VALUE not in str(caught.value).replace(text.partition(":")[2], "")
        problem = await one.check("github", grants(text)[0])
        assert str(problem) == str(caught.value)

    run()
    assert one.last_use() == {}


@bounded(30)
async def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    one = credentials(tmp_path, {"E": VALUE})
    with pytest.raises(SecretError) as caught:
        await one.values("s", grants("env:A", "env:E", "vault:b"))
    lines = [line for line in str(caught.value).splitlines() if line.startswith("server")]
    assert [line.split(": ")[0] for line in lines] == [
        "server 's' was not given V0 from env:A",
        "server 's' was not given V2 from vault:b",
    ]
    assert await one.check("s", grants("env:E")[0]) is None


@bounded(30)
async def test_one_that_hangs_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    class Hanging(Source):
        """Says nothing."""

        def read(self, name: str) -> str:
            release.wait()
            return VALUE

    one = credentials(tmp_path)
    one._sources["keyring"] = Hanging()
    monkeypatch.setattr(reading, "within_async", lambda function: within_async(function, 0.05))
    try:
        with pytest.raises(SecretError, match=r"V0 from keyring:x: no answer within 0.05 s"):
            await one.values("s", grants("keyring:x"))
    finally:
        release.set()


@bounded(30)
async def test_values_are_read_anew_each_time(tmp_path: Path) -> None:
    one = credentials(tmp_path)
    keep(tmp_path / "x")
    assert await one.values("s", grants("file:~/x")) == {"V0": VALUE}
    (tmp_path / "x").write_text("another-value")
    assert await one.values("s", grants("file:~/x")) == {"V0": "another-value"}
    assert await one.values("s", ()) == {}


def test_a_record_of_use_that_is_none(tmp_path: Path) -> None:
    one = credentials(tmp_path)
    assert one.last_use() == {}
    for content in ("", "[]", '{"a": "b", "vault:x": 5}'):
        (tmp_path / "state" / "secret-use.json").write_text(content)
        assert one.last_use() == (json.loads('{"vault:x": 5.0}') if "vault" in content else {})


@bounded(30)
async def test_a_record_of_use_that_cannot_be_kept_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = credentials(tmp_path, {"E": VALUE})
    (tmp_path / "state" / "secret-use.json").mkdir()
    assert await one.values("s", grants("env:E")) == {"V0": VALUE}
    assert "is not kept" in caplog.text


def test_what_an_entry_grants() -> None:
    config = ServerConfig.model_validate({"command": ["x"], "credentials": {"B": "env:X", "A": "vault:a"}})
    assert list(map(str, grants_of(config))) == ["A from vault:a", "B from env:X"]
