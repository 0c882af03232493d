"""Secrets that programs print: real programs, a real ``pass``, and every way in which one fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from supervisord_mcp.credentials.base import LONGEST
from supervisord_mcp.credentials.command import CommandSource
from supervisord_mcp.errors import LaunchError, SecretError
from supervisord_mcp.runtimes.search import find_command
from tests.kit.required import need

VALUE = "s3cret-of-a-program"


def source(environ: Mapping[str, str] | None = None, seconds: float = 10.0) -> CommandSource:
    env = {"PATH": os.environ["PATH"], **(environ or {})}
    return CommandSource(env, lambda name: find_command(name, env["PATH"].split(":"), env, "/"), seconds)


def program(folder: Path, text: str) -> str:
    path = folder / "ask"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_what_it_prints_is_the_secret(tmp_path: Path) -> None:
    assert source().read(f"printf '{VALUE}\\n'") == VALUE
    assert source({"WHERE": "here"}).read(f"{program(tmp_path, 'echo $WHERE $1')} 'a b'") == "here a b"


def test_there_is_no_shell() -> None:
    assert source().read("echo $HOME; `id` > x") == "$HOME; `id` > x"


FAILING = {
    "a failure": (f"echo {VALUE}; echo {VALUE} >&2; exit 3", r"failed \(exit 3\)"),
    "a signal": (f"echo {VALUE}; kill -9 $$", r"failed \(signal 9\)"),
    "nothing": ("true", "empty"),
    "binary": (f"printf '{VALUE}\\377'", "UTF-8"),
    "too much": (f"while :; do echo {VALUE}; done", f"more than {LONGEST} bytes"),
}


@pytest.mark.parametrize("case", FAILING)
def test_failures_say_how_and_never_the_value(tmp_path: Path, case: str) -> None:
    text, why = FAILING[case]
    with pytest.raises(SecretError, match=why) as caught:
        source().read(program(tmp_path, text))
    assert VALUE not in str(caught.value)
    assert caught.value.remedy


def test_one_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match=r"no answer within 0.2 s"):
        source(seconds=0.2).read(program(tmp_path, "sleep 1000"))


def test_programs_that_are_not_there_or_do_not_run(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="no-such-program") as caught:
        source().read("no-such-program x")
    assert "whole path" in caught.value.remedy

    def find(name: str) -> str:
        return str(tmp_path / name)

    with pytest.raises(SecretError, match="ask does not start: No such file") as caught:
        CommandSource({}, find).read("ask me")
    assert "ask me" in caught.value.remedy
    with pytest.raises(SecretError, match="it cannot be run"):
        CommandSource({"A": "a\0b"}, lambda name: "/bin/true").read("true")


def test_what_was_searched_is_told() -> None:
    def find(name: str) -> str:
        raise LaunchError(f"{name}: not found in /a:/b")

    with pytest.raises(SecretError, match="/a:/b"):
        CommandSource({}, find).read("op read x")


def test_a_real_pass(tmp_path: Path) -> None:
    need(shutil.which("pass") and shutil.which("gpg"), "pass and gpg")
    # A short path: the sockets of gpg-agent are in it.
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    env = {"GNUPGHOME": str(home), "PASSWORD_STORE_DIR": str(tmp_path / "store"), "HOME": str(tmp_path)}
    everything = {**os.environ, **env}

    def run(*words: str, stdin: str = "") -> None:
        subprocess.run(words, env=everything, input=stdin, text=True, check=True, capture_output=True, timeout=60)

    try:
        batch = ("gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", "")
        run(*batch, "--quick-generate-key", "Test <test@example.com>", "ed25519", "sign", "never")
        shown = subprocess.run(
            ("gpg", "--batch", "--with-colons", "--list-keys"),
            env=everything,
            capture_output=True,
            text=True,
            check=True,
        )
        key = next(line.split(":")[9] for line in shown.stdout.splitlines() if line.startswith("fpr"))
        run(*batch, "--quick-add-key", key, "cv25519", "encr", "never")
        run("pass", "init", "test@example.com")
        run("pass", "insert", "--multiline", "work/github", stdin=f"{VALUE}\n")
        assert source(env).read("pass show work/github") == VALUE
        with pytest.raises(SecretError, match=r"pass failed \(exit 1\)") as caught:
            source(env).read("pass show work/jira")
        assert "pass show work/jira" in caught.value.remedy
    finally:
        subprocess.run(("gpgconf", "--kill", "all"), env=everything, check=True, timeout=60)
