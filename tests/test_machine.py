"""What a child gets of the machine: programs, a working directory, an environment; in an image less of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.resolve import ResolvedServer
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.facts import Facts
from supervisord_mcp.machine import Machine, environment, working_directory
from supervisord_mcp.runtimes.bare import BareRuntime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime

MACHINE = Machine({"LC_TIME": "de_DE", "SECRET": "x", "USER": "anna"}, "/home/anna", ("/usr/bin", "/bin"))


def done(**env: str) -> ResolvedServer:
    return ResolvedServer(("x",), None, tuple(env.items()), (("/srv/site", "ro"),), frozenset())


def test_programs_are_found_or_named() -> None:
    assert MACHINE.find("sh").endswith("/sh")
    assert MACHINE.find_or_none("no-such-program") is None
    with pytest.raises(LaunchError, match="no-such-program"):
        MACHINE.find("no-such-program")


def test_the_environment_has_a_base_and_what_the_entry_says() -> None:
    found = dict(environment(done(A="1", LANG="fr_FR"), MACHINE, "/opt/x/bin/x", BwrapRuntime()))
    assert found["PATH"] == "/opt/x/bin:/usr/bin:/bin"
    assert (found["A"], found["LANG"], found["LC_TIME"]) == ("1", "fr_FR", "de_DE")
    assert "SECRET" not in found
    assert found["HOME"] != MACHINE.home
    bare = dict(environment(done(), MACHINE, None, BareRuntime()))
    assert (bare["HOME"], bare["PATH"], bare["LANG"]) == ("/home/anna", "/usr/bin:/bin", "C.UTF-8")


def test_an_image_says_itself_where_its_programs_are(tmp_path: Path) -> None:
    found = dict(environment(done(), MACHINE, None, ContainerRuntime(tmp_path)))
    assert "PATH" not in found
    assert found["LC_TIME"] == "de_DE"
    assert dict(environment(done(PATH="/app"), MACHINE, None, ContainerRuntime(tmp_path)))["PATH"] == "/app"


@pytest.mark.parametrize(
    ("runtime", "project", "expected"),
    [
        ("bwrap", "/srv/site/x", "/srv/site/x"),
        ("container", "/srv/site", "/srv/site"),
        ("container", "/srv/other", None),
        ("container", None, None),
        ("bare", "/srv/other", "/srv/other"),
        ("bare", None, "/home/anna"),
    ],
)
def test_who_works_on_a_project_begins_there_if_it_is_shown(
    runtime: str, project: str | None, expected: str | None
) -> None:
    entry = {"command": ["npx", "x"], "runtime": runtime, "mounts": [{"path": "${project}"}]}
    config = ServerConfig.model_validate(entry)
    assert working_directory(done(), config, Facts("s", project=project), MACHINE.home) == expected
