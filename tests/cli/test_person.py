"""Whose hosts a command is about."""

from __future__ import annotations

from supervisord_mcp.cli.person import host_names, person, world
from tests.adoption.machine import TOKEN, Machine


def test_the_project_is_the_one_of_the_directory_or_the_one_that_is_given(machine: Machine) -> None:
    assert person(None).project == machine.project
    assert person(machine.home).project == machine.home
    assert person(None).home == str(machine.home)


def test_completion() -> None:
    assert host_names("claude") == ["claude-desktop", "claude-code"]


def test_secrets_go_to_the_vault_under_a_name_of_their_own(machine: Machine) -> None:
    where = world()
    assert where.store("git-TOKEN", TOKEN) == ("vault:git-TOKEN", True)
    assert where.store("git-TOKEN", TOKEN) == ("vault:git-TOKEN", False)
    assert where.store("git-TOKEN", "another one") == ("vault:git-TOKEN-2", True)
    where.drop("vault:git-TOKEN-2")
    assert where.store("git-TOKEN", "a third one") == ("vault:git-TOKEN-2", True)
