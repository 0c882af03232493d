"""The program around the commands: help, completion, what is loaded, and how anything that goes wrong ends."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from supervisord_mcp.cli import app
from tests.cli.conftest import Smcp

ROOT = Path(__file__).parents[2]
NAMES = [(command.name,) for command in app.COMMANDS] + [
    (group, command.name) for group, commands in app.GROUPS.items() for command in commands
]


def python(*words: str, home: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package on its path, in an environment of its own."""
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home), "HOME": str(home), **environ}
    command = [sys.executable, *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, env=clean, check=False)


# Help


def test_all_commands_of_the_design_are_there() -> None:
    wanted = (
        "run up down status start stop restart reload add remove list logs tools call probe connect wrap config events"
        " doctor explain profile secret image hosts import adopt release trust top usage tap replay audit"
    )
    assert {name for (name, *_) in NAMES} == {*wanted.split(), "version"}


@pytest.mark.parametrize("words", [*NAMES, *((group,) for group in app.GROUPS), ()], ids=" ".join)
def test_every_help_has_an_example(smcp: Smcp, words: tuple[str, ...]) -> None:
    ran = smcp(*words, "--help")
    assert ran.status == 0
    assert ran.err == ""
    _, _, examples = ran.out.partition("Examples")
    assert f"$ smcp {' '.join(words)}".rstrip() in examples or words == ("call",)
    assert "$ " in examples


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
def test_help_is_the_whole_text_in_lines_as_long_as_the_screen(smcp: Smcp, words: tuple[str, ...]) -> None:
    group = app.COMMANDS if len(words) == 1 else app.GROUPS[words[0]]
    (text,) = (command.function.__doc__ for command in group if command.name == words[-1])
    shown = smcp(*words, "--help").out
    assert " ".join((text or "").split()) in " ".join(shown.split())
    _, _, rest = shown.partition("Usage:")
    said = [line.strip() for line in rest.partition("╭")[0].splitlines()]
    for line, following in pairwise(said[1:]):
        if line and following:
            assert len(f"{line} {following.split()[0]}") > 78, line


def test_help_says_what_a_command_does(smcp: Smcp) -> None:
    ran = smcp("-h")
    for command in app.COMMANDS:
        assert command.function.__doc__
        assert f" {command.name} " in ran.out
    assert "--on-demand" not in smcp("run", "--help").out


def test_half_a_command_gets_help(smcp: Smcp) -> None:
    assert smcp() == smcp("--help")
    for group in app.GROUPS:
        assert smcp(group) == smcp(group, "--help")


# Errors


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sttaus",), "No such command"),
        (("status", "--jsn"), "No such option"),
        (("call", "a"), "Missing argument"),
        (("logs", "a", "-n", "many"), "--lines"),
        (("config", "nothing"), "No such command"),
    ],
)
def test_usage_errors(smcp: Smcp, words: tuple[str, ...], told: str) -> None:
    ran = smcp(*words)
    assert ran.status == 2
    assert ran.out == ""
    assert ran.err.startswith("error[usage]: ")
    assert told in ran.err
    assert "--help" in ran.err


# What is loaded

HEAVY = ("typer", "rich", "msgspec", "pydantic", "tomlkit", "anyio")
LOADED = "import sys; print(*sorted(m for m in sys.modules if '.' not in m or m.startswith('supervisord')))"


def loaded(home: Path, script: str) -> set[str]:
    ran = python("-c", f"{script}; {LOADED}", home=home)
    assert ran.returncode == 0, ran.stderr
    return set(ran.stdout.split())


def test_connect_loads_the_shim_only(home: Path) -> None:
    script = """
from supervisord_mcp import cli, shim
shim.main = lambda argv: print(*argv) or 0
cli.main(["connect", "git"])"""
    modules = loaded(home, script)
    assert "git" in modules
    assert not modules & set(HEAVY)
    assert {module for module in modules if module.startswith("supervisord")} == {
        "supervisord_mcp",
        "supervisord_mcp.cli",
        "supervisord_mcp.shim",
    }


def test_wrap_of_a_known_command_loads_no_models(home: Path) -> None:
    (home / "config" / "conf.d").mkdir(parents=True)
    file = home / "config" / "conf.d" / "wrapped.toml"
    file.write_text('[servers.x]\ncommand = ["cmd", "a$$b"]\n')
    os.utime(file, (0, 0))
    script = """
from supervisord_mcp import cli, shim
shim.main = lambda argv: print(*argv) or 0
cli.main(["wrap", "--", "cmd", "a$b"])"""
    modules = loaded(home, script)
    assert "x" in modules
    assert not modules & set(HEAVY)


def test_run_loads_no_other_command(home: Path) -> None:
    script = """
import types, sys
fake = types.ModuleType("supervisord_mcp.daemon")
fake.main = lambda on_demand: 0
sys.modules["supervisord_mcp.daemon"] = fake
import supervisord_mcp
supervisord_mcp.daemon = fake
supervisord_mcp.cli = None
from supervisord_mcp.cli import main
main(["run", "--on-demand"])"""
    modules = loaded(home, script)
    assert not modules & {"typer", "rich"}
    assert not any("cli.app" in module for module in modules)


def test_the_module_is_the_command(home: Path) -> None:
    ran = python("-m", "supervisord_mcp", "version", home=home)
    assert ran.returncode == 0
    assert ran.stdout.startswith("smcp ")
    ran = python("-m", "supervisord_mcp", "status", home=home)
    assert ran.returncode == 3
    assert ran.stderr.startswith("error[no-daemon]")


# Completion


def complete(home: Path, line: str) -> list[str]:
    """Return what bash would offer for the last word of a line."""
    words = line.split(" ")
    ran = python(
        "-m",
        "supervisord_mcp",
        home=home,
        _SMCP_COMPLETE="complete_bash",
        COMP_WORDS=line,
        COMP_CWORD=str(len(words) - 1),
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_completion(home: Path) -> None:
    (home / "config" / "conf.d").mkdir(parents=True)
    (home / "config" / "config.toml").write_text('[servers.git]\ncommand = "x"\n[servers.time]\ncommand = "x"\n')
    (home / "config" / "conf.d" / "a.toml").write_text('[servers.github]\ncommand = "x"\n')
    (home / "config" / "conf.d" / "broken.toml").write_text("[")
    assert sorted(complete(home, "smcp sta")) == ["start", "status"]
    assert complete(home, "smcp start gi") == ["git", "github"]
    assert complete(home, "smcp stop git ti") == ["time"]
    assert complete(home, "smcp logs ") == ["git", "github", "time"]
    assert complete(home, "smcp config sh") == ["show"]
    assert complete(home, "smcp explain gi") == ["git", "github"]
    (home / "config" / "profiles").mkdir()
    (home / "config" / "profiles" / "node-mine.toml").write_text("[")
    assert complete(home, "smcp profile show node") == ["node", "node-mine", "node-net"]
    assert complete(home, "smcp add x --profile node-n") == ["node-net"]


def test_completion_script(home: Path) -> None:
    ran = python("-m", "supervisord_mcp", "--show-completion", "bash", home=home)
    assert ran.returncode == 0
    assert "_SMCP_COMPLETE" in ran.stdout
