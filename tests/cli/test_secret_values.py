"""``smcp secret set``, ``rotate``, ``rm``, ``key`` and ``unlock``."""

from __future__ import annotations

import errno
import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

from supervisord_mcp.cli import secret_values
from supervisord_mcp.config import edit
from supervisord_mcp.credentials import vault_file, vault_key
from supervisord_mcp.credentials.vault import Vault
from supervisord_mcp.errors import SecretError, UsageError
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.secret_requests import SecretChanged, SecretChangedResult, SecretUnlock
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon
from tests.credentials.places import MemoryKeyring, paths_in
from tests.kit.daemon import ROOT

VALUE = "s3cret-of-a-person"
#: Makes its stdin the terminal of its session, and becomes its arguments.
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.fixture(autouse=True)
def keyring(monkeypatch: pytest.MonkeyPatch) -> MemoryKeyring:
    made = MemoryKeyring(there=False)
    monkeypatch.setattr("supervisord_mcp.credentials.keyring.KeyringSource", lambda: made)
    monkeypatch.setattr(vault_key, "KeyringSource", lambda: made)
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})
    monkeypatch.setattr(secret_values, "_has_terminal", lambda: False)
    return made


@pytest.fixture
def told(daemon: FakeDaemon) -> FakeDaemon:
    daemon.answers[SecretChanged] = daemon.answers[SecretUnlock] = SecretChangedResult()
    return daemon


def write(home: Path, text: str) -> Path:
    file = home / "config" / "config.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def values(home: Path) -> dict[str, str]:
    return Vault(paths_in(home), {}).values()


# set


@pytest.mark.parametrize(("value", "said"), [("postgres", "ordinary word"), ("a1!", "not masked"), (VALUE, "")])
def test_what_a_weak_value_means_is_said(smcp: Smcp, home: Path, told: FakeDaemon, value: str, said: str) -> None:
    smcp("secret", "set", "first", stdin=VALUE)
    for verb, content in (("set", value), ("rotate", f"{value} ")):
        ran = smcp("secret", verb, "one", stdin=content)
        assert (ran.status, ran.out) == (0, "")
        assert said in ran.err if said else ran.err == ""
        assert value not in ran.err


def test_from_stdin_and_the_first_says_what_protects_it(smcp: Smcp, home: Path, told: FakeDaemon) -> None:
    ran = smcp("secret", "set", "github", stdin=f"{VALUE}\n")
    assert (ran.status, ran.out) == (0, "")
    assert "The vault is encrypted. Its key is in the file" in ran.err
    assert smcp("secret", "set", "lines", stdin="a\nb\r\n") == (smcp("secret", "set", "lines", stdin="a\nb"))
    assert values(home) == {"github": VALUE, "lines": "a\nb"}
    assert told.asked[0] == SecretChanged(secrets=("vault:github",), only_failed=True)


def test_without_a_daemon(smcp: Smcp, home: Path) -> None:
    assert smcp("secret", "set", "github", stdin=VALUE).status == 0
    assert smcp("secret", "rotate", "github", stdin="new-value-7x9y").status == 0
    assert values(home) == {"github": "new-value-7x9y"}


def test_with_a_grant(smcp: Smcp, home: Path, told: FakeDaemon) -> None:
    file = write(home, "[servers.a]  # mine\ncommand = ['x']\n")
    assert smcp("secret", "set", "github", "--grant", "a:TOKEN", stdin=VALUE).status == 0
    assert file.read_text() == "[servers.a]  # mine\ncommand = ['x']\ncredentials = {TOKEN = \"vault:github\"}\n"
    assert [type(operation) for operation in told.asked] == [control.Reload, SecretChanged]


