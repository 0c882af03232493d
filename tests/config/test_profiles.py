"""Which profiles there are, what they come to, and what is said about wrong ones; and the shipped ones are right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.models import Limits, Reach, ServerConfig, SystemCalls
from supervisord_mcp.config.profile_files import profiles_directory
from supervisord_mcp.config.profiles import Profiles, find_profiles
from supervisord_mcp.errors import ConfigError, UsageError
from tests.config.places import paths_in

SHIPPED = (
    *("browser", "database", "default", "devel", "docker-socket", "fetch", "files-ro", "files-rw", "git"),
    *("install", "node", "node-net", "python", "python-net", "strict"),
)


class Shelf:
    """Two directories of profiles: one of a person, one that stands for the shipped ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("own", "shipped", "home"):
            (folder / name).mkdir()

    def own(self, name: str, text: str) -> Path:
        return self._put("own", name, text)

    def ship(self, name: str, text: str) -> Path:
        return self._put("shipped", name, text)

    @property
    def profiles(self) -> Profiles:
        return Profiles(self.folder / "own", self.folder / "shipped", str(self.folder / "home"))

    def problems(self, name: str) -> list[str]:
        with pytest.raises(ConfigError) as caught:
            self.profiles.effective(name)
        return [str(problem).replace(f"{self.folder}/", "") for problem in caught.value.problems]

    def _put(self, place: str, name: str, text: str) -> Path:
        file = self.folder / place / f"{name}.toml"
        file.write_text(f'description = "{place} {name}"\n{text}')
        return file


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


# Which there are


def test_those_of_a_person_come_first(shelf: Shelf) -> None:
    shelf.ship("a", "")
    shelf.ship("b", "")
    mine = shelf.own("b", "network = 'loopback'")
    shelf.own("c", "")
    (shelf.folder / "own" / ".b.toml.swp").touch()
    (shelf.folder / "own" / ".x.toml").touch()
    (shelf.folder / "own" / "notes.txt").touch()
    profiles = shelf.profiles
    assert profiles.names() == ("a", "b", "c")
    assert profiles.file("b") == mine
    assert [profiles.hides(name) for name in profiles.names()] == [False, True, False]
    assert profiles.effective("b").profile.network == "loopback"
    assert profiles.effective("b").own.shipped is False
    assert profiles.effective("a").own.shipped is True
    assert profiles.directory == shelf.folder / "own"


def test_an_unknown_one_gets_the_nearest_name(shelf: Shelf) -> None:
    shelf.ship("python", "")
    with pytest.raises(UsageError, match="no profile 'pyton'; did you mean 'python'"):
        shelf.profiles.effective("pyton")
    with pytest.raises(UsageError, match="no profile 'zzz'; there are python"):
        shelf.profiles.file("zzz")


def test_the_directory_of_a_person_need_not_be_there(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    assert find_profiles(paths, {}).names() == SHIPPED


# What they come to


def test_a_chain(shelf: Shelf) -> None:
    shelf.ship("top", "network = 'internet'\n[limits]\npids = 64")
    shelf.ship("middle", "extends = 'top'\n[limits]\npids = 32\nmemory = '64M'")
    shelf.own("last", "extends = 'middle'\nnetwork = 'none'")
    effective = shelf.profiles.effective("last")
    assert [definition.name for definition in effective.chain] == ["last", "middle", "top"]
    profile = effective.profile
    assert (profile.network, profile.limits.pids, profile.limits.memory) == ("none", 32, 64 << 20)
    assert profile.description == "own last"


def test_a_profile_of_a_person_may_extend_the_shipped_one_that_it_hides(shelf: Shelf) -> None:
    shelf.ship("default", "[limits]\npids = 64")
    shelf.own("default", "extends = 'default'\n[limits]\npids = 32")
    shelf.own("other", "extends = 'default'")
    assert shelf.profiles.effective("default").profile.limits.pids == 32
    assert shelf.profiles.effective("other").profile.limits.pids == 32


def test_shipped_profiles_extend_shipped_ones_only(shelf: Shelf) -> None:
    shelf.ship("default", "[limits]\npids = 64")
    shelf.ship("node", "extends = 'default'")
    shelf.own("default", "[limits]\npids = 8")
    assert shelf.profiles.effective("node").profile.limits.pids == 64


def test_what_is_in_any_file_can_be_judged(shelf: Shelf, tmp_path: Path) -> None:
    shelf.ship("default", "")
    file = tmp_path / "draft.toml"
    file.write_text("description = 'x'\nextends = 'default'\nnetwork = 'loopback'\noverride = ['network']")
    assert shelf.profiles.judge(file).profile.network == "loopback"
    with pytest.raises(ConfigError, match="there is no such file"):
        shelf.profiles.judge(tmp_path / "none.toml")


# What is wrong


def test_every_fault_of_a_file_at_once_with_its_line(shelf: Shelf) -> None:
    shelf.own("a", "netwrk = 'none'\n[limits]\nmemory = 'much'\n")
    first, second = shelf.problems("a")
    assert first == "own/a.toml:2: netwrk: unknown key 'netwrk'; did you mean 'network'?"
    assert second.startswith('own/a.toml:4: limits.memory: "much" is not a size; write "512K", "64M", "1G"')


def test_no_toml(shelf: Shelf) -> None:
    shelf.own("a", "x = ")
    assert shelf.problems("a") == ["own/a.toml:2: not valid TOML, end of file: invalid value"]


def test_a_name_that_no_entry_can_write(shelf: Shelf) -> None:
    shelf.own("a b", "")
    assert shelf.problems("a b") == ["own/a b.toml: 'a b' cannot be the name of a profile"]


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a": "extends = 'b'", "b": "extends = 'a'"}, "own/b.toml:2: extends: goes round in a circle: a → b → a"),
        ({"a": "extends = 'a'"}, "own/a.toml:2: extends: it extends itself, and no 'a' is shipped"),
        ({"a": "extends = 'zz'", "b": ""}, "own/a.toml:2: extends: no profile 'zz'; there are a, b"),
        (
            {"a": "extends = 'b'", "b": "extends = 'c'", "c": "extends = 'b'"},
            "own/c.toml:2: extends: goes round in a circle: a → b → c → b",
        ),
    ],
)
def test_chains_that_lead_nowhere(shelf: Shelf, files: dict[str, str], problem: str) -> None:
    for name, text in files.items():
        shelf.own(name, text)
    assert shelf.problems("a") == [problem]


