"""The program around the commands: help, completion, what is loaded, and how anything that goes wrong ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import supervisord_mcp
from supervisord_mcp.cli import app
from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, Stream

ROOT = Path(__file__).parents[2]
NAMES = [(command.name,) for command in app.COMMANDS] + [("config", command.name) for command in app.CONFIG_COMMANDS]


def python(*words: str, home: Path, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the package on its path, in an environment of its own."""
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home), "HOME": str(home), **environ}
    command = [sys.executable, *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, env=clean, check=False)


# Help


def test_all_commands_of_the_design_are_there() -> None:
    wanted = "run up down status start stop restart reload add remove list logs tools call connect wrap config events"
    assert {name for (name, *_) in NAMES} == {*wanted.split(), "version"}


@pytest.mark.parametrize("words", [*NAMES, ("config",), ()], ids=" ".join)
def test_every_help_has_an_example(smcp: Smcp, words: tuple[str, ...]) -> None:
    ran = smcp(*words, "--help")
    assert ran.status == 0
    assert ran.err == ""
    _, _, examples = ran.out.partition("Examples")
    assert f"$ smcp {' '.join(words)}".rstrip() in examples or words == ("call",)
    assert "$ " in examples


def test_help_says_what_a_command_does(smcp: Smcp) -> None:
    ran = smcp("-h")
    for command in app.COMMANDS:
        assert command.function.__doc__
        assert f" {command.name} " in ran.out
    assert "--on-demand" not in smcp("run", "--help").out


def test_half_a_command_gets_help(smcp: Smcp) -> None:
    assert smcp() == smcp("--help")
    assert smcp("config") == smcp("config", "--help")


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


def test_an_unexpected_error_is_one_line_and_where_to_look(
    smcp: Smcp, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("oh no")

    monkeypatch.setattr("supervisord_mcp.cli.listing.connected", broken)
    ran = smcp("list")
    assert ran.status == 1
    assert ran.err.splitlines()[0] == "error[internal]: unexpected ZeroDivisionError: oh no"
    assert str(home / "state" / "daemon.log") in ran.err
    assert "smcp --debug" in ran.err
    assert "Traceback" not in ran.err
    assert "Traceback" in smcp("--debug", "list").err


def test_debug_shows_where_our_own_errors_come_from(smcp: Smcp) -> None:
    ran = smcp("--debug", "status")
    assert ran.status == 3
    assert "Traceback" in ran.err
    assert "error[no-daemon]" in ran.err


@pytest.mark.parametrize("words", [("status",), ("run",)])
def test_ctrl_c(smcp: Smcp, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("supervisord_mcp.cli.status.connected", interrupted)
    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=interrupted), raising=False)
    ran = smcp(*words)
    assert (ran.status, ran.out) == (130, "")
    assert "Traceback" not in ran.err


def test_run_is_the_daemon(smcp: Smcp, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def daemon(*, on_demand: bool) -> int:
        calls.append(on_demand)
        return 7

    monkeypatch.setattr(supervisord_mcp, "daemon", SimpleNamespace(main=daemon), raising=False)
    assert smcp("run").status == 7
    assert smcp("run", "--on-demand").status == 7
    assert smcp("--debug", "run").status == 7
    assert calls == [False, True, False]


def test_a_reader_that_leaves_is_no_news(daemon: FakeDaemon, home: Path) -> None:
    daemon.answers[control.Logs] = Stream([control.LogLine(line="x" * 1000)] * 1000)
    script = f"{sys.executable} -m supervisord_mcp logs git | head -n 1"
    ran = subprocess.run(
        ["/bin/sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "SMCP_HOME": str(home)},
        check=False,
    )
    assert ran.stderr == ""
    assert len(ran.stdout) == 1001


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


def test_completion_script(home: Path) -> None:
    ran = python("-m", "supervisord_mcp", "--show-completion", "bash", home=home)
    assert ran.returncode == 0
    assert "_SMCP_COMPLETE" in ran.stdout
