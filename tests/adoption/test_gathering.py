"""The files of all hosts, in one order, with what is known of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from supervisord_mcp.adoption.gathering import Person, drifted, elsewhere, gather, known
from supervisord_mcp.errors import UsageError
from tests.adoption.machine import TIME, Machine


def test_every_file_is_read_in_the_order_of_the_hosts(machine: Machine) -> None:
    machine.cursor(time=TIME)
    machine.claude(time=TIME)
    machine.shared(here=TIME)
    gathered = machine.gathered()
    assert [one.host for one in gathered.entries] == ["claude-code", "claude-code", "cursor"]
    assert [one.host.key for one in gathered.found if one.installed] == ["claude-code", "cursor"]
    assert [one.host for one in machine.gathered("cursor").entries] == ["cursor"]
    with pytest.raises(UsageError, match="emacs"):
        machine.gathered("emacs")


def test_without_a_project_there_are_no_files_of_one(machine: Machine) -> None:
    machine.shared(here=TIME)
    assert gather(Person(machine.paths, machine.environ)).entries == []


def test_a_file_that_cannot_be_read_has_problems_and_the_others_count(machine: Machine) -> None:
    machine.write(".cursor/mcp.json", "{\n  oops")
    machine.claude(time=TIME)
    gathered = machine.gathered()
    assert [one.name for one in gathered.entries] == ["time"]
    (problem,) = [problem for reading in gathered.readings for problem in reading.problems]
    assert (problem.line, "column" in problem.message) == (2, True)


def test_what_is_trusted_is_known_by_its_content(machine: Machine) -> None:
    file = machine.shared(here=TIME)
    assert machine.gathered().rules.trusted == frozenset()
    machine.trust(file)
    assert machine.gathered().rules.trusted == {file}


def test_what_is_configured(machine: Machine) -> None:
    place = machine.gathered().rules.place
    assert known(machine.paths, place).commands == {}
    machine.paths.config_dir.mkdir(parents=True)
    machine.paths.config_file.write_text(
        '[servers.a]\ncommand = "x y"\n[servers.b]\ncommand = "z"\nscope = "project"\nproject_file = "/p/.mcp.json"\n'
    )
    found = known(machine.paths, place)
    assert found.commands == {"a": ("x", "y"), "b": ("z",)}
    assert list(found.same.values()) == ["a"]


def test_records_of_hosts_that_are_not_known_any_more_are_no_drift(machine: Machine) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    (machine.paths.adoption_dir / "records.json").write_text(
        (machine.paths.adoption_dir / "records.json").read_text().replace('"cursor"', '"emacs"')
    )
    assert drifted(machine.person, machine.records.adopted()) == []


def test_what_is_started_elsewhere_is_not_ours(machine: Machine) -> None:
    text = json.dumps({"customizations": {"vscode": {"mcp": {"servers": {"inside": TIME}}}}})
    machine.write("site/.devcontainer/devcontainer.json", text)
    gathered = machine.gathered("vscode")
    assert gathered.entries == []
    (reading,) = [one for one in gathered.readings if one.entries]
    assert elsewhere(reading.file) == "a container"
    assert elsewhere(replace(reading.file, foreign=True)) == "Windows"
    assert elsewhere(replace(reading.file, label="")) == ""