def test_a_grant_that_cannot_be_written_is_told_with_what_was_stored(
    smcp: Smcp, home: Path, told: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(home, "[servers.a]\ncommand = ['x']\n")
    before = file.read_text()

    def read_only(path: Path, content: bytes) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(edit, "replace_file", read_only)
    ran = smcp("secret", "set", "github", "--grant", "a:TOKEN", stdin=VALUE)
    assert (ran.status, file.read_text(), values(home)) == (1, before, {"github": VALUE})
    assert f"vault:github is stored, but not granted to 'a': cannot write {file}: Read-only" in ran.err
    assert "nothing was changed" not in ran.err
    assert "smcp secret grant SERVER VARIABLE=vault:github" in ran.err
    assert [type(operation) for operation in told.asked] == [SecretChanged]


def test_into_the_keyring(smcp: Smcp, home: Path, keyring: MemoryKeyring) -> None:
    keyring.there = True
    assert smcp("secret", "set", "keyring:github", stdin=VALUE).status == 0
    assert keyring.entries == {"github": VALUE}
    assert smcp("secret", "set", "keyring:github", stdin=VALUE).status == 0
    ran = smcp("secret", "set", "keyring:github", stdin="another-value")
    assert ran.status == 1
    assert "smcp secret rotate keyring:github" in ran.err
    assert smcp("secret", "rotate", "keyring:github", stdin="another-value").status == 0
    assert keyring.entries == {"github": "another-value"}
    assert smcp("secret", "rm", "keyring:github").status == 0
    assert keyring.entries == {}


REFUSED: dict[str, tuple[tuple[str, ...], str, int, str]] = {
    "the value on the command line": (("set", "github", "ghp_value"), VALUE, 2, "unexpected extra argument"),
    "nothing": (("set", "github"), "", 1, "the value is empty"),
    "a NUL": (("set", "github"), f"{VALUE}\0", 1, "NUL"),
    "too long": (("set", "github"), "x" * 200_000, 1, "longer than"),
    "no name": (("set", f"{VALUE}!"), VALUE, 2, "a name has"),
    "another source": (("set", "file:/x"), VALUE, 2, "is only read"),
    "no server": (("set", "github", "--grant", "nope:X"), VALUE, 4, "no server 'nope'"),
    "no pair": (("set", "github", "--grant", "nope"), VALUE, 2, "SERVER:VARIABLE"),
    "a missing one": (("rotate", "github"), VALUE, 1, "no secret 'github'"),
    "a missing one to remove": (("rm", "github"), VALUE, 1, "no secret 'github'"),
    "no keyring": (("rotate", "keyring:github"), VALUE, 1, "there is no keyring"),
    "nothing to open": (("key", "nonsense"), VALUE, 2, "nonsense"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_stores_nothing(smcp: Smcp, home: Path, case: str) -> None:
    words, stdin, status, why = REFUSED[case]
    ran = smcp("secret", *words, stdin=stdin)
    assert ran.status == status, ran.err
    assert why.lower() in ran.err.lower()
    assert VALUE not in ran.err.replace(f"'{VALUE}!'", "")
    assert values(home) == {}


def test_what_is_not_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"s3cret\xff")))
    with pytest.raises(SecretError, match="not UTF-8") as caught:
        secret_values._asked("x")
    assert "s3cret" not in str(caught.value)


