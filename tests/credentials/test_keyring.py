"""The keyring of the system: a real Secret Service on a D-Bus of its own, and what there is where there is none."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import keyring.backend
import keyring.core
import pytest
from keyring.backends import fail
from keyring.errors import InitError, KeyringLocked

from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.errors import SecretError
from tests.kit.daemon import ROOT
from tests.kit.required import need

#: Unlocks a keyring that it makes, tries what is to be tried, and ends the service with the session.
SESSION = """
printf 'password of the keyring' | gnome-keyring-daemon --unlock --foreground --components=secrets >&2 &
service=$!
trap 'kill $service; wait $service' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10; do
    dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.GetNameOwner \
        string:org.freedesktop.secrets >/dev/null 2>&1 && break
    sleep 0.3
done
"$@"
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what came of trying a real Secret Service."""
    need(all(map(shutil.which, ("dbus-run-session", "dbus-send", "gnome-keyring-daemon"))), "D-Bus and gnome-keyring")
    home = tmp_path_factory.mktemp("keyring")
    run = home / "run"
    run.mkdir(mode=0o700)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "XDG_RUNTIME_DIR": str(run), "PYTHONPATH": str(ROOT)}
    program = Path(__file__).with_name("secret_service.py")
    words = ("dbus-run-session", "--", "sh", "-c", SESSION, "sh", sys.executable, str(program), str(home / "smcp"))
    done = subprocess.run(words, env=env, cwd=home, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_real_secret_service(session: dict[str, Any]) -> None:
    assert session["available"] is True
    assert session["ours"] == "s3cret ü"
    assert session["has"] == [True, False]
    assert session["theirs"] == "of another program"
    for key in ("missing", "removed"):
        assert session[key].startswith("the keyring has no entry 'github' of 'smcp'")
        assert "smcp secret set keyring:github" in session[key]
    assert session["twice"].startswith("the keyring has no entry 'github'")


def test_it_holds_the_key_of_the_vault(session: dict[str, Any]) -> None:
    assert (session["vault"], session["kind"]) == ("in the vault", "keyring")
    assert session["files"] == ["vault.json", "vault.lock"]


def test_a_locked_one_is_told_and_nothing_waits_for_a_prompt(session: dict[str, Any]) -> None:
    assert session["locked"].startswith("the keyring is locked")
    assert "Unlock it" in session["locked"]
    assert "it is locked: its key is in the keyring of the system, and the keyring is locked" in session["locked vault"]


class Odd(keyring.backend.KeyringBackend):
    """A keyring that does what a test says."""

    priority = 1
    does: Any = None

    def get_password(self, service: str, username: str) -> str | None:
        answer: str | None = type(self).does()
        return answer

    def set_password(self, service: str, username: str, password: str) -> None:
        raise NotImplementedError


@pytest.fixture
def odd(monkeypatch: pytest.MonkeyPatch) -> type[Odd]:
    monkeypatch.setattr(keyring.core, "_keyring_backend", Odd())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(Odd, "does", staticmethod(lambda: "value"))
    return Odd


def raising(error: Exception) -> Any:
    def do() -> str:
        raise error

    return staticmethod(do)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (KeyringLocked("s3cret"), "the keyring is locked"),
        (InitError("s3cret"), "cannot be opened"),
        (RuntimeError("s3cret"), r"failed \(builtins.RuntimeError\)"),
    ],
    ids=["locked", "not there", "a fault"],
)
def test_failures_of_a_keyring(odd: type[Odd], monkeypatch: pytest.MonkeyPatch, error: Exception, why: str) -> None:
    assert KeyringSource().read("x") == "value"
    monkeypatch.setattr(odd, "does", raising(error))
    with pytest.raises(SecretError, match=why) as caught:
        KeyringSource().read("x")
    assert caught.value.remedy
    assert "s3cret" not in str(caught.value)


def test_an_empty_entry_and_one_that_hangs(odd: type[Odd], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(odd, "does", staticmethod(lambda: ""))
    with pytest.raises(SecretError, match="empty"):
        KeyringSource().read("x")
    release = threading.Event()
    monkeypatch.setattr(odd, "does", staticmethod(lambda: str(release.wait())))
    try:
        with pytest.raises(SecretError, match=r"no answer within 0.05 s"):
            KeyringSource(0.05).read("x")
    finally:
        release.set()


def test_one_of_another_package_does_not_hold_the_key_of_a_vault(odd: type[Odd]) -> None:
    assert not KeyringSource().available


def test_no_keyring_and_one_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", fail.Keyring())  # type: ignore[no-untyped-call]
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    assert not KeyringSource().available
    with pytest.raises(SecretError, match="no keyring on this machine") as caught:
        KeyringSource().read("x")
    assert "smcp secret set" in caught.value.remedy
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "no.such.module")
    with pytest.raises(SecretError, match="cannot be used: "):
        KeyringSource().read("x")
    assert not KeyringSource().available
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", f"{__name__}.Odd")
    monkeypatch.setattr(Odd, "does", staticmethod(lambda: "value"))
    assert KeyringSource().read("x") == "value"
