"""``smcp config``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from tests.cli.conftest import Smcp


def config_file(home: Path) -> Path:
    return home / "config" / "config.toml"


def write(home: Path, text: str) -> Path:
    file = config_file(home)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    return file


def test_check(smcp: Smcp, home: Path) -> None:
    write(home, '[servers.a]\ncommand = "x"\n')
    ran = smcp("config", "check")
    assert (ran.status, ran.out) == (0, f"1 server, no faults: {home / 'config'}\n")


def test_check_warns_of_what_is_not_here(smcp: Smcp, home: Path) -> None:
    file = write(home, '[servers.a]\ncommand = "nosuchprogram"\n')
    ran = smcp("config", "check")
    assert (ran.status, ran.out) == (0, f"1 server, no faults: {home / 'config'}\n")
    assert ran.err.startswith(f"warning: {file}:1: servers.a.command: command not found: nosuchprogram")


def test_check_shows_every_fault_with_its_place(smcp: Smcp, home: Path) -> None:
    file = write(home, '[servers.a]\ncomand = "x"\n\n[servers.b]\ncommand = "x"\nscope = "mine"\n')
    ran = smcp("config", "check")
    assert (ran.status, ran.out) == (2, "")
    first, *faults = ran.err.splitlines()
    assert first == "error[config]:"
    assert any(fault.startswith(f"{file}:2: servers.a.comand:") for fault in faults)
    assert any(fault.startswith(f"{file}:6: servers.b.scope:") for fault in faults)


def test_show(smcp: Smcp, home: Path) -> None:
    write(home, '[servers.a]\ncommand = "x y"\nenv = { TOKEN = "hush" }\n[servers.b]\ncommand = "z"\n')
    whole = tomllib.loads(smcp("config", "show").out)
    assert set(whole["servers"]) == {"a", "b"}
    assert whole["servers"]["a"]["command"] == ["x", "y"]
    assert whole["servers"]["a"]["scope"] == "auto"
    one = smcp("config", "show", "a", "--json")
    assert json.loads(one.out)["servers"].keys() == {"a"}
    assert "hush" not in one.out
    assert smcp("config", "show", "c").status == 4


def test_generated_texts(smcp: Smcp, home: Path) -> None:
    assert "servers" in tomllib.loads(smcp("config", "sample").out)
    assert json.loads(smcp("config", "schema").out)["properties"].keys() == {"daemon", "audit", "metrics", "servers"}
    assert "idle_timeout" in smcp("config", "reference").out
    assert smcp("config", "path").out == f"{config_file(home)}\n"


def test_the_sample_is_a_valid_file(smcp: Smcp, home: Path) -> None:
    write(home, smcp("config", "sample").out)
    assert smcp("config", "check").status == 0
