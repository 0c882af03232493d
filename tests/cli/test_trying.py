"""Servers are started before a host relies on them."""

from __future__ import annotations

import pytest

from supervisord_mcp.cli.trying import tried
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.protocol import control
from tests.adoption.machine import TIME, Machine
from tests.cli.daemon import FakeDaemon


def test_what_works_and_what_does_not(machine: Machine, tools: FakeDaemon, capsys: pytest.CaptureFixture[str]) -> None:
    machine.cursor(a=TIME, b={"command": "b-mcp"})

    def answer(operation: control.Tools) -> object:
        return LaunchError("no b") if operation.name == "b" else control.ToolsResult()

    tools.answers[control.Tools] = answer
    failed = tried(machine.plan().servers, None)
    assert {name: error.message for name, error in failed.items()} == {"b": "no b"}
    assert "a works: 0 tools" in capsys.readouterr().out


def test_a_server_of_a_project_is_tried_there(machine: Machine, tools: FakeDaemon) -> None:
    machine.trust(machine.shared(here=TIME))
    assert tried(machine.plan().servers, None) == {}
    assert tools.asked == [control.Tools(name="here", project=str(machine.project))]


def test_one_that_needs_what_only_its_host_has_is_not_tried(
    machine: Machine, tools: FakeDaemon, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cursor(
        a={"command": "x", "env": {"T": "${env:NOT_HERE}"}}, b={"command": "y", "env": {"T": "${env:LEVEL}"}}
    )
    monkeypatch.setenv("LEVEL", "1")
    assert tried(machine.plan().servers, None) == {}
    assert [operation.name for operation in tools.asked if isinstance(operation, control.Tools)] == ["b"]
    assert "a was not started: NOT_HERE is set for its host alone" in capsys.readouterr().out


def test_one_that_works_in_what_its_host_has_open_is_tried_in_the_project_that_the_person_is_in(
    machine: Machine, tools: FakeDaemon, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.cursor(a={"command": "x", "args": ["${workspaceFolder}"]})
    assert tried(machine.plan().servers, machine.project) == {}
    assert tools.asked == [control.Tools(name="a", project=str(machine.project))]
    assert tried(machine.plan().servers, None) == {}
    assert len(tools.asked) == 1
    assert "a was not started: it works in the project that its host has open" in capsys.readouterr().out