def test_a_terminal_shows_no_value(home: Path) -> None:
    """In a real one, for there are two ways to ask without echo and one of them only warns."""
    ours, theirs = pty.openpty()
    env = {"PATH": os.environ["PATH"], "SMCP_HOME": str(home), "HOME": str(home), "PYTHONPATH": str(ROOT)}
    env["PYTHON_KEYRING_BACKEND"] = "keyring.backends.fail.Keyring"
    process = subprocess.Popen(
        (sys.executable, "-c", ON_TERMINAL, sys.executable, "-m", "supervisord_mcp", "secret", "set", "github"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=env,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(theirs)
    shown = b""
    try:
        deadline = time.monotonic() + 30
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            assert time.monotonic() < deadline, shown
            if not select.select([ours], [], [], 0.1)[0]:
                continue
            try:
                shown += os.read(ours, 4096)
            except OSError:  # the terminal is gone with the last process in it
                break
            if shown.endswith(b"value of vault:github: "):
                os.write(ours, f"{VALUE}\n".encode())
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert b"The vault is encrypted." in shown
    assert VALUE.encode() not in shown
    assert values(home) == {"github": VALUE}


# rotate


def test_rotate_restarts_what_uses_it(smcp: Smcp, home: Path, told: FakeDaemon) -> None:
    smcp("secret", "set", "github", stdin=VALUE)
    ran = smcp("secret", "rotate", "github", stdin="new-value-7x9y")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert values(home) == {"github": "new-value-7x9y"}
    assert told.asked[-1] == SecretChanged(secrets=("vault:github",))


def test_rotate_of_what_others_keep_only_restarts(smcp: Smcp, home: Path, told: FakeDaemon) -> None:
    for name in ("file:~/.jira", "env:KEY", "command:op read op://x", "systemd:x"):
        assert smcp("secret", "rotate", name).status == 0
        assert told.asked[-1] == SecretChanged(secrets=(name,))
    assert values(home) == {}


def test_a_server_that_does_not_start_with_it(smcp: Smcp, home: Path, told: FakeDaemon) -> None:
    smcp("secret", "set", "github", stdin=VALUE)
    told.answers[SecretChanged] = SecretError("github: it failed", remedy="look")
    ran = smcp("secret", "rotate", "github", stdin="new-value-7x9y")
    assert ran.status == 1
    assert "it failed" in ran.err
    assert values(home) == {"github": "new-value-7x9y"}


# rm


def test_rm_refuses_what_servers_need(smcp: Smcp, home: Path) -> None:
    write(home, "[servers.a]\ncommand = ['x']\ncredentials = { T = 'vault:github' }\n")
    smcp("secret", "set", "github", stdin=VALUE)
    ran = smcp("secret", "rm", "github")
    assert ran.status == 2
    assert "granted to a" in ran.err
    assert values(home) == {"github": VALUE}
    assert smcp("secret", "rm", "github", "--force").status == 0
    assert values(home) == {}


# key and unlock


def test_key_says_what_protects_and_changes_it(
    smcp: Smcp, home: Path, told: FakeDaemon, keyring: MemoryKeyring
) -> None:
    assert "no vault yet" in smcp("secret", "key").out
    smcp("secret", "set", "github", stdin=VALUE)
    assert "Its key is in the file" in smcp("secret", "key").out
    keyring.there = True
    ran = smcp("secret", "key", "keyring")
    assert (ran.status, ran.out) == (0, "")
    assert "Its key is in the keyring of your system" in ran.err
    shown = json.loads(smcp("secret", "key", "--json").out)
    assert shown["file"] == str(home / "state" / "vault.json")
    assert shown["key"]["kind"] == "keyring"
    assert smcp("secret", "key", "passphrase", stdin="correct horse\n").status == 0
    assert keyring.entries == {}
    assert told.asked[-1] == SecretUnlock(passphrase="correct horse")
    ran = smcp("secret", "rotate", "github", stdin="new")
    assert ran.status == 1
    assert "locked by a passphrase" in ran.err


def test_a_passphrase_is_asked_for_where_there_is_a_terminal(
    smcp: Smcp, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smcp("secret", "set", "github", stdin=VALUE)
    smcp("secret", "key", "passphrase", stdin="correct horse")
    monkeypatch.setattr(secret_values, "_has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "correct horse")
    assert smcp("secret", "rotate", "github", stdin="new-value-7x9y").status == 0
    monkeypatch.setattr("getpass.getpass", lambda prompt: "wrong horse")
    ran = smcp("secret", "rotate", "github", stdin="newer-value")
    assert ran.status == 1
    assert "does not open it" in ran.err


def test_a_new_passphrase_is_typed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(("one", "two", "one", "one"))
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt: next(answers))
    with pytest.raises(UsageError, match="not the same"):
        secret_values._new_passphrase()
    assert secret_values._new_passphrase() == "one"


class Terminal:
    """Stands for a stdin on which a person types."""

    def isatty(self) -> bool:
        return True


def test_unlock_tells_the_daemon(smcp: Smcp, told: FakeDaemon) -> None:
    assert smcp("secret", "unlock", stdin="correct horse\n").status == 0
    assert told.asked == [SecretUnlock(passphrase="correct horse")]
