"""What a person and a program see of an error stays the same: text, remedy, code and exit status."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from supervisord_mcp.errors import ConfigError, FramingError, LaunchError, Problem, SmcpError, UsageError

#: Part of the interface: the README lists the exit statuses, programs compare the codes.
EXPECTED = {
    "failed": 1,
    "usage": 2,
    "config": 2,
    "no-daemon": 3,
    "daemon-alive": 1,
    "unknown-server": 4,
    "not-running": 5,
    "fatal": 6,
    "launch": 6,
    "isolation": 7,
    "framing": 1,
    "host-file": 1,
    "not-trusted": 8,
    "secret": 1,
    "secret-taken": 1,
}


def all_errors(base: type[SmcpError] = SmcpError) -> Iterator[type[SmcpError]]:
    yield base
    for error in base.__subclasses__():
        if error.__module__ == SmcpError.__module__:
            yield from all_errors(error)


def test_codes_are_unique_and_keep_their_exit_status() -> None:
    found = [(error.code, error.exit_status) for error in all_errors()]
    assert sorted(found) == sorted(EXPECTED.items())


def test_the_remedy_follows_the_message() -> None:
    error = UsageError("name a server", remedy="see: smcp list")
    assert (error.message, error.remedy) == ("name a server", "see: smcp list")
    assert str(error) == "name a server\n  see: smcp list"
    assert str(UsageError("name a server")) == "name a server"
    assert str(UsageError("name a server", remedy="one\ntwo")) == "name a server\n  one\n  two"


def test_a_launch_error_says_whether_trying_again_can_help() -> None:
    assert LaunchError("out of memory").retryable
    assert not LaunchError("no such file", retryable=False).retryable


def test_a_framing_error_carries_the_code_of_its_answer() -> None:
    assert FramingError("not JSON", -32700).rpc_code == -32700


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a.toml", 3, "servers.x", "unknown key"), "a.toml:3: servers.x: unknown key"),
        (Problem("a.toml", None, "servers.x", "unknown key"), "a.toml: servers.x: unknown key"),
        (Problem("a.toml", 3, "", "not TOML"), "a.toml:3: not TOML"),
    ],
)
def test_a_problem_is_placed_as_exactly_as_possible(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_config_error_has_every_problem() -> None:
    problems = (Problem("a.toml", 1, "x", "wrong"), Problem("b.toml", 2, "y", "wrong too"))
    assert str(ConfigError(problems)) == "a.toml:1: x: wrong\nb.toml:2: y: wrong too"
