"""Secrets where others can read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.exposure import exposures, plain_secrets, words_of
from supervisord_mcp.config.load import load
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.reference import show
from supervisord_mcp.errors import ConfigError
from tests.config.places import paths_in, write

TOKEN = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"


def server(**entry: Any) -> ServerConfig:
    return ServerConfig.model_validate({"command": ["server"], **entry})


def kinds(one: ServerConfig, stored: dict[str, str] | None = None) -> list[tuple[Any, str]]:
    """Return where a secret is shown, and what the entry would have to allow."""

    def known(text: str, _told: str) -> list[str]:
        return [name for name, value in (stored or {}).items() if value in text]

    found = list(exposures(one, words_of(one), known))
    assert all(TOKEN not in text and "hunter2" not in text and "secret set NAME" in text for _, text in found)
    return [(path, text.rpartition('exposed = ["')[2].rstrip('"]')) for path, text in found]


def test_words_of_a_command_show_what_is_in_them() -> None:
    one = server(command=["server", f"--token={TOKEN}"], args=["-v", "postgres://me:hunter2@db"])
    assert kinds(one) == [(("command", 1), "github"), (("args", 1), "url-password")]
    assert kinds(server(args=["--token", "${GITHUB_TOKEN}"])) == []


def test_stored_secrets_are_known_by_their_value() -> None:
    one = server(args=["--key", "some-value-of-no-shape"])
    assert kinds(one, {"vault:mine": "some-value-of-no-shape"}) == [(("args", 1), "vault:mine")]
    assert kinds(server(args=[TOKEN]), {"vault:gh": TOKEN}) == [(("args", 0), "vault:gh")]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--password=word", "word"], ["word", ""]),
        (["--password", "word", "word"], ["", "word", ""]),
        (["--user", "word", "-v", "--api-key", "a=b"], ["", "", "", "", "a=b"]),
    ],
)
def test_what_follows_an_option_for_secrets_is_told_as_one(args: list[str], told: list[str]) -> None:
    heard: list[str] = []
    one = server(args=args)

    def known(_text: str, told: str) -> list[str]:
        heard.append(told)
        return []

    assert list(exposures(one, words_of(one), known)) == []
    assert heard == ["", *told]


@pytest.mark.parametrize("allowed", ["github", "vault:gh"])
def test_an_entry_may_allow_it_by_name(allowed: str) -> None:
    assert kinds(server(args=[TOKEN], exposed=[allowed]), {"vault:gh": TOKEN}) == []
    other = server(args=[f"{TOKEN} xoxb-123456789012-abcdefABCDEF"], exposed=[allowed])
    assert [kind for _, kind in kinds(other)] == (["slack"] if allowed == "github" else ["github", "slack"])


def test_the_command_of_a_source_shows_what_is_in_it_too(tmp_path: Path) -> None:
    paths = write(paths_in(tmp_path))
    entry = '[servers.a]\ncommand = "server"\ncredentials = {{ B = "vault:b", T = "command:get --api-key {}" }}\n'
    paths.config_file.write_text(entry.format(TOKEN))
    with pytest.raises(ConfigError) as raised:
        load(paths)
    assert [problem.key for problem in raised.value.problems] == ["servers.a.credentials.T"]
    assert TOKEN not in str(raised.value)
    paths.config_file.write_text(entry.format("plain") + 'exposed = ["vault:own"]\n')
    load(paths, known=lambda _text, told: ["vault:own"] if told == "plain" else [])
    paths.config_file.write_text(entry.format("plain"))
    with pytest.raises(ConfigError, match="vault:own"):
        load(paths, known=lambda _text, told: ["vault:own"] if told == "plain" else [])


def test_only_what_there_is_can_be_allowed() -> None:
    with pytest.raises(ValueError, match='did you mean "github"'):
        server(exposed=["githubb"])
    with pytest.raises(ValueError, match="there are github, gitlab"):
        server(exposed=["?"])


def test_it_is_refused_at_load_with_its_place(tmp_path: Path) -> None:
    paths = write(paths_in(tmp_path))
    paths.config_file.write_text(f'[servers.a]\ncommand = "server"\nargs = [\n  "-v",\n  "{TOKEN}",\n]\n')
    with pytest.raises(ConfigError) as raised:
        load(paths)
    [problem] = raised.value.problems
    assert (problem.line, problem.key) == (5, "servers.a.args[1]")
    assert TOKEN not in str(raised.value)
    paths.config_file.write_text(f'[servers.a]\ncommand = "server"\nargs = ["{TOKEN}"]\nexposed = ["github"]\n')
    shown = show(load(paths).config)
    assert TOKEN not in shown
    assert '"***"' in shown
    paths.config_file.write_text('[servers.a]\ncommand = ["server", "my-own-value"]\n')
    with pytest.raises(ConfigError, match="vault:own"):
        load(paths, known=lambda text, _told: ["vault:own"] if "my-own-value" in text else [])


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"env": {"GITHUB_TOKEN": "anything"}}, [("env", "GITHUB_TOKEN")]),
        ({"env": {"WHATEVER": TOKEN}}, [("env", "WHATEVER")]),
        ({"env": {"DATABASE": "postgres://me:hunter2@db"}}, [("env", "DATABASE")]),
        ({"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}", "API_KEY": "", "MAX_TOKENS": "5"}}, []),
        ({"args": ["--api-key", "something"]}, [("args", 1)]),
        ({"args": ["--api-key=something", "-v"]}, [("args", 0)]),
        ({"args": ["--api-key", "${KEY}", "--token=", "--password", "-x", "plain"]}, []),
        ({"args": ["--api-key", TOKEN]}, []),
    ],
)
def test_what_is_not_refused_is_worth_a_warning(entry: dict[str, Any], expected: list[Any]) -> None:
    found = list(plain_secrets(server(**entry)))
    assert [path for path, _ in found] == expected
    assert all("secret set NAME" in text and "hunter2" not in text and TOKEN not in text for _, text in found)
