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
    assert list(secret_words(["--token", "${TOKEN}", "--api-key=${KEY}", "--token", "${A:-hunter2}"])) == [4]
    assert has_token(f"a {TOKEN} b")
    assert not has_token("nothing here")


@pytest.mark.parametrize(
    "words",
    [
        ("API_TOKEN=hunter2",),
        ("-e", "API_TOKEN=hunter2"),
        ("API_KEY=hunter2 exec node x.js",),
        ("export A=1; DB_PASSWORD=hunter2 ./run",),
        ('{"url": "x", "apiKey": "hunter2"}',),
        ("X-Api-Key: hunter2",),
        ("x-api-key:hunter2",),
        ("--auth", "anna:hunter2"),
        ("--bearer=hunter2",),
        ("--db-pass", "hunter2"),
    ],
)
def test_a_word_with_a_secret_in_it(words: tuple[str, ...]) -> None:
    assert list(secret_words(("x", *words))) == [len(words)]


@pytest.mark.parametrize(
    "words",
    [
        ("LEVEL=debug",),
        ("API_TOKEN=$API_TOKEN exec x",),
        ("a=b c=d",),
        ('{"apiKey": "<your key>"}',),
        ("http://h:80/x",),
        ("Accept: text/plain",),
        ("--auth", "none"),
        ("--auth", "--bearer"),
        ("--author", "anna"),
        ("--pass",),
        ("c:token",),
    ],
)
def test_a_word_without_one(words: tuple[str, ...]) -> None:
    assert list(secret_words(("x", *words))) == []
