"""What hosts have, twice or in the open, and what changed since it was adopted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.adoption import survey
from supervisord_mcp.adoption.gathering import drifted
from supervisord_mcp.adoption.survey import Change, Way, place_of, tokens, way
from tests.adoption.machine import TIME, TOKEN, Machine, entry


def drift(machine: Machine) -> list[tuple[str, Change]]:
    return [(one.name, one.change) for one in drifted(machine.person, machine.records.adopted())]


def edit(file: Path, change: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(file.read_text())
    change(data["mcpServers"])
    file.write_text(json.dumps(data))


def test_ways() -> None:
    assert way(entry("npx", "x")) == (Way.DIRECT, "")
    assert way(entry("smcp", "connect", "time")) == (Way.THROUGH, "time")
    assert way(entry(url="https://x")) == (Way.URL, "")


def test_secrets_in_the_open() -> None:
    found = tokens(entry("x", "--token", TOKEN, env={"API_KEY": "abc", "OTHER_KEY": "${X}", "A": "b"}))
    assert found == ["env.API_KEY", "args[1]"]
    assert tokens(entry(url=f"https://h/{TOKEN}")) == ["url"]
    assert tokens(entry(TOKEN)) == []


def test_a_secret_that_its_host_asks_for_is_not_in_the_open(machine: Machine) -> None:
    asked, both = ({"command": "x", "env": {"API_TOKEN": f"{text}${{input:token}}"}} for text in ("", TOKEN))
    machine.write(".config/Code/User/mcp.json", {"a": asked, "b": both}, key="servers")
    found = {one.name: tokens(one) for one in machine.gathered().entries}
    assert found == {"a": [], "b": ["env.API_TOKEN"]}


def test_the_place_of_an_entry() -> None:
    assert place_of(entry("x")) == "/h/.cursor/mcp.json:3: mcpServers.s"


def test_what_several_files_start_directly(machine: Machine) -> None:
    machine.cursor(time=TIME, twice=TIME, other={"command": "x"})
    machine.claude(clock={"command": "uvx", "args": ["mcp-server-time"]})
    gathered = machine.gathered()
    (group,) = survey.duplicates(gathered.entries, gathered.rules)
    assert [one.name for one in group] == ["clock", "time", "twice"]
    machine.adopt()
    gathered = machine.gathered()
    assert survey.duplicates(gathered.entries, gathered.rules) == []


def test_one_file_alone_has_no_duplicates(machine: Machine) -> None:
    machine.cursor(time=TIME, twice=TIME)
    gathered = machine.gathered()
    assert survey.duplicates(gathered.entries, gathered.rules) == []


def test_nothing_changed(machine: Machine) -> None:
    machine.cursor(time=TIME, far={"url": "https://mcp.example.com"}, left={"command": "x", "args": ["${input:t}"]})
    assert drift(machine) == []
    machine.adopt()
    assert drift(machine) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda servers: servers.update(time=TIME), [("time", Change.DIRECT)]),
        (lambda servers: servers.update(time={"url": "https://x"}), [("time", Change.EDITED)]),
        (lambda servers: servers["time"]["args"].__setitem__(3, "other"), [("time", Change.EDITED)]),
        (lambda servers: servers["time"].update(command="/gone/python"), [("time", Change.BROKEN)]),
        (lambda servers: servers.pop("time"), [("time", Change.GONE)]),
        (lambda servers: servers.update(new={"command": "x"}), [("new", Change.NEW)]),
        (lambda servers: servers.update(new={"url": "https://x"}), []),
        (lambda servers: servers["time"].update(autoApprove=["x"]), []),
    ],
)
def test_what_changed_since(
    machine: Machine, change: Callable[[dict[str, Any]], object], found: list[tuple[str, Change]]
) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    edit(file, change)
    assert drift(machine) == found
    for one in drifted(machine.person, machine.records.adopted()):
        assert str(file) in one.text
        assert bool(one.remedy) is (one.change not in (Change.EDITED, Change.GONE))
        assert one.remedy in ("", "smcp adopt cursor")


def test_a_file_that_does_not_parse_any_more(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    file.write_text("{")
    assert drift(machine) == [("", Change.UNREADABLE)]
    file.unlink()
    assert drift(machine) == []


def test_what_was_adopted_again_counts_as_it_was_written_last(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    edit(file, lambda servers: servers.update(time={"command": "other-mcp"}))
    machine.adopt()
    assert drift(machine) == []


def test_an_adopted_entry_whose_server_was_removed_or_renamed(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    machine.adopt()
    config = machine.paths.config_file
    config.write_text(config.read_text().replace("[servers.time]", "[servers.clock]"))
    assert drift(machine) == [("time", Change.UNKNOWN)]
    (one,) = drifted(machine.person, machine.records.adopted())
    assert one.text == f"time in {file} names a server that smcp does not have any more"
    assert one.remedy == "smcp release cursor, or bring 'time' back: smcp add"
    # A configuration that is broken just now says nothing of its servers.
    config.write_text("[servers")
    assert drift(machine) == []
    machine.release()
    assert file.read_bytes() == before
