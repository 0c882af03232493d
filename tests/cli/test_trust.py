"""``smcp trust``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.config.trust import Trust
from supervisord_mcp.runtimes.placeholders import Placeholders
from tests.adoption.machine import TIME, TOKEN, Machine
from tests.cli.conftest import Smcp


def standing(machine: Machine, file: Path) -> str:
    return Trust.of(machine.paths).standing(file)


def test_the_files_of_the_project_are_shown_and_trusted(smcp: Smcp, machine: Machine) -> None:
    shared = machine.shared(
        here={"command": "x", "args": ["--token", TOKEN], "env": {"A": "b"}}, far={"url": "https://m"}
    )
    code = machine.write("site/.vscode/mcp.json", {}, "servers")
    assert smcp("trust").status == 2
    assert standing(machine, shared) == "unknown"
    ran = smcp("trust", "--yes")
    assert ran.status == 0, ran.err
    assert ran.out.splitlines() == [
        str(shared),
        "  here: x --token •••  with A",
        "  far: https://m",
        str(code),
        "  names no server",
    ]
    assert [standing(machine, file) for file in (shared, code)] == ["trusted", "trusted"]
    assert smcp("trust").out == "trusted already\n"


def test_a_changed_file_asks_again_and_says_so(smcp: Smcp, machine: Machine) -> None:
    file = machine.shared(here=TIME)
    assert smcp("trust", str(file), "--yes").status == 0
    file.write_text(file.read_text() + "\n")
    assert standing(machine, file) == "changed"
    assert smcp("trust", "--yes").out.splitlines()[0] == f"{file} was changed since you trusted it"
    assert standing(machine, file) == "trusted"


def test_one_file_and_no_other(smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, code = machine.shared(here=TIME), machine.write("site/.vscode/mcp.json", {"a": TIME}, "servers")
    monkeypatch.chdir(machine.project / ".vscode")
    assert smcp("trust", "mcp.json", "--yes").status == 0
    assert [standing(machine, file) for file in (shared, code)] == ["unknown", "trusted"]


def test_the_list(smcp: Smcp, machine: Machine) -> None:
    assert smcp("trust", "--list").out == "no project file is trusted\n"
    file = machine.shared(here=TIME)
    machine.trust(file)
    assert [line.split()[1:] for line in smcp("trust", "--list").out.splitlines()][1] == ["trusted", str(file)]
    file.write_text("")
    (row,) = json.loads(smcp("trust", "--list", "--json").out)
    assert (row["file"], row["standing"]) == (str(file), "changed")


def test_trust_is_taken_back(smcp: Smcp, machine: Machine) -> None:
    file = machine.shared(here=TIME)
    for words in ((), (str(file),), (str(machine.project),)):
        machine.trust(file)
        assert smcp("trust", "--revoke", *words).status == 0
        assert standing(machine, file) == "unknown"
    ran = smcp("trust", "--revoke")
    assert (ran.status, "is trusted" in ran.err) == (2, True)


def test_what_stands_where_a_server_may_not_make_a_file(
    smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.project / ".mcp.json"
    monkeypatch.chdir(machine.project)
    held = Placeholders().hold()
    held.fill(str(path), None)
    assert smcp("hosts", "--project", str(machine.project)).err == ""
    for words in ((), (str(path),), (str(machine.project),)):
        ran = smcp("trust", *words)
        assert (ran.status, ran.out) == (2, "")
        assert f"{path} is an empty directory that smcp holds" in ran.err
        assert f"smcp stop NAME, or: rmdir {path}; make the file at once" in ran.err
    held.close()
    path.mkdir()
    assert f"{path} is a directory, and no file" in smcp("trust", str(path)).err


def test_what_cannot_be_trusted(smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    other = machine.write("site/other.json", "{}")
    assert "no host reads servers from" in smcp("trust", str(other)).err
    broken = machine.write("site/.mcp.json", "{")
    ran = smcp("trust", str(broken), "--yes")
    assert (ran.status, f"{broken}:1" in ran.err) == (1, True)
    monkeypatch.chdir(machine.home)
    assert "in no project" in smcp("trust").err
