"""``smcp add`` and ``smcp remove``."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.credentials.vault import NewKey, Vault
from supervisord_mcp.errors import ConfigError, Problem
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon


def config_file(home: Path) -> Path:
    return home / "config" / "config.toml"


def write(home: Path, text: str) -> Path:
    file = config_file(home)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def servers(home: Path) -> dict[str, object]:
    found = tomllib.loads(config_file(home).read_text()).get("servers", {})
    assert isinstance(found, dict)
    return found


def test_add_and_remove_in_silence_and_with_comments_kept(smcp: Smcp, home: Path, daemon: FakeDaemon) -> None:
    write(home, '# mine\n\n# of a\n[servers.a]   # here\ncommand = "x"\n')
    ran = smcp("add", "time", "--", "uvx", "mcp-server-time", "--zone", "UTC")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert servers(home)["time"] == {"command": ["uvx", "mcp-server-time", "--zone", "UTC"]}
    assert smcp("remove", "a").status == 0
    assert servers(home).keys() == {"time"}
    text = config_file(home).read_text()
    assert "# mine" in text
    assert "# of a" not in text
    assert daemon.asked == [control.Reload(), control.Reload()]


@pytest.mark.parametrize(
    ("words", "noted"),
    [(("docker", "run", "-i", "x"), True), (("/usr/bin/podman", "run", "-i", "x"), True), (("dockerize",), False)],
)
def test_an_engine_that_the_sandbox_keeps_away_is_told(smcp: Smcp, home: Path, words: list[str], noted: bool) -> None:
    ran = smcp("add", "x", "--", *words)
    assert ran.status == 0
    assert ("smcp add --replace x --image IMAGE" in ran.err) == noted
    assert smcp("add", "y", "--runtime", "bare", "--", *words).err == ""


def test_what_a_server_remembers_needs_a_file(smcp: Smcp, home: Path) -> None:
    command = ("npx", "-y", "@modelcontextprotocol/server-memory")
    ran = smcp("add", "memory", "--", *command)
    assert ran.status == 0
    make, add = ran.err.splitlines()[1:]
    # What it says is what helps, word by word.
    subprocess.run(shlex.split(make), check=True)
    ran = smcp(*shlex.split(add)[1:])
    assert (ran.status, ran.err) == (0, "")
    directory = home / "data" / "server-memory"
    assert directory.is_dir()
    assert servers(home)["memory"] == {
        "command": list(command),
        "env": {"MEMORY_FILE_PATH": f"{directory}/memory.jsonl"},
        "mounts": [{"path": str(directory), "access": "rw"}],
    }
    ran = smcp("add", "--replace", "memory", "--profile", "node", "--", *command)
    assert ran.err.splitlines()[2] == f"  and, with --replace, also: {' '.join(shlex.split(add)[4:8])}"
    for more in (("--runtime", "bare"), ("--inherit", "MEMORY_FILE_PATH"), ("-e", "MEMORY_FILE_PATH=/a")):
        assert smcp("add", "--replace", "memory", *more, "--", *command).err == ""
    assert smcp("add", "time", "--", "uvx", "mcp-server-time").err == ""


def test_add_without_a_daemon(smcp: Smcp, home: Path) -> None:
    assert smcp("add", "x", "--", "y").status == 0
    assert servers(home) == {"x": {"command": ["y"]}}


def test_add_with_every_option(smcp: Smcp, home: Path) -> None:
    ran = smcp(
        *("add", "x", "-e", "A=1=2", "--env", "B=", "--inherit", "TOKEN", "--cwd", "/src", "--scope", "session"),
        *("--start", "eager", "--runtime", "bare", "--network", "host", "--mount", "${project}:rw", "--mount", "/a:b"),
        *(
            "--profile",
            "browser",
            "--set",
            "restart=never",
            "--set",
            "stop_grace=5",
            "--set",
            "budget.restarts=2",
            "--set",
            "budget.within=1m",
        ),
        *("-v", "--", "y", "--", "-z"),
    )
    assert ran.status == 0, ran.err
    entry = {
        "command": ["y", "--", "-z"],
        "env": {"A": "1=2", "B": ""},
        "inherit": ["TOKEN"],
        "cwd": "/src",
        "profile": "browser",
        "scope": "session",
        "start": "eager",
        "runtime": "bare",
        "network": "host",
        "mounts": [{"path": "${project}", "access": "rw"}, {"path": "/a:b"}],
        "restart": "never",
        "stop_grace": 5,
        "budget": {"restarts": 2, "within": "1m"},
    }
    assert servers(home) == {"x": entry}
    assert ran.out.startswith(f"# {config_file(home)}\n")
    assert tomllib.loads(ran.out)["servers"] == {"x": entry}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("a", "--", "y"), "already defined"),
        (("b/c", "--", "y"), "b/c"),
        (("b", "--scope", "mine", "--", "y"), "scope"),
        (("b", "--set", "comand=x", "--", "y"), "comand"),
        (("b", "--set", "?=x", "--", "y"), "not the name of a setting"),
        (("b", "--env", "A", "--", "y"), "NAME=VALUE"),
        (("b",), "the key 'command' is required"),
    ],
)
def test_what_add_refuses_changes_nothing(smcp: Smcp, home: Path, words: tuple[str, ...], told: str) -> None:
    file = write(home, '[servers.a]\ncommand = "x"\n')
    before = file.read_bytes()
    ran = smcp("add", *words)
    assert ran.status == 2
    assert ran.out == ""
    assert told in ran.err
    assert file.read_bytes() == before


def test_add_shows_no_stored_secret(smcp: Smcp, home: Path) -> None:
    paths = find_paths({"SMCP_HOME": str(home)}, os.getuid())
    paths.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    Vault(paths, os.environ).put("mine", "my-own-secret-value", key=NewKey("file"))
    ran = smcp("add", "x", "--", "server", "--key", "my-own-secret-value")
    assert ran.status == 2
    assert "vault:mine" in ran.err
    assert "my-own-secret-value" not in ran.err
    assert not config_file(home).exists()


def test_add_replace(smcp: Smcp, home: Path) -> None:
    write(home, '[servers.a]\ncommand = "x"\n')
    assert smcp("add", "a", "--replace", "--", "y").status == 0
    assert servers(home) == {"a": {"command": ["y"]}}


def test_remove_of_an_unknown_server(smcp: Smcp, home: Path) -> None:
    write(home, '[servers.github]\ncommand = "x"\n')
    ran = smcp("remove", "githb")
    assert ran.status == 4
    assert "did you mean 'github'?" in ran.err


def test_remove_where_the_configuration_cannot_be_read(smcp: Smcp, home: Path) -> None:
    write(home, '[servers.github]\ncommand = "x\n')
    ran = smcp("remove", "zz")
    assert (ran.status, "config.toml:2: " in ran.err) == (2, True), ran.err


def test_what_the_daemon_says_to_the_change_is_told(smcp: Smcp, home: Path, daemon: FakeDaemon) -> None:
    daemon.answers[control.Reload] = ConfigError((Problem("/c", 1, "", "no"),))
    ran = smcp("add", "x", "--", "y")
    assert ran.status == 2
    assert "/c:1: no" in ran.err


def test_add_an_image(smcp: Smcp, home: Path) -> None:
    assert smcp("add", "db", "--image", "team/db:2").status == 0
    assert smcp("add", "other", "--image", "team/db:2", "--", "serve", "-v").status == 0
    image = {"runtime": "container", "image": "team/db:2"}
    assert servers(home) == {"db": image, "other": {"command": ["serve", "-v"], **image}}
    assert "is no name of an image" in smcp("add", "x", "--image", "-v").err
