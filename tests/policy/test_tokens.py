"""What looks like a secret, and what does not."""

from __future__ import annotations

import pytest

from supervisord_mcp.policy.tokens import KINDS, TOKENS, conceal, find_secrets, sounds_secret

LETTERS = "aB3dE6gH1jK2mN5pQ8sT0vW4yZ7bC9fG1hJ3kL5n"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
EXAMPLES = {
    "github": (f"ghp_{LETTERS[:36]}", f"gho_{LETTERS[:36]}", f"github_pat_{LETTERS[:22]}_{LETTERS}"),
    "gitlab": (f"glpat-{LETTERS[:20]}", f"glptt-{LETTERS}"),
    "slack": ("xoxb-123456789012-abcdefABCDEF", "xoxp-1234567890-abc", "xapp-1-A012-3456-abcdef"),
    "openai": (f"sk-{LETTERS}", f"sk-proj-{LETTERS}_x-y", f"sk-or-v1-{LETTERS}"),
    "anthropic": (f"sk-ant-api03-{LETTERS}-_x",),
    "aws": ("AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE"),
    "google": (f"AIza{LETTERS[:35]}", f"GOCSPX-{LETTERS[:28]}", f"ya29.{LETTERS}"),
    "npm": (f"npm_{LETTERS[:36]}",),
    "pypi": (f"pypi-AgEIcHlwaS5vcmc{LETTERS}",),
    "stripe": (f"sk_live_{LETTERS[:24]}", f"rk_test_{LETTERS[:24]}", f"whsec_{LETTERS}"),
    "huggingface": (f"hf_{LETTERS[:34]}",),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36",),
    "private-key": ("-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA PRIVATE KEY-----"),
}


def found(text: str) -> list[tuple[str, str]]:
    return [(secret.kind, secret.value) for secret in find_secrets(text)]


def test_every_shape_has_an_example() -> None:
    assert [shape.name for shape in TOKENS] == [kind for kind in KINDS if kind in EXAMPLES]
    assert {shape.name for shape in TOKENS} == set(EXAMPLES)


@pytest.mark.parametrize(("kind", "token"), [(kind, token) for kind, tokens in EXAMPLES.items() for token in tokens])
@pytest.mark.parametrize("around", ["{}", "--token={}", "x {} y", '"{}",', "https://host.example/{}/x", "Token:{}"])
def test_a_token_is_found_by_its_shape(kind: str, token: str, around: str) -> None:
    assert found(around.format(token)) == [(kind, token)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "npx",
        "-y",
        "@modelcontextprotocol/server-github",
        "sk-learn-a-package-with-a-long-name",
        "ghp_tooshort",
        "glpat-short",
        f"x{EXAMPLES['github'][0]}",
        "AKIA0000",
        "task-1234567890-abcdefghijklmnop",
        "https://host.example/path?page=12345678",
        "https://user@host.example/x",
        "https://host.example:443/a:b@c",
        "https://${USER}:${PASSWORD}@host.example",
        "https://user:<password>@host.example",
        "https://user:password@host.example",
        "https://host.example?token=${TOKEN}",
        "https://host.example?token=xxxxxxxx",
        "https://host.example?key=first-page",
        "Authorization: Bearer ${TOKEN}",
        "Authorization: Bearer <your-token>",
        "git+https://github.com/owner/project@0123456789abcdef0123456789abcdef01234567",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "-----BEGIN CERTIFICATE-----",
    ],
)
def test_what_only_resembles_one_is_none(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://me:hunter2@db/x", [("url-password", "hunter2")]),
        ("HTTPS://me:p%40ss:x@db", [("url-password", "p%40ss:x")]),
        ("redis://:hunter2@db", [("url-password", "hunter2")]),
        ("https://h/x?a=1&api_key=0123456789#top", [("url-query", "0123456789")]),
        ("https://h/sse?token=abcdefgh", [("url-query", "abcdefgh")]),
        ("Authorization: Bearer 0123456789abc", [("authorization", "0123456789abc")]),
        ("authorization:Basic dXNlcjpwYXNz", [("authorization", "dXNlcjpwYXNz")]),
        (f"AKIAIOSFODNN7EXAMPLE:{SECRET_KEY}", [("aws", SECRET_KEY), ("aws", "AKIAIOSFODNN7EXAMPLE")]),
        (f"AWS_SECRET_ACCESS_KEY={SECRET_KEY}", [("aws", SECRET_KEY)]),
        (f'"aws_secret_key": "{SECRET_KEY}"', [("aws", SECRET_KEY)]),
    ],
)
def test_what_is_a_secret_by_its_place(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


def test_each_part_is_found_once() -> None:
    token = EXAMPLES["github"][0]
    assert found(f"https://me:{token}@github.com") == [("github", token)]
    assert found(f"{token} {EXAMPLES['npm'][0]}") == [("github", token), ("npm", EXAMPLES["npm"][0])]


def test_what_is_found_does_not_show_it() -> None:
    token = EXAMPLES["github"][0]
    assert token not in repr(list(find_secrets(token)))
    assert conceal(f"--key={token} postgres://me:hunter2@db", "***") == "--key=*** postgres://me:***@db"
    assert conceal("plain", "***") == "plain"


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("GITHUB_TOKEN", True),
        ("GITHUB_PERSONAL_ACCESS_TOKEN", True),
        ("api_key", True),
        ("APIKEY", True),
        ("PGPASSWORD", True),
        ("AWS_SECRET_ACCESS_KEY", True),
        ("CLIENT_SECRET", True),
        ("GH_PAT", True),
        ("SENTRY_DSN", True),
        ("PATH", False),
        ("MAX_TOKENS", False),
        ("TOKEN_LIMIT", False),
        ("GOOGLE_APPLICATION_CREDENTIALS", False),
        ("KEY", False),
        ("COMPAT", False),
    ],
)
def test_names_that_secrets_have(name: str, secret: bool) -> None:
    assert sounds_secret(name) is secret
