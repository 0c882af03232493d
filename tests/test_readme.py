"""The README says what the program does: its commands, its settings, and the two commands of the repository."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from contrib.reference import BEGIN_EVENTS, BEGIN_HOSTS, END_EVENTS, END_HOSTS, with_reference
from supervisord_mcp.cli.app import COMMANDS, GROUPS
from supervisord_mcp.config.models import Config
from supervisord_mcp.config.reference import reference
from supervisord_mcp.hosts.reference import reference as hosts_reference
from supervisord_mcp.protocol.kinds import reference as events_reference

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_reference_is_up_to_date() -> None:
    assert with_reference(README, reference()) == README, "run: python -m contrib.reference"
    assert with_reference(README, hosts_reference(), BEGIN_HOSTS, END_HOSTS) == README, (
        "run: python -m contrib.reference"
    )


def test_the_table_of_events_is_up_to_date() -> None:
    assert with_reference(README, events_reference(), BEGIN_EVENTS, END_EVENTS) == README, (
        "run: python -m contrib.reference"
    )


def test_lost_markers_are_an_error() -> None:
    with pytest.raises(ValueError, match="markers"):
        with_reference("no markers", "text")


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_is_in_the_table(command: str) -> None:
    assert re.search(rf"^\|.*`smcp {command}\b", README, re.MULTILINE)


@pytest.mark.parametrize("group", GROUPS)
def test_every_subcommand_of_a_group_is_in_the_table(group: str) -> None:
    [row] = re.findall(rf"^\| `smcp {group}` \|(.*)$", README, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == [command.name for command in GROUPS[group]]


def test_examples_of_the_configuration_are_valid() -> None:
    examples = [text for text in blocks("toml") if "[servers." in text]
    assert examples
    for text in examples:
        assert Config.model_validate(tomllib.loads(text)).servers


@pytest.mark.parametrize("command", [text.strip() for text in blocks("sh")[:2]])
def test_the_first_two_commands_are_programs_of_the_repository(command: str) -> None:
    assert os.access(ROOT / command, os.X_OK)


def test_continuous_integration_runs_the_second_command() -> None:
    assert blocks("sh")[1].strip() in (ROOT / ".ci" / "run").read_text()
