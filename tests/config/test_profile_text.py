"""Profiles as text: everything is in it, and what is shown or begun with is a profile again."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from supervisord_mcp.config.extending import extended, loosened
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.profile_files import names_in, profiles_directory
from supervisord_mcp.config.profile_text import as_data, differences, shown, template
from supervisord_mcp.config.profiles import Effective, Profiles

NAMES = sorted(names_in(profiles_directory()))


@pytest.fixture
def profiles(tmp_path: Path) -> Profiles:
    return Profiles(tmp_path, profiles_directory(), "/home/ada")


def same(one: Profile, other: Profile) -> bool:
    return one.model_dump(exclude={"extends", "override"}) == other.model_dump(exclude={"extends", "override"})


@pytest.mark.parametrize("name", NAMES)
def test_what_is_shown_is_the_profile(profiles: Profiles, name: str) -> None:
    effective = profiles.effective(name)
    again = Profile.model_validate(tomllib.loads(shown(effective)))
    assert same(again, effective.profile)


def test_every_key_has_the_profile_that_says_it(profiles: Profiles) -> None:
    lines = shown(profiles.effective("fetch")).splitlines()
    assert 'network = "internet"  # python-net' in lines
    assert "unix = true  # python" in lines
    assert "ptrace = false  # default" in lines
    assert "inherit = []" in lines


def test_data_for_programs(profiles: Profiles) -> None:
    data = as_data(profiles.effective("database"))
    assert (data["name"], data["chain"]) == ("database", ["default"])
    assert data["network"] == {"allow": ["host-loopback:5432", "host-loopback:3306"], "private": False}
    assert data["limits"]["memory"] == "1G"


def test_differences(profiles: Profiles) -> None:
    one, other = (profiles.effective(name).profile for name in ("files-ro", "git"))
    assert {key: (left, right) for key, left, right in differences(one, other)} == {
        "description": (f'"{one.description}"', f'"{other.description}"'),
        "mounts ${project}": ("ro", "rw"),
        "mounts ~/.gitconfig": ("-", "ro, optional"),
        "seccomp.unix": ("false", "true"),
        "container.npx": ('"node:22-slim"', '"node:22"'),
        "container.uvx": ('"python:3.13-slim"', '"python:3.13"'),
        "env.GIT_CONFIG_GLOBAL": ("-", '"~/.gitconfig"'),
    }
    assert list(differences(one, one)) == []


def test_what_is_not_protected_is_a_difference() -> None:
    def profile(**mount: object) -> Profile:
        whole = {"path": "/a", "access": "rw", **mount}
        return Profile.model_validate({"description": "x", "mounts": [whole]})

    assert list(differences(profile(), profile(unprotected=[".vscode", ".idea"]))) == [
        ("mounts /a", "rw", "rw, unprotected .vscode .idea")
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_new_profile_grants_the_same(profiles: Profiles, tmp_path: Path, name: str) -> None:
    (tmp_path / "mine.toml").write_text(template("mine", profiles.effective(name).profile, name))
    mine, parent = profiles.effective("mine"), profiles.effective(name)
    assert [definition.name for definition in mine.chain][:2] == ["mine", name]
    assert list(differences(mine.profile, parent.profile)) in ([], _only_description(mine, parent))


def _only_description(mine: Effective, parent: Effective) -> list[tuple[str, str, str]]:
    return [("description", f'"{mine.profile.description}"', f'"{parent.profile.description}"')]


@pytest.mark.parametrize("name", NAMES)
def test_every_line_of_a_new_profile_can_be_taken_in(profiles: Profiles, name: str) -> None:
    parent = profiles.effective(name).profile
    text = re.sub(r"^#(?=[\[\w])", "", template("mine", parent, name), flags=re.MULTILINE)
    whole = extended(parent, Profile.model_validate(tomllib.loads(text)))
    assert list(loosened(parent, whole)) == []
    assert list(loosened(whole, parent)) == []
