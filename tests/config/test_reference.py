"""Sample, schema and reference name every setting and agree with the models."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.daemon import Table
from supervisord_mcp.config.load import load
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.reference import mask, reference, sample, schema, show
from tests.config.places import paths_in, write

#: A line of the sample that holds a setting, as the head of the sample explains.
SETTING = re.compile(r"^#(?=[a-z_]+ = )", re.MULTILINE)
#: Settings of the sample that do not go together with its command, or with its runtime.
ELSEWHERE = re.compile(r"^(image|package|engine) = .*\n", re.MULTILINE)


def keys() -> list[str]:
    models = [model for model in Table.__subclasses__() if model not in (Config, Profile)]
    return sorted({key for model in models for key in model.model_fields})


@pytest.mark.parametrize("key", keys())
def test_every_key_is_everywhere(key: str) -> None:
    assert re.search(rf"\b{key} = ", sample())
    assert f"| `{key}` |" in reference()
    assert f'"{key}"' in str(schema()).replace("'", '"')


@pytest.mark.parametrize("key", Profile.model_fields)
def test_every_key_of_a_profile_is_in_the_reference(key: str) -> None:
    _, _, table = reference().partition("#### profiles/NAME.toml")
    assert f"| `{key}` |" in table


def test_the_sample_loads(tmp_path: Path) -> None:
    paths = write(paths_in(tmp_path), sample())
    expected = Config(servers={"time": ServerConfig(command=("uvx", "mcp-server-time"))})
    assert load(paths).config == expected
    write(paths, "".join(line for line in sample().splitlines(keepends=True) if not line.startswith("#")))
    assert load(paths).config == expected


def test_the_sample_loads_with_every_setting_and_they_are_the_defaults(tmp_path: Path) -> None:
    whole = SETTING.sub("", sample())
    assert set(tomllib.loads(whole)["servers"]["time"]) == set(ServerConfig.model_fields)
    text = ELSEWHERE.sub("", whole)
    config = load(write(paths_in(tmp_path), text)).config
    entry, default = config.servers["time"], ServerConfig(command=("uvx", "mcp-server-time"))
    examples = {"args", "confirm", "credentials", "cwd", "env", "exposed", "inherit", "mounts", "permit"}
    examples |= {"project_file"}
    for key in set(ServerConfig.model_fields) - examples:
        assert getattr(entry, key) == getattr(default, key)
    for key in examples:
        assert getattr(entry, key) != getattr(default, key)
    assert config.daemon.path == ("~/.local/bin",)
    assert config.daemon.model_copy(update={"path": ()}) == Config().daemon


def test_lines_of_the_sample_are_short() -> None:
    lines = sample().splitlines()
    assert max(len(line) for line in lines if line.startswith("# ")) <= 102
    # A table is written on one line, so that one "#" is all there is to remove.
    assert max(map(len, lines)) <= 135


def test_the_schema_says_what_is_allowed() -> None:
    found = schema()
    server = found["$defs"]["ServerConfig"]
    assert server["anyOf"] == [{"required": ["command"]}, {"required": ["image"]}, {"required": ["package"]}]
    assert server["additionalProperties"] is False
    assert server["properties"]["idle_timeout"]["default"] == "10m"
    assert server["properties"]["budget"]["default"] == {"restarts": 5, "within": "1m"}
    assert server["properties"]["stop_grace"]["description"].endswith("Value: duration.")
    assert "default" not in server["properties"]["command"]
    assert found["$defs"]["DaemonConfig"]["properties"]["max_message"]["default"] == "64M"
    assert found["properties"]["servers"]["propertyNames"]["pattern"].startswith("^[A-Za-z0-9]")
    assert found["properties"]["servers"]["additionalProperties"] == {"$ref": "#/$defs/ServerConfig"}


def titles(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["title"]] if isinstance(value.get("title"), str) else []
        return own + [title for inner in value.values() for title in titles(inner)]
    return []


def test_the_schema_has_titles_of_tables_only() -> None:
    assert set(titles(schema())) <= {model.__name__ for model in Table.__subclasses__()}


def test_the_reference_is_a_table_for_every_table() -> None:
    text = reference()
    assert text.count("| key | value | default | meaning |") == 14
    assert '| `idle_exit` | duration or "off" | `"10m"` |' in text
    assert "| `command` | list of strings, or a string that is split like in a shell | – |" in text
    assert '| `access` | `"ro"`, `"rw"` | `"ro"` |' in text
    assert "| `mounts` | list of tables | – |" in text
    assert "| `cwd` | path | – |" in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 5


def test_a_configuration_is_shown_without_secrets() -> None:
    entry = {"command": ["x"], "env": {"A": "s3cret", "B": "${B:-s3cret}", "C": "x${C}$$s3cret"}, "idle_timeout": "off"}
    config = Config.model_validate({"servers": {"a": {**entry, "credentials": {"T": "vault:github"}}}})
    text = show(config)
    assert "s3cret" not in text
    data = tomllib.loads(text)
    assert data["servers"]["a"]["env"] == {"A": "***", "B": "${B}", "C": "***${C}***"}
    assert data["servers"]["a"]["credentials"] == {"T": "vault:github"}
    assert data["servers"]["a"]["idle_timeout"] == "off"
    assert Config.model_validate(data).servers["a"].budget == config.servers["a"].budget


def test_mask() -> None:
    assert mask("") == ""
    assert mask("~/x") == "~***"
