"""The words for every kind of fault, and that no secret is in them."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import pytest
from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from supervisord_mcp.config.faults import faults, inner
from supervisord_mcp.config.models import Config, Mount, ServerConfig


def found(data: dict[str, Any]) -> dict[str, str]:
    """Return the messages by key path, for a whole configuration."""
    with pytest.raises(ValidationError) as caught:
        Config.model_validate(data)
    return {".".join(map(str, path)): message for path, message in faults(caught.value)}


def of_server(**keys: Any) -> dict[str, str]:
    """Return the messages by key, for one server."""
    messages = found({"servers": {"s": {"command": ["x"], **keys}}})
    return {path.removeprefix("servers.s."): message for path, message in messages.items()}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"server": {}}, "unknown key 'server'; did you mean 'servers'?"),
        ({"mcpServers": {}}, "unknown key 'mcpServers'; did you mean 'servers'?"),
        ({"zzz": 1}, "unknown key 'zzz'; known here: daemon, audit, metrics, servers"),
        ({"idle_exit": 1}, "unknown key 'idle_exit' here; it belongs to [daemon]"),
        ({"command": "x"}, "unknown key 'command' here; it belongs to [servers.NAME]"),
        ({"path": 1}, "unknown key 'path' here; it belongs to [daemon] or 'mounts' of [servers.NAME]"),
        ({"servers": {"log": {"command": "x", "log": {"kep": 1}}}}, "unknown key 'kep'; did you mean 'keep'?"),
        ({"servers": {"daemon": {"command": "x", "era": "old"}}}, 'must be "auto" or "legacy" or "modern"'),
        ({"restarts": 1}, "unknown key 'restarts' here; it belongs to 'budget' of [servers.NAME]"),
        ({"servers": []}, "must be a table, not an array"),
        ({"servers": {"s": 1}}, "must be a table, not an integer"),
        ({"daemon": "x"}, "must be a table, not a string"),
        ({"servers": {"s": {}}}, "the key 'command' is required"),
        ({"servers": {"s": {"comand": "x"}}}, "unknown key 'comand'; did you mean 'command'?"),
        ({"servers": {"a b": {"command": "x"}}}, "the name of a server has 1 to 64"),
        ({"daemon": {"reload": "yes"}}, "must be true or false, not a string"),
        (
            {"daemon": {"log_level": "warn"}},
            'must be "debug" or "info" or "warning" or "error"; did you mean "warning"?',
        ),
    ],
)
def test_messages(data: dict[str, Any], message: str) -> None:
    [only] = found(data).values()
    assert only.startswith(message)


@pytest.mark.parametrize(
    ("keys", "messages"),
    [
        ({"idleTimeout": 1}, {"idleTimeout": "unknown key 'idleTimeout'; did you mean 'idle_timeout'?"}),
        ({"Stop-Grace": 1}, {"Stop-Grace": "unknown key 'Stop-Grace'; did you mean 'stop_grace'?"}),
        ({"command": []}, {"command": "must not be empty"}),
        ({"command": 5}, {"command": "must be an array of strings or a string, not an integer"}),
        ({"args": "x"}, {"args": "must be an array, not a string"}),
        ({"args": ["x", 5]}, {"args.1": "must be a string, not an integer; write it in quotes"}),
        ({"args": [["x"]]}, {"args.0": "must be a string, not an array"}),
        ({"cwd": datetime.date(2026, 1, 1)}, {"cwd": "must be a string, not a date or time"}),
        ({"scope": 5}, {"scope": 'must be "auto" or "global" or "project" or "session", not an integer'}),
        ({"network": "zzz"}, {"network": 'must be "none", "loopback", "internet", "host" or a table like { allow ='}),
        ({"network": 5}, {"network": "must be a string, not an integer; write it in quotes"}),
        ({"network": {"allow": []}}, {"network.allow": "must not be empty"}),
        ({"network": {"alow": ["a.example:1"]}}, {"network.alow": "unknown key 'alow'; did you mean 'allow'?"}),
        ({"network": {"allow": ["a.example"]}}, {"network.allow": "a.example: write host:port, with a port from"}),
        (
            {"network": {"allow": ["@nmp"]}},
            {"network.allow": "@nmp: there is no such set of hosts; there are @npm and"},
        ),
        ({"install": {"allow": ["@npm"]}}, {"install.allow": "@npm: the registries are reached anyway"}),
        ({"install": {"scripts": ["-g"]}}, {"install.scripts.0": "the name of a package of npm or Python"}),
        ({"network": {"allow": ["10.0.0.1:1"]}}, {"network": "10.0.0.1:1: 10.0.0.1 is a private"}),
        ({"start": "on_demand"}, {"start": 'must be "on-demand" or "eager"; did you mean "on-demand"?'}),
        ({"budget": {"restarts": 1.5}}, {"budget.restarts": "must be an integer, not a number"}),
        ({"budget": {"restarts": -1}}, {"budget.restarts": "must be at least 0"}),
        ({"budget": {"restarts": 1001}}, {"budget.restarts": "must be at most 1000"}),
        ({"budget": {"within": 0}}, {"budget.within": "must be more than 0"}),
        ({"mounts": [{"path": "/x"}, {"pth": "/y"}]}, {"mounts.1.pth": "unknown key 'pth'; did you mean 'path'?"}),
        (
            {"mounts": [{"path": "/x", "access": "rwx"}]},
            {"mounts.0.access": 'must be "ro" or "rw"; did you mean "rw"?'},
        ),
        ({"backoff": {"first": 9, "most": 1}}, {"backoff": "first must not be longer than most"}),
        ({"stop_grace": "5x"}, {"stop_grace": '"5x" is not a duration; write "500ms", "90s", "10m", "2h", "1d" or a'}),
        ({"env": {"A": True}}, {"env.A": "must be a string, not true or false; write it in quotes"}),
    ],
)
def test_messages_of_servers(keys: dict[str, Any], messages: dict[str, str]) -> None:
    assert {key: message[: len(messages[key])] for key, message in of_server(**keys).items()} == messages


def test_every_fault_is_reported() -> None:
    assert set(of_server(cwd="", era="future", scope="x", log={"keep": 0, "kep": 1})) == {
        "cwd",
        "era",
        "scope",
        "log.keep",
        "log.kep",
    }


@pytest.mark.parametrize("value", ["pa$sw0rd-s3cret", "s3cret\0", 5123, ["s3cret"], "${s3cret"])
def test_no_message_repeats_a_value_of_the_environment(value: object) -> None:
    for message in of_server(env={"TOKEN": value}).values():
        assert "s3cret" not in message
        assert "5123" not in message


def test_no_message_repeats_an_argument() -> None:
    assert "s3cret" not in str(of_server(args=["--token=s3cret$"]))


def test_a_fault_without_words_of_ours_has_those_of_pydantic() -> None:
    detail = InitErrorDetails(type="missing_argument", loc=("daemon",), input=None)
    error = ValidationError.from_exception_data("x", [detail])
    assert faults(error) == [(("daemon",), "Missing required argument")]


def test_inner() -> None:
    assert inner(tuple[Annotated[Mount, "x"], ...]) is Mount
    assert inner(Annotated[str | None, "x"]) is str
    assert inner(Config.model_fields["servers"].annotation) is ServerConfig
