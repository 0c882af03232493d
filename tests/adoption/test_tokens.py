"""What counts as a secret in a file of a host."""

from __future__ import annotations

import pytest

from supervisord_mcp.adoption.tokens import has_token, is_secret, secret_words, secrets_in
from tests.adoption.machine import TOKEN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GITHUB_TOKEN", "abc123def"),
        ("API_KEY", "k9"),
        ("ANYTHING", TOKEN),
        ("X", "sk-ant-" + "a" * 30),
        ("DATABASE_URL", "postgres://anna:hunter2@db/x"),
        ("ENDPOINT", "https://h.example/mcp?api_key=zz81u2xx"),
        ("GITHUB_USER_TOKEN", "abcdef"),
        ("HEADER", "Bearer eyJhbGciOiJub25l.eyJzdWIiOiJhbm5h.c2lnbmF0dXJl"),
    ],
)
def test_secrets(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KEYBOARD", "us"),
        ("PUBLIC_KEY", "zz"),
        ("MAX_TOKENS", "4000"),
        ("TOKEN", "<your token>"),
        ("TOKEN", "YOUR_TOKEN"),
        ("TOKEN", ""),
        ("TOKEN_FILE", "abc"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/anna/key.json"),
        ("AUTH_TYPE", "basic"),
        ("MONKEY", "x"),
        ("LOG_LEVEL", "debug"),
        ("URL", "https://anna@h.example/a?page=2"),
        ("URL", "http://[broken"),
        ("URL", "postgres://anna:xxx@db/x"),
    ],
)
def test_no_secrets(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_variables_and_words_of_a_command() -> None:
    assert secrets_in({"A_TOKEN": "abc", "PATH": "/bin"}) == {"A_TOKEN": "abc"}
    words = ["npx", "--token", "abc", "--api-key=zz", "--verbose", "-k", "postgres://u:hunter2@h/d", "--level", "--x"]
    assert list(secret_words(words)) == [2, 3, 6]
    assert list(secret_words([TOKEN])) == [0]
    assert has_token(f"a {TOKEN} b")
    assert not has_token("nothing here")
