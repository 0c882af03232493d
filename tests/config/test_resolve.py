"""One entry for one session: everything expanded, relative paths below the project, every gap reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import ResolvedServer, resolve
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.errors import ConfigError

ORIGIN = Origin(Path("/c/config.toml"), 7)
HERE = Variables({"A": "one", "EMPTY": "", "REL": "sub/x", "PROXY": "p"}, project="/p", home="/h")


def resolved(variables: Variables = HERE, **keys: Any) -> ResolvedServer:
    entry = ServerConfig.model_validate({"command": ["x"], **keys})
    return resolve("s", entry, variables, ORIGIN)


def messages(variables: Variables = HERE, **keys: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolved(variables, **keys)
    return list(map(str, caught.value.problems))


def test_every_text_is_expanded() -> None:
    entry = resolved(
        command=["npx", "${A}"],
        args=["~/${EMPTY}x"],
        cwd="${project}",
        env={"B": "<${A}>", "E": "${EMPTY}"},
        mounts=[{"path": "~/m", "access": "rw"}, {"path": "${project}/n"}],
    )
    assert entry.argv == ("npx", "one", "/h/x")
    assert entry.cwd == "/p"
    assert entry.env == (("B", "<one>"), ("E", ""))
    assert entry.mounts == (("/h/m", "rw"), ("/p/n", "ro"))
    assert entry.used == {"A", "EMPTY", "HOME", "project"}


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("npx", "npx"),
        ("./a/../x", "/p/x"),
        ("bin/x", "/p/bin/x"),
        ("/bin/x", "/bin/x"),
        ("~/x", "/h/x"),
        ("${REL}", "/p/sub/x"),
        ("${A}", "one"),
        ("${project}/x", "/p/x"),
    ],
)
def test_program(command: str, program: str) -> None:
    entry = resolved(command=[command])
    assert entry.argv == (program,)
    assert entry.uses_project == program.startswith("/p")


def test_relative_paths_are_those_of_the_project() -> None:
    entry = resolved(cwd="sub", mounts=[{"path": "../data"}, {"path": "$~"}])
    assert (entry.cwd, entry.mounts) == ("/p/sub", (("/data", "ro"), ("/p/~", "ro")))
    assert entry.uses_project


def test_arguments_are_no_paths() -> None:
    assert resolved(args=["sub/x", "."]).argv == ("x", "sub/x", ".")
    assert not resolved(args=["sub/x"]).uses_project


def test_inherited_variables() -> None:
    entry = resolved(inherit=["PROXY", "UNSET", "EMPTY", "A"], env={"A": "mine"})
    assert entry.env == (("A", "mine"), ("EMPTY", ""), ("PROXY", "p"))
    assert {"PROXY", "UNSET"} <= entry.used


def test_every_gap_is_reported_with_entry_and_variable() -> None:
    unset = "/c/config.toml:7: servers.s.{}: ${{{}}} is not set, neither for the host nor for the daemon"
    remedy = "; set it, or write ${{{}:-}} for an empty text"
    assert messages(command=["x", "${UNSET}"], env={"T": "${TOKEN}"}, mounts=[{"path": "${GONE}"}]) == [
        unset.format(key, name) + remedy.format(name)
        for key, name in (("command[1]", "UNSET"), ("env.T", "TOKEN"), ("mounts[0].path", "GONE"))
    ]


def test_a_session_without_project() -> None:
    nothing = Variables({})
    remedy = "the session has none; start the host in a project directory, or pass --project"
    assert messages(nothing, args=["${project}", "~"], cwd="sub", command="./x") == [
        f"/c/config.toml:7: servers.s.command[0]: is relative to the project, and {remedy}",
        f"/c/config.toml:7: servers.s.args[0]: ${{project}} is the project of a session, and {remedy}",
        "/c/config.toml:7: servers.s.args[1]: ~ stands for nothing, because HOME is not set",
        f"/c/config.toml:7: servers.s.cwd: is relative to the project, and {remedy}",
    ]


@pytest.mark.parametrize("keys", [{"command": ["${EMPTY}"]}, {"cwd": "${EMPTY}"}, {"mounts": [{"path": "${EMPTY}"}]}])
def test_a_path_that_became_empty(keys: dict[str, Any]) -> None:
    [message] = messages(**keys)
    assert message.endswith("is empty after its variables were replaced")


def test_values_of_the_environment_are_not_in_the_representation() -> None:
    assert "s3cret" not in repr(resolved(env={"A": "s3cret"}))
