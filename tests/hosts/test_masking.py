"""What a preview hides."""

from __future__ import annotations

import json

import pytest

from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.masking import MASK, hidden_values, masked
from supervisord_mcp.hosts.toml import Toml
from supervisord_mcp.hosts.yaml import Yaml


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"env": {"LEVEL": "debug"}}, {"env": {"LEVEL": MASK}}),
        ({"env": {"A": "", "B": "${env:B}", "C": "$C", "D": "{env:D}", "E": 1}}, None),
        ({"env": {"A": "x${env:B}"}}, {"env": {"A": MASK}}),
        ({"headers": {"X": "y"}, "http_headers": {"X": "y"}}, {"headers": {"X": MASK}, "http_headers": {"X": MASK}}),
        ({"apiKey": "k", "api_key": "k", "access-key": "k"}, {"apiKey": MASK, "api_key": MASK, "access-key": MASK}),
        ({"primaryToken": {"value": "kept"}}, None),
        ({"password": "p", "PASSWORD_FILE": "p"}, {"password": MASK, "PASSWORD_FILE": MASK}),
        ({"name": "token"}, None),
        ({"args": ["--api-key", "k", "--port", "1"]}, {"args": ["--api-key", MASK, "--port", "1"]}),
        ({"args": ["--token=abc", "-x"]}, {"args": [MASK, "-x"]}),
        ({"args": ["--api-key", "--verbose"]}, None),
        ({"args": ["--header", "Authorization: Bearer x"]}, {"args": ["--header", MASK]}),
        ({"args": ["-e", "GITHUB_TOKEN", "image"]}, None),
        ({"args": ["postgres://u:p@host/db?sslmode=on"]}, {"args": [f"postgres://{MASK}@host/db?sslmode={MASK}"]}),
        ({"url": "https://x.example/mcp?key=abc&v=1"}, {"url": f"https://x.example/mcp?key={MASK}&v={MASK}"}),
        ({"url": "https://x.example/@scope/a"}, None),
    ],
)
def test_what_is_hidden(value: object, shown: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    expected = json.dumps(value if shown is None else shown, ensure_ascii=False)
    assert masked(Json(), text) == expected


def test_other_languages() -> None:
    assert masked(Toml(), "[a.env]\nK = 'v' # c\n") == f"[a.env]\nK = '{MASK}' # c\n"
    assert masked(Yaml(), "a:\n  envs:\n    K: v # c\n    L: |\n      two\n      lines\nb: 1\n") == (
        f"a:\n  envs:\n    K: {MASK} # c\n    L: {MASK}\nb: 1\n"
    )
    # The value of an alias is hidden where it stands.
    assert masked(Yaml(), "y: &y {K: value}\nenv: *y\n") == f"y: &y {{K: {MASK}}}\nenv: *y\n"


def test_secrets_that_are_named() -> None:
    text = '{"a": "x-sec\\u00e9 \\"1\\"-y", "b": "abc", "c": "xabc"}'
    assert masked(Json(), text, ['secé "1"', "abc"]) == f'{{"a": "x-{MASK}-y", "b": "{MASK}", "c": "xabc"}}'


def test_values_to_hide_elsewhere() -> None:
    assert hidden_values(Json(), '{"env": {"A": "long value", "B": "abc"}, "x": "y"}') == {"long value"}