def test_a_chain_has_an_end(shelf: Shelf) -> None:
    for number in range(20):
        shelf.own(f"p{number}", f"extends = 'p{number + 1}'")
    shelf.own("p20", "")
    assert shelf.problems("p0") == ["own/p15.toml:2: extends: more than 16 in a chain"]
    assert len(shelf.profiles.effective("p5").chain) == 16


def test_a_fault_of_a_parent_is_one_of_the_parent(shelf: Shelf) -> None:
    shelf.ship("top", "x = 1")
    shelf.own("a", "extends = 'top'")
    assert [problem.partition(":")[0] for problem in shelf.problems("a")] == ["shipped/top.toml"]


def test_a_child_grants_no_more_unless_it_says_so(shelf: Shelf) -> None:
    shelf.ship("top", "")
    shelf.own("a", "extends = 'top'\nnetwork = 'internet'\n\n[limits]\nmemory = '2G'")
    first, second = shelf.problems("a")
    assert first.startswith("own/a.toml:3: network: grants more than 'top': internet is more than none;")
    assert second.startswith("own/a.toml:6: limits.memory: grants more than 'top': the limit is higher, or off;")
    shelf.own("a", "extends = 'top'\noverride = ['network', 'limits']\nnetwork = 'internet'\n[limits]\nmemory = '2G'")
    assert shelf.profiles.effective("a").profile.network == "internet"


def test_danger_is_named_in_the_file_that_says_it(shelf: Shelf) -> None:
    shelf.ship("top", "mounts = [\n  { path = '/srv' },\n  { path = '~/.ssh' },\n]")
    shelf.own("a", "extends = 'top'")
    [problem] = shelf.problems("a")
    assert problem.startswith("shipped/top.toml:4: mounts[1].path: ~/.ssh has keys, passwords or private data; take it")
    shelf.own("a", "extends = 'top'\ndangerous = true\nreason = 'to copy files to other machines'")
    assert shelf.profiles.effective("a").profile.reason == "to copy files to other machines"


def test_danger_is_inherited_and_can_be_left(shelf: Shelf) -> None:
    shelf.ship("top", "dangerous = true\nreason = 'why'\nmounts = [{ path = '~' }]\nconfirm = true")
    shelf.own("a", "extends = 'top'")
    shelf.own("b", "extends = 'top'\ndangerous = false")
    shelf.own("c", "extends = 'top'\ndangerous = false\nmounts = [{ path = '~/src' }]")
    assert shelf.profiles.effective("a").profile.dangerous
    assert len(shelf.problems("b")) == 1
    assert not shelf.profiles.effective("c").profile.dangerous
    assert shelf.profiles.effective("c").profile.confirm


# The shipped ones


@pytest.fixture
def shipped(tmp_path: Path) -> Profiles:
    return Profiles(tmp_path, profiles_directory(), "/home/ada")


def test_the_list_is_that_of_the_readme() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    assert tuple(sorted(re.findall(r"^\| `([a-z-]+)` \| .*\| .*\|$", section(text), re.MULTILINE))) == SHIPPED


def section(text: str) -> str:
    return text.partition("## Profiles\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_profile_is_right_and_says_what_it_is_for(shipped: Profiles, name: str) -> None:
    effective = shipped.effective(name)
    assert len(effective.profile.description) <= 130
    assert effective.own.shipped
    assert effective.profile.dangerous is (name == "docker-socket")
    assert effective.profile.confirm is (name == "docker-socket")


def test_nothing_else_is_shipped(shipped: Profiles) -> None:
    assert shipped.names() == SHIPPED


def test_the_default_is_what_the_reference_says(shipped: Profiles) -> None:
    default, entry = shipped.effective("default").profile, ServerConfig(command=("x",))
    assert (default.limits, default.seccomp) == (Limits(), SystemCalls())
    for key in ("runtime", "network", "mounts", "scope", "env", "inherit"):
        assert getattr(default, key) == getattr(entry, key)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("strict", {"network": "none", "unix": False, "scope": "auto", "families": ()}),
        ("node", {"network": "none", "unix": True, "scope": "auto"}),
        ("python-net", {"network": "internet", "unix": True, "scope": "auto"}),
        ("fetch", {"network": "internet", "unix": True, "mounts": ()}),
        ("browser", {"network": "internet", "unix": True, "userns": True, "scope": "session"}),
        ("install", {"network": Reach(allow=("@npm", "@pypi")), "unix": False, "mounts": ()}),
        ("devel", {"network": "internet", "unix": True, "ptrace": True, "userns": False}),
    ],
)
def test_what_shipped_profiles_grant(shipped: Profiles, name: str, expected: dict[str, Any]) -> None:
    profile = shipped.effective(name).profile
    for key, value in expected.items():
        holder = profile.seccomp if key in SystemCalls.model_fields else profile
        assert getattr(holder, key) == value
