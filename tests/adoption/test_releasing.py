"""Files of hosts are given back: to the last byte, entry by entry, or not at all."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.adoption.gathering import drifted
from supervisord_mcp.adoption.records import Record
from supervisord_mcp.adoption.releasing import backups, host_file, release_file, unused_servers
from supervisord_mcp.config.load import load
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.errors import SmcpError, UsageError
from tests.adoption.machine import TIME, Machine

ODD = '\ufeff{\r\n\t// mine\r\n\t"mcpServers" : { "time":{"command":"uvx","args":["mcp-server-time",],},\r\n\t},\r\n}'


@pytest.mark.parametrize("text", [ODD, ODD.replace("\r\n", "\n") + "\n"])
def test_a_file_that_nobody_changed_is_the_same_to_the_last_byte(machine: Machine, text: str) -> None:
    file = machine.cursor()
    file.write_bytes(text.encode())
    machine.adopt()
    assert file.read_bytes() != text.encode()
    (one,) = machine.releases()
    assert (one.exact, one.trouble, one.gone) == (True, None, False)
    machine.release()
    assert file.read_bytes() == text.encode()
    assert machine.records.adopted() == ()
    assert machine.releases() == []


def test_what_others_changed_since_stays(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    data = json.loads(file.read_text())
    data = {"theme": "dark", "mcpServers": {**data["mcpServers"], "new": {"command": "new-mcp"}}}
    file.write_text(json.dumps(data, indent=4))
    (one,) = machine.releases()
    assert not one.exact
    machine.release()
    assert json.loads(file.read_text()) == {
        "theme": "dark",
        "mcpServers": {"time": TIME, "new": {"command": "new-mcp"}},
    }


def test_an_entry_that_others_changed_is_a_refusal_that_names_it(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    data = json.loads(file.read_text())
    data["mcpServers"]["time"]["args"] = ["something", "else"]
    file.write_text(json.dumps(data))
    before = file.read_bytes()
    (one,) = machine.releases()
    with pytest.raises(SmcpError, match=r"mcpServers\.time"):
        release_file(one, machine.world, machine.person.where)
    assert file.read_bytes() == before
    assert len(machine.records.adopted()) == 1


def test_a_file_that_was_adopted_again_goes_back_to_its_beginning(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    first = file.read_bytes()
    machine.adopt()
    data = json.loads(file.read_text())
    data["mcpServers"]["new"] = {"command": "new-mcp"}
    file.write_text(json.dumps(data))
    machine.adopt()
    assert len(machine.records.adopted()) == 2
    (one,) = machine.releases()
    assert len(one.records) == 2
    assert not one.exact
    machine.release()
    assert json.loads(file.read_text()) == {"mcpServers": {"time": TIME, "new": {"command": "new-mcp"}}}
    assert json.loads(first) == {"mcpServers": {"time": TIME}}


def test_an_entry_that_came_back_in_other_words_and_was_adopted_again(machine: Machine) -> None:
    file = machine.cursor(time=TIME, other={"command": "other-mcp"})
    machine.adopt()
    data = json.loads(file.read_text())
    newer = {"command": "uvx", "args": ["mcp-server-time@2"]}
    data["mcpServers"]["time"] = newer
    file.write_text(json.dumps(data))
    machine.adopt()
    machine.release()
    assert json.loads(file.read_text())["mcpServers"] == {"time": newer, "other": {"command": "other-mcp"}}
    assert machine.records.adopted() == ()


def test_an_entry_of_a_list_that_came_back_in_other_words(machine: Machine) -> None:
    text = "mcpServers:\n- {name: time, command: uvx, args: [mcp-server-time]}\n- {name: b, command: b-mcp}\n"
    file = machine.write(".continue/config.yaml", f"name: x\nversion: 1.0.0\nschema: v1\n{text}")
    before = file.read_text()
    machine.adopt()
    lines = file.read_text().splitlines(keepends=True)
    # It stands behind the other one now.
    newer = "- {name: time, command: uvx, args: [mcp-server-time@2]}\n"
    file.write_text("".join([*lines[:4], *lines[5:], newer]))
    machine.adopt()
    machine.release()
    head, *entries = before.split("- ")
    assert file.read_text() == f"{head}- {entries[1]}{newer}"


def test_a_file_that_was_adopted_by_two_links_goes_back_to_its_beginning(machine: Machine) -> None:
    file = machine.write("dots/mcp.json", {"time": TIME})
    for link in (".cursor/mcp.json", ".codeium/windsurf/mcp_config.json"):
        (machine.home / link).parent.mkdir(parents=True)
        (machine.home / link).symlink_to(file)
    machine.adopt("cursor")
    data = json.loads(file.read_text())
    data["mcpServers"]["new"] = {"command": "new-mcp"}
    file.write_text(json.dumps(data))
    machine.adopt("windsurf")
    assert len({record.file for record in machine.records.adopted()}) == 2
    machine.release()
    assert json.loads(file.read_text()) == {"mcpServers": {"time": TIME, "new": {"command": "new-mcp"}}}
    assert machine.records.adopted() == ()


def test_a_file_that_is_gone_leaves_its_backup(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    machine.adopt()
    file.unlink()
    (one,) = machine.releases()
    assert one.gone
    kept = Path(backups(machine.paths, one))
    machine.release()
    assert machine.releases() == []
    assert kept.read_bytes() == before


def test_a_directory_in_the_place_of_a_file_is_no_file(machine: Machine) -> None:
    file = machine.shared(time=TIME)
    machine.trust(file)
    machine.adopt()
    file.unlink()
    file.mkdir()
    assert [one.gone for one in machine.releases()] == [True]
    assert drifted(machine.person, machine.records.adopted()) == []
    assert [reading.problems for reading in machine.gathered().readings] == []


def test_a_file_that_cannot_be_read_is_told(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    file.unlink()
    os.mkfifo(file)
    (one,) = machine.releases()
    assert "not a regular file" in str(one.trouble)


def test_a_project_file_is_trusted_as_it_was_given_back(machine: Machine) -> None:
    file = machine.shared(here={"command": "./server.py"})
    machine.trust(file)
    machine.adopt()
    machine.release()
    assert Trust.of(machine.paths).standing(file) == "trusted"


def test_only_some_hosts(machine: Machine) -> None:
    cursor, claude = machine.cursor(time=TIME), machine.claude(time=TIME)
    before = cursor.read_bytes(), claude.read_bytes()
    machine.adopt()
    machine.release("cursor")
    assert (cursor.read_bytes(), claude.read_bytes() == before[1]) == (before[0], False)
    assert [record.host for record in machine.records.adopted()] == ["claude-code"]
    with pytest.raises(UsageError, match="emacs"):
        machine.releases("emacs")


def test_servers_that_no_host_names_any_more(machine: Machine) -> None:
    machine.cursor(time=TIME, own={"command": "own-mcp"})
    machine.claude(time=TIME)
    machine.adopt()
    released = [record for record in machine.records.adopted() if record.host == "cursor"]
    machine.release("cursor")
    servers = load(machine.paths).config.servers
    assert unused_servers(servers, released, machine.records.adopted()) == ["own"]
    assert unused_servers({}, released, machine.records.adopted()) == []


def test_a_record_of_a_host_that_is_not_known_any_more(machine: Machine) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    (record,) = machine.records.adopted()
    moved: Record = replace_record(record, host="emacs")
    with pytest.raises(SmcpError, match="emacs"):
        host_file(moved, machine.person.where)


def test_a_file_that_a_variable_moved_is_still_the_hosts(machine: Machine) -> None:
    machine.write(".codex/config.toml", '[mcp_servers.time]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n')
    machine.adopt()
    (record,) = machine.records.adopted()
    elsewhere = replace(machine.person.where, environ={"CODEX_HOME": "/elsewhere"})
    file = host_file(record, elsewhere)
    assert (file.path, file.dialect) == (record.path, file.host.dialect)


def replace_record(record: Record, *, host: str) -> Record:
    import msgspec

    return msgspec.structs.replace(record, host=host)
