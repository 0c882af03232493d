"""How secrets are named."""

from __future__ import annotations

import pytest

from supervisord_mcp.config.references import (
    SOURCES,
    SecretReference,
    check_reference,
    check_stored_name,
    command_words,
    parse_reference,
)

GOOD = (
    "vault:github",
    "vault:work.github-2_x@y+z",
    "keyring:github",
    "keyring:some service/me@example.com",
    "file:/run/secrets/token",
    "file:~/.token",
    "env:GITHUB_TOKEN",
    "command:op read op://vault/item/field",
    "command:pass show 'two words'",
    "systemd:token.cred",
)
BAD = (
    ("ghp_0123456789abcdefghij", "names no source"),
    ("", "names no source"),
    ("vault", "names no source"),
    ("Vault:x", "names no source"),
    ("https://user:pass@example.com", "names no source"),
    ("vault:", "a name has"),
    ("vault:.hidden", "a name has"),
    ("vault:a/b", "a name has"),
    ("vault:" + "a" * 129, "a name has"),
    ("systemd:../passwd", "a name has"),
    ("keyring:", "SERVICE/USER"),
    ("keyring:service/", "SERVICE/USER"),
    ("file:token", "absolute"),
    ("file:~other/x", "absolute"),
    ("env:A-B", "environment variable"),
    ("env:", "environment variable"),
    ("command:", "no command"),
    ("command:''", "no command"),
    ("command:pass 'show", "cannot be split"),
    ("file:/a\nb", "control characters"),
    ("file:/" + "a" * 4096, "too long"),
)


@pytest.mark.parametrize("text", GOOD)
def test_what_names_a_secret(text: str) -> None:
    found = parse_reference(text)
    assert str(found) == check_reference(text) == text
    assert found == SecretReference(*text.split(":", 1))
    assert found.source in SOURCES


@pytest.mark.parametrize(("text", "why"), BAD)
def test_what_does_not_and_is_not_quoted(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        check_reference(text)
    assert len(text) < 10 or text not in str(caught.value)


def test_the_words_of_a_command_are_those_of_a_shell_without_its_signs() -> None:
    assert command_words("op read 'op://a b/c' $HOME; x") == ("op", "read", "op://a b/c", "$HOME;", "x")


def test_names_in_the_vault() -> None:
    assert check_stored_name("a") == "a"
    with pytest.raises(ValueError, match="a name has"):
        check_stored_name("a b")
