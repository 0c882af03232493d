"""``smcp profile``."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from supervisord_mcp.protocol import control
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines


def own(home: Path, name: str, text: str) -> Path:
    file = home / "config" / "profiles" / f"{name}.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"description = 'mine'\n{text}")
    return file


def test_list(smcp: Smcp, home: Path) -> None:
    own(home, "mine", "extends = 'node-net'\n")
    own(home, "strict", "extends = 'strict'\n")
    file = own(home, "wrong", "netwrok = 'none'\n")
    header, *lines = clean_lines(smcp("profile", "list").out)
    assert header.split() == ["PROFILE", "FROM", "EXTENDS", "NETWORK", "FOR"]
    rows = {line.split()[0]: line for line in lines}
    assert rows["mine"].split()[1:] == ["yours", "node-net", "internet", "mine"]
    assert rows["strict"].split()[1:] == ["yours,", "hides", "the", "shipped", "one", "strict", "none", "mine"]
    assert rows["git"].split()[1:4] == ["shipped", "files-rw", "none"]
    assert f"FAULTY: {file}:2: netwrok: unknown key" in rows["wrong"]
    found = {row["name"]: row for row in json.loads(smcp("profile", "list", "--json").out)}
    assert found["docker-socket"]["dangerous"] is True
    assert found["mine"]["file"] == str(home / "config" / "profiles" / "mine.toml")


def test_show_the_file(smcp: Smcp, home: Path) -> None:
    file = own(home, "mine", "network = 'internet'  # because\n")
    assert smcp("profile", "show", "mine").out == f"# {file}\n{file.read_text()}"
    assert smcp("profile", "show", "nod").status == 2
    assert "did you mean 'node'?" in smcp("profile", "show", "nod").err


def test_show_what_it_comes_to(smcp: Smcp, home: Path) -> None:
    own(home, "mine", "extends = 'node-net'\n[limits]\npids = 64\n")
    ran = smcp("profile", "show", "mine", "--resolved")
    data = tomllib.loads(ran.out)
    assert (data["network"], data["limits"]["pids"], data["limits"]["nofile"]) == ("internet", 64, 1024)
    assert "pids = 64  # mine" in ran.out
    assert json.loads(smcp("profile", "show", "mine", "--json").out)["chain"] == ["node-net", "node", "default"]
    own(home, "mine", "netwrok = 'x'")
    assert smcp("profile", "show", "mine").status == 0
    assert smcp("profile", "show", "mine", "--resolved").status == 2


def test_diff(smcp: Smcp) -> None:
    ran = smcp("profile", "diff", "python", "python-net")
    assert clean_lines(ran.out) == ["KEY      python  python-net", 'network  "none"  "internet"']
    assert json.loads(smcp("profile", "diff", "python", "python-net", "--json").out) == [
        {"key": "network", "python": '"none"', "python-net": '"internet"'}
    ]
    assert smcp("profile", "diff", "node", "python").out == "node and python grant the same\n"
    assert smcp("profile", "diff", "node", "nothing").status == 2


def test_lint_says_what_is_dangerous(smcp: Smcp, home: Path) -> None:
    ran = smcp("profile", "lint")
    first, *dangers = clean_lines(ran.out)
    assert (ran.status, first) == (0, "15 profiles, no faults")
    assert [danger.partition(":")[0] for danger in dangers] == ["docker-socket is dangerous"]
    assert smcp("profile", "lint", "git", "node").out == "2 profiles, no faults\n"
    assert smcp("profile", "lint", "gti").status == 2


def test_lint_shows_every_fault_of_every_profile(smcp: Smcp, home: Path) -> None:
    one = own(home, "one", "extends = 'strict'\nnetwork = 'internet'\nmounts = [{ path = '~/.ssh' }]")
    two = own(home, "two", "[seccomp]\ndeny = [\n  'kcmp',\n  'ptraec',\n]")
    ran = smcp("profile", "lint")
    assert (ran.status, ran.out) == (2, "")
    assert f"{one}:3: network: grants more than 'strict'" in ran.err
    assert f"{one}:4: mounts[0]: grants more than 'strict'" in ran.err
    assert f"{one}:4: mounts[0].path: ~/.ssh has keys" in ran.err
    assert f"{two}:5: seccomp.deny[1]: ptraec: Linux has no such system call" in ran.err


def test_lint_a_file(smcp: Smcp, home: Path) -> None:
    (home / "draft.toml").write_text("description = 'x'\nextends = 'node'\nmounts = [{ path = '/' }]\n")
    ran = smcp("profile", "lint", "draft.toml")
    assert ran.status == 2
    assert f"{home}/draft.toml:3: mounts[0].path: / is the whole machine" in ran.err
    (home / "draft.toml").write_text("description = 'x'\nextends = 'node'\n")
    assert smcp("profile", "lint", "./draft.toml").out == "1 profile, no faults\n"
    assert "there is no such file" in smcp("profile", "lint", "./none.toml").err


def test_new(smcp: Smcp, home: Path) -> None:
    ran = smcp("profile", "new", "mine", "--extends", "git")
    file = home / "config" / "profiles" / "mine.toml"
    assert (ran.status, ran.out) == (0, f"{file}\n")
    assert file.stat().st_mode & 0o777 == 0o600
    assert smcp("profile", "lint", "mine").status == 0
    assert smcp("profile", "diff", "mine", "git").out == "mine and git grant the same\n"
    again = smcp("profile", "new", "mine")
    assert again.status == 2
    assert "there is a profile 'mine' already" in again.err


@pytest.mark.parametrize("words", [("../x",), ("a b",), ("x", "--extends", "nothing")])
def test_new_refuses_what_makes_no_sense(smcp: Smcp, home: Path, words: tuple[str, ...]) -> None:
    assert smcp("profile", "new", *words).status == 2
    assert not (home / "config" / "profiles").exists()


def test_a_new_profile_that_hides_a_shipped_one_is_told_to_the_daemon(smcp: Smcp, daemon: FakeDaemon) -> None:
    daemon.answers[control.Reload] = control.ReloadResult()
    assert smcp("profile", "new", "mine").status == 0
    assert daemon.asked == []
    assert smcp("profile", "new", "node", "--extends", "node").status == 0
    assert [type(operation) for operation in daemon.asked] == [control.Reload]
