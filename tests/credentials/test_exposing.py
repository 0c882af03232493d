"""What an entry shows with its variables replaced, and what is stored."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import resolve
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.credentials.exposing import check_command, learn_stored, stored_in
from supervisord_mcp.credentials.masking import MASK, masker
from supervisord_mcp.credentials.vault import NewKey, Vault
from supervisord_mcp.credentials.vault_file import KeyPlace
from supervisord_mcp.errors import ConfigError, SecretError
from tests.config.places import paths_in, write

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def check(environ: Mapping[str, str] | None = None, **entry: Any) -> None:
    server = ServerConfig.model_validate({"command": ["server"], **entry})
    origin = Origin(Path("/config.toml"), 1)
    check_command("s", server, resolve("s", server, Variables(environ or {}, None, "/home/me"), origin), origin)


def test_a_variable_in_a_command_is_refused_for_what_it_holds() -> None:
    args = ["-v", "--token", "${TOKEN}"]
    with pytest.raises(ConfigError) as raised:
        check({"TOKEN": TOKEN}, args=args)
    assert [problem.key for problem in raised.value.problems] == ["servers.s.args[2]"]
    assert TOKEN not in str(raised.value)
    check({"TOKEN": "plain"}, args=args)
    check({"TOKEN": TOKEN}, args=args, exposed=["github"])
    # It is masked all the same.
    assert masker.mask(TOKEN) == MASK


def test_a_stored_value_is_refused_in_a_command_only() -> None:
    masker.learn("value-without-a-shape", "vault:mine")
    check(env={"A": "value-without-a-shape"})
    with pytest.raises(ConfigError, match="vault:mine"):
        check({"A": "value-without-a-shape"}, args=["--key=${A}"])
    check({"A": "value-without-a-shape"}, args=["--key=${A}"], exposed=["vault:mine"])


def test_secrets_of_an_entry_are_masked_but_are_no_stored_ones() -> None:
    env = {"MY_TOKEN": "value-without-a-shape", "OTHER": f"x {TOKEN}", "PLAIN": "nothing-special", "A_SECRET": "1"}
    check(env=env)
    assert masker.mask(" ".join(env.values())) == f"{MASK} x {MASK} nothing-special 1"
    assert masker.names("value-without-a-shape") == {"MY_TOKEN"}
    assert stored_in("value-without-a-shape") == frozenset()


def test_an_ordinary_word_is_refused_only_where_it_is_called_a_secret() -> None:
    masker.learn("postgres", "vault:word")
    check(command=["postgres"], args=["--dialect", "postgres", "server-postgres", "postgresql://localhost/postgres"])
    for args in (["--password=postgres"], ["--password", "postgres"]):
        with pytest.raises(ConfigError, match="vault:word"):
            check(args=args)
        check(args=args, exposed=["vault:word"])
    assert stored_in("x postgres", "postgresql") == frozenset()


class Locked(Vault):
    """A vault whose key nobody has."""

    def values(self) -> dict[str, str]:
        raise SecretError("it is locked")

    @property
    def place(self) -> KeyPlace | None:
        raise SecretError("it is locked")


def test_what_is_stored_is_known(tmp_path: Path) -> None:
    paths = write(paths_in(tmp_path))
    paths.state_dir.mkdir(mode=0o700, exist_ok=True)
    environ = {**os.environ, "DBUS_SESSION_BUS_ADDRESS": "disabled:"}
    learn_stored(Vault(paths, environ))
    vault = Vault(paths, environ)
    vault.put("mine", "value-without-a-shape", key=NewKey("file"))
    learn_stored(vault)
    assert stored_in("x value-without-a-shape") == {"vault:mine"}
    masker.clear()
    learn_stored(Locked(paths, environ))
    assert stored_in("x value-without-a-shape") == frozenset()
