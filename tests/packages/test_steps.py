"""How packages are installed, and what is run of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages import steps
from supervisord_mcp.packages.requests import Request

NO_BUILD = ("--only-binary", ":all:")
PROGRAMS = {name: f"/bin/{name}" for name in ("npm", "node", "uv", "python3", "python3.12")}


def _find(*without: str) -> Callable[[str], str | None]:
    return lambda name: None if name in without else PROGRAMS.get(name)


def _npm(*requirements: str, command: str | None = None) -> Request:
    return Request("npm", requirements, command, ("a", "b"), pinned=False)


def _python(command: str = "server", python: str | None = None) -> Request:
    return Request("python", ("server",), command, ("a",), pinned=False, python=python)


def _folders(place: Path) -> steps.Folders:
    return steps.Folders(place, place / "cache")


def _package(place: Path, name: str, **content: object) -> None:
    folder = place / "node_modules" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"name": name, **content}))
    for file, first in (
        ("cli.js", "#!/usr/bin/env node"),
        ("flags.js", "#!/usr/bin/env -S node --x"),
        ("run", "#!/bin/sh"),
    ):
        (folder / file).write_text(f"{first}\n")


def test_npm(tmp_path: Path) -> None:
    plan = steps.plan(_npm("@a/b", "c@1"), _folders(tmp_path), _find())
    (command,) = plan.commands
    assert command[:2] == ("/bin/npm", "install")
    assert "--prefix" not in command, "it would move the global settings of npm into the folder"
    assert command[-3:] == ("--", "@a/b", "c@1")
    assert plan.env["npm_config_cache"] == str(tmp_path / "cache")
    assert plan.tools == ("/bin/node",)
    assert json.loads((tmp_path / "package.json").read_text()) == {"private": True}


def test_uv_and_without_it_pip(tmp_path: Path) -> None:
    venv = str(tmp_path / "venv")
    plan = steps.plan(_python(), _folders(tmp_path), _find())
    assert plan.commands == (
        ("/bin/uv", "venv", "--python", "/bin/python3", venv),
        ("/bin/uv", "pip", "install", *NO_BUILD, "--python", f"{venv}/bin/python", "--", "server"),
    )
    assert (plan.installer, plan.program, plan.offline) == ("uv", ("/bin/uv",), 1)
    # A Python that is not there has to be fetched.
    assert steps.plan(_python(python="3.99"), _folders(tmp_path), _find()).offline == 0
    pip = steps.plan(_python(), _folders(tmp_path), _find("uv"))
    assert pip.commands[0] == ("/bin/python3", "-m", "venv", venv)
    assert pip.commands[1][:4] == (f"{venv}/bin/python", "-m", "pip", "install")
    assert pip.commands[1][6:] == (*NO_BUILD, "--", "server")
    assert (pip.installer, pip.program, pip.offline) == ("pip", (f"{venv}/bin/python", "-m", "pip"), 1)


def test_what_runs_of_packages_while_they_are_installed(tmp_path: Path) -> None:
    (without,) = steps.plan(_npm("a"), _folders(tmp_path), _find()).commands
    assert "--ignore-scripts" in without
    install, run = steps.plan(_npm("a"), _folders(tmp_path), _find(), ("@x/b", "c")).commands
    assert install == without
    assert run == ("/bin/npm", "rebuild", "--ignore-scripts=false", "--foreground-scripts", "--", "@x/b", "c")
    for missing in ((), ("uv",)):
        built = steps.plan(_python(), _folders(tmp_path), _find(*missing), ("b",)).commands[1]
        start = built.index("--only-binary")
        assert built[start : start + 4] == ("--only-binary", ":all:", "--no-binary", "b")


def test_scripts_that_were_left_out_are_named(tmp_path: Path) -> None:
    assert steps.scripts_left_out(_npm("x"), tmp_path, ()) == ()
    packages = {"": {}, "node_modules/a": {"hasInstallScript": True}, "node_modules/b": {}}
    packages |= {"node_modules/b/node_modules/@c/d": {"hasInstallScript": True}}
    (tmp_path / "package-lock.json").write_text(json.dumps({"packages": packages}))
    assert steps.scripts_left_out(_npm("x"), tmp_path, ()) == ("@c/d", "a")
    assert steps.scripts_left_out(_npm("x"), tmp_path, ("a",)) == ("@c/d",)
    assert steps.scripts_left_out(_python(), tmp_path, ()) == ()
    for broken in ("", "[]", '{"packages": []}', '{"packages": {"a": 1}}'):
        (tmp_path / "package-lock.json").write_text(broken)
        assert steps.scripts_left_out(_npm("x"), tmp_path, ()) == ()


@pytest.mark.parametrize(
    ("python", "chosen"),
    [
        (None, "/bin/python3"),
        ("3.12", "/bin/python3.12"),
        ("python3.12", "/bin/python3.12"),
        ("3.99", "3.99"),
        ("/p", "/p"),
    ],
)
def test_the_python_that_was_asked_for(tmp_path: Path, python: str | None, chosen: str) -> None:
    assert steps.plan(_python(python=python), _folders(tmp_path), _find()).commands[0][3] == chosen
    assert steps.tools(_python(python=python), _find()) == ([chosen] if chosen.startswith("/") else [])


def test_a_missing_installer_is_named(tmp_path: Path) -> None:
    for request, without, named in (
        (_npm("x"), ("npm",), "npm is not installed"),
        (_npm("x"), ("node",), "node is not installed"),
        (_python(python="3.99"), ("uv",), "no Python 3.99"),
        (_python(), ("uv", "python3"), "no Python 3"),
    ):
        with pytest.raises(LaunchError, match=named) as caught:
            steps.plan(request, _folders(tmp_path), _find(*without))
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("binaries", "command", "script"),
    [
        ("cli.js", None, "cli.js"),
        ("./cli.js", None, "cli.js"),
        ({"anything": "cli.js"}, None, "cli.js"),
        ({"b": "cli.js", "other": "run"}, None, "cli.js"),
        ({"b": "run", "other": "cli.js"}, "other", "cli.js"),
    ],
)
def test_the_command_of_an_npm_package(tmp_path: Path, binaries: object, command: str | None, script: str) -> None:
    _package(tmp_path, "@a/b", bin=binaries)
    outcome = steps.outcome(_npm("@a/b@1.0.0", command=command), tmp_path, _find())
    assert outcome == ("/bin/node", str(tmp_path / "node_modules/@a/b" / script), "a", "b")
    assert steps.binaries(_npm("@a/b"), tmp_path) == str(tmp_path / "node_modules/.bin")


def test_commands_that_are_not_plain_scripts_of_node_run_by_themselves(tmp_path: Path) -> None:
    for name in ("run", "flags.js"):
        _package(tmp_path, "c", bin=name)
        assert steps.outcome(_npm("c"), tmp_path, _find()) == (str(tmp_path / "node_modules/c" / name), "a", "b")


@pytest.mark.parametrize(
    "binaries", [None, [], {"x": "cli.js", "y": "run"}, "nowhere.js", {"c": 5}, "../../../../etc/passwd"]
)
def test_a_package_without_a_command(tmp_path: Path, binaries: object) -> None:
    _package(tmp_path, "c", bin=binaries)
    with pytest.raises(LaunchError, match="command") as caught:
        steps.outcome(_npm("c"), tmp_path, _find())
    assert not caught.value.retryable


def test_the_command_of_a_python_package(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="no command server"):
        steps.outcome(_python(), tmp_path, _find())
    program = tmp_path / "venv/bin/server"
    program.parent.mkdir(parents=True)
    program.touch()
    assert steps.outcome(_python(), tmp_path, _find()) == (str(program), "a")
    assert steps.binaries(_python(), tmp_path) == str(tmp_path / "venv/bin")


def test_versions_tell_installations_apart(tmp_path: Path) -> None:
    assert steps.version(_npm("x"), tmp_path) == ""
    (tmp_path / "package-lock.json").write_text("1")
    assert steps.version(_npm("x"), tmp_path) == "1"
    (tmp_path / "venv/lib/python3/site-packages/x-1.dist-info").mkdir(parents=True)
    assert steps.version(_python(), tmp_path) == "x-1.dist-info"
