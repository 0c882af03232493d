"""The models: defaults, what they refuse, and that equal settings are equal."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.daemon import DaemonConfig, Table
from supervisord_mcp.config.models import Config, ServerConfig
from supervisord_mcp.runtimes.limits import DEFAULTS, Limits


def server(**keys: Any) -> ServerConfig:
    return ServerConfig.model_validate({"command": ["x"], **keys})


def test_defaults_of_the_daemon() -> None:
    daemon = DaemonConfig()
    assert (daemon.idle_exit, daemon.max_message, daemon.client_buffer) == (600, 64 << 20, 4 << 20)
    assert (daemon.path, daemon.log_level, daemon.reload) == ((), "info", True)


def test_defaults_of_a_server() -> None:
    entry = server()
    assert (entry.argv, entry.cwd, entry.env, entry.inherit, entry.mounts) == (("x",), None, {}, (), ())
    assert (entry.scope, entry.era, entry.start, entry.restart) == ("auto", "auto", "on-demand", "on-failure")
    assert (entry.idle_timeout, entry.start_timeout, entry.install_timeout, entry.stop_grace) == (600, 60, 600, 3)
    assert (entry.budget.restarts, entry.budget.within) == (5, 60)
    assert (entry.backoff.first, entry.backoff.most, entry.backoff.reset_after) == (1, 30, 60)
    assert (entry.runtime, entry.network, entry.log.max_size, entry.log.keep) == ("bwrap", "none", 2 << 20, 5)


def test_limits() -> None:
    limits = server(limits={"memory": "512M", "pids": "off", "cpu": 1}).limits
    assert (limits.memory, limits.pids, limits.cpu, limits.nofile) == (512 << 20, None, 1.0, 1024)
    assert server().limits == server(limits={}).limits
    assert server().limits != server(limits={"tmp": "off"}).limits


def test_the_defaults_are_those_of_the_runtimes() -> None:
    names = [name for name in Limits.__slots__ if name != "core"]
    assert server().limits.model_dump() == {name: getattr(DEFAULTS, name) for name in names}


def test_arguments_follow_the_command() -> None:
    assert server(command="npx -y foo", args=["--bar"]).argv == ("npx", "-y", "foo", "--bar")


def test_equal_settings_are_equal_however_they_are_written() -> None:
    short = server(env={"A": "1", "B": "2"}, idle_timeout="10m")
    long = server(command="x", env={"B": "2", "A": "1"}, budget={}, idle_timeout=600, mounts=[])
    assert short == long
    assert hash(short) == hash(long)
    assert short != server(env={"A": "1"})
    assert short != server(env={"A": "1", "B": "2"}, log={"keep": 4})


def test_configurations_compare_too() -> None:
    one = Config.model_validate({"servers": {"a": {"command": "x"}, "b": {"command": "y"}}})
    other = Config.model_validate({"servers": {"b": {"command": "y"}, "a": {"command": ["x"]}}, "daemon": {}})
    assert one == other
    assert hash(one) == hash(other)


def test_nothing_can_be_changed() -> None:
    entry = server(env={"A": "b"})
    with pytest.raises(ValidationError, match="frozen"):
        entry.cwd = "/"
    with pytest.raises(TypeError):
        entry.env["A"] = "c"  # type: ignore[index]


def test_the_environment_is_not_in_the_representation() -> None:
    assert "s3cret" not in repr(server(env={"A": "s3cret"}))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"command": [""]}, "the first word"),
        ({"unknown": 1}, "Extra inputs"),
        ({"budget": {"restarts": -1}}, "greater than or equal to 0"),
        ({"budget": {"restarts": True}}, "valid integer"),
        ({"budget": {"restarts": "5"}}, "valid integer"),
        ({"start_timeout": 0}, "greater than 0"),
        ({"start_timeout": "off"}, "is not a duration"),
        ({"log": {"keep": 0}}, "greater than or equal to 1"),
        ({"log": {"max_size": "1"}}, "greater than or equal to 1024"),
        ({"mounts": [{"path": "/a"}, {"path": "/a", "access": "rw"}]}, "mounted twice"),
        ({"backoff": {"first": "1m", "most": "1s"}}, "first must not be longer than most"),
        ({"scope": "global", "args": ["${project}"]}, 'scope "global" is not possible'),
        ({"scope": "global", "cwd": "sub"}, 'scope "global" is not possible'),
        ({"scope": "global", "mounts": [{"path": "data"}]}, 'scope "global" is not possible'),
        ({"scope": "global", "env": {"A": "${B:-${project}}"}}, 'scope "global" is not possible'),
        ({"scope": "global", "command": "bin/x"}, 'scope "global" is not possible'),
        ({"credentials": {"TOKEN": "ghp_x"}}, "names no source"),
        ({"credentials": {"A-B": "vault:x"}}, "not a name of an environment variable"),
        ({"credentials": {"SMCP_INSTANCE": "vault:x"}}, "is set by smcp itself"),
        ({"credentials": {"T": "vault:x"}, "env": {"T": "1"}}, "T is in `env` or `inherit` as well"),
        ({"credentials": {"T": "vault:x"}, "inherit": ["T"]}, "T is in `env` or `inherit` as well"),
        ({"deliver": "argv"}, "'env' or 'file'"),
    ],
)
def test_refused(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        server(**keys)


@pytest.mark.parametrize("keys", [{"args": ["$${project}"]}, {"cwd": "~/x"}, {"command": "/bin/x"}, {"cwd": "${A}"}])
def test_possible_for_everybody(keys: dict[str, Any]) -> None:
    assert not server(scope="global", **keys).uses_project


def test_reload_must_be_a_truth_value() -> None:
    with pytest.raises(ValidationError, match="valid boolean"):
        DaemonConfig.model_validate({"reload": "yes"})


@pytest.mark.parametrize("model", Table.__subclasses__())
def test_every_setting_says_what_it_means(model: type[Table]) -> None:
    assert model.__doc__
    for name, field in model.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_networks() -> None:
    assert [server(network=word).network_text for word in ("none", "loopback", "internet", "host")] == [
        "none",
        "loopback",
        "internet",
        "host",
    ]
    entry = server(network={"allow": ["api.example.com:443", "*.example.org:443"]})
    assert entry.network_text == "api.example.com:443, *.example.org:443"
    assert (
        entry.network
        == server(network={"private": False, "allow": ["api.example.com:443", "*.example.org:443"]}).network
    )
    assert entry.model_dump(mode="json")["network"] == {"allow": [*entry.network_text.split(", ")], "private": False}
    assert server(network={"allow": ["10.0.0.1:80"], "private": True}).network_text == "10.0.0.1:80 (private too)"


@pytest.mark.parametrize("network", ["loopback", "internet", {"allow": ["a.example:443"]}])
def test_nothing_limits_the_network_of_a_bare_server(network: object) -> None:
    with pytest.raises(ValidationError, match='"bare" cannot limit the network'):
        server(runtime="bare", network=network)


def test_users() -> None:
    assert DaemonConfig().uids == range(60706, 61184)
    assert DaemonConfig.model_validate({"uids": "200000-265535"}).model_dump(mode="json")["uids"] == "200000-265535"
    for wrong in ("0-5", "7", "9-8", 5, "1-4294967295", "off"):
        with pytest.raises(ValidationError, match="user ids"):
            DaemonConfig.model_validate({"uids": wrong})


@pytest.mark.parametrize(
    ("entry", "sharing"),
    [
        ({"callbacks": "exclusive"}, "session"),
        ({"callbacks": "exclusive", "scope": "session"}, "session"),
        ({"callbacks": "on"}, "global"),
        ({"callbacks": "cookie", "scope": "project"}, "project"),
        ({"callbacks": "serialized", "cwd": "${project}"}, "project"),
        ({}, "global"),
    ],
)
def test_who_shares_an_instance_of_a_server_that_asks_back(entry: dict[str, Any], sharing: str) -> None:
    assert ServerConfig.model_validate({"command": ["x"], **entry}).sharing == sharing


@pytest.mark.parametrize("scope", ["global", "project"])
def test_what_is_shared_is_not_exclusive(scope: str) -> None:
    with pytest.raises(ValidationError, match="every session its own"):
        ServerConfig.model_validate({"command": ["x"], "callbacks": "exclusive", "scope": scope})
