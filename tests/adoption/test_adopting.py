"""Secrets, servers and files of hosts are changed in this order, each as a whole or not at all."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.adoption import adopting, releasing
from supervisord_mcp.adoption.adopting import adopt_file, drafts, import_servers, take_back
from supervisord_mcp.adoption.gathering import drifted
from supervisord_mcp.adoption.importing import Why
from supervisord_mcp.adoption.shims import shim_command
from supervisord_mcp.adoption.survey import Change as Drifted
from supervisord_mcp.config import edit
from supervisord_mcp.config.load import load
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.trust import Trust
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.hosts import files
from supervisord_mcp.hosts.files import Change, Reading, preview
from tests.adoption.machine import TIME, TOKEN, Machine

GIT = {"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN, "LEVEL": "1"}}


def configured(machine: Machine) -> dict[str, Any]:
    servers: dict[str, Any] = tomllib.loads(machine.paths.config_file.read_text())["servers"]
    return servers


def entries(file: Path) -> dict[str, Any]:
    servers: dict[str, Any] = json.loads(file.read_text())["mcpServers"]
    return servers


def only(machine: Machine) -> Reading:
    (reading,) = [one for one in machine.gathered().readings if one.entries]
    return reading


def test_secrets_go_to_the_vault_and_are_granted(machine: Machine) -> None:
    file = machine.cursor(git=GIT)
    machine.adopt()
    assert machine.vault == {"git-GIT_TOKEN": TOKEN}
    assert configured(machine) == {
        "git": {
            "command": ["npx", "x-mcp"],
            "env": {"LEVEL": "1"},
            "profile": "node-net",
            "credentials": {"GIT_TOKEN": "vault:git-GIT_TOKEN"},
        }
    }
    assert TOKEN not in machine.paths.config_file.read_text() + file.read_text()


def test_a_locked_vault_leaves_them_in_our_configuration_and_that_is_told(machine: Machine) -> None:
    machine.vault = None
    machine.cursor(git={**GIT, "env": {"GIT_TOKEN": f"$x{TOKEN}"}}, time=TIME)
    imported = import_servers(machine.plan(), machine.world)
    assert list(imported.exposed) == ["git"]
    assert imported.exposed["git"].message == "the vault is locked"
    assert configured(machine)["git"]["env"] == {"GIT_TOKEN": f"$$x{TOKEN}"}


def test_a_server_that_cannot_be_configured_is_told_and_the_others_come(machine: Machine) -> None:
    machine.cursor(a={"command": "a-mcp"}, b={"command": "b-mcp", "env": {"SMCP_INSTANCE": "x"}})
    plan = machine.plan()
    imported = import_servers(plan, machine.world)
    assert list(imported.failed) == ["b"]
    assert list(configured(machine)) == ["a"]
    assert list(machine.records.imported().values()) == ["a"]


def test_what_was_imported_is_noted_also_where_something_else_goes_wrong(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cursor(a={"command": "a-mcp"}, b={"command": "b-mcp"})
    added: list[str] = []
    known: list[list[str]] = []

    def add(_paths: object, name: str, _entry: object) -> Path:
        # Also where nothing more can be done afterwards: the process may be killed.
        known.append(list(machine.records.imported().values()))
        if added:
            raise KeyboardInterrupt
        added.append(name)
        return Path()

    monkeypatch.setattr(edit, "add_server", add)
    with pytest.raises(KeyboardInterrupt):
        import_servers(machine.plan(), machine.world)
    assert known == [["a"], ["a", "b"]]
    assert list(machine.records.imported().values()) == ["a"]


def test_of_two_imports_at_once_the_one_that_was_first_is_known(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.cursor(a={"command": "a-mcp"})
    plan, add = machine.plan(), edit.add_server

    def add_second(paths: Paths, name: str, entry: Mapping[str, object]) -> Path:
        monkeypatch.setattr(edit, "add_server", add)
        file = add(paths, name, entry)
        assert list(import_servers(plan, machine.world).failed) == ["a"]
        return file

    monkeypatch.setattr(edit, "add_server", add_second)
    assert import_servers(plan, machine.world).failed == {}
    assert list(machine.records.imported().values()) == ["a"]


def test_only_the_entries_of_a_file_change(machine: Machine) -> None:
    text = """{
  // mine
  "theme": "dark",
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"], "autoApprove": ["*"], "disabled": true},
    "far": {"url": "https://mcp.example.com/mcp"},
    "here": {"command": "y-mcp", "env": {"A": "${env:A}", "B": "b"}},
  },
}
"""
    file = machine.write(".cursor/mcp.json", text)
    machine.adopt()
    after = file.read_text()
    for kept in ("  // mine\n", '"theme": "dark"', '"autoApprove": ["*"], "disabled": true', '"A": "${env:A}"'):
        assert kept in after
    assert '"far": {"url": "https://mcp.example.com/mcp"},\n' in after
    assert '"B"' not in after
    assert json.dumps(shim_command("time", None)[3]) in after
    home = json.dumps(machine.environ["SMCP_HOME"])
    assert after.count(f'"SMCP_HOME": {home}') == 2


def test_entries_of_one_project_name_it(machine: Machine) -> None:
    file = machine.shared(here={"command": "./server.py"})
    machine.trust(file)
    machine.adopt()
    assert entries(file)["here"]["args"][-2:] == ["--project", str(machine.project)]
    # What was trusted is trusted as it is written now.
    assert Trust.of(machine.paths).standing(file) == "trusted"


def test_a_draft_shows_no_secret(machine: Machine) -> None:
    machine.cursor(git=GIT)
    (draft,) = drafts(machine.gathered().readings, machine.plan(), machine.environ)
    assert draft.change is not None
    shown = preview(draft.change, [TOKEN])
    assert "GIT_TOKEN" in shown
    assert TOKEN not in shown


def test_links_modes_and_backups(machine: Machine) -> None:
    real = machine.write("dotfiles/mcp.json", json.dumps({"mcpServers": {"time": TIME}}))
    real.chmod(0o640)
    link = machine.home / ".cursor/mcp.json"
    link.parent.mkdir()
    link.symlink_to(real)
    before = real.read_bytes()
    machine.adopt()
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    (record,) = machine.records.adopted()
    assert record.file == str(link)
    assert machine.records.before(record) == before
    assert machine.records.after(record) == real.read_bytes()


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"mcpServers": {"time": {**TIME, "args": ["other-time"]}}}),
        json.dumps({"mcpServers": {"time": {**TIME, "disabled": True}}}),
        json.dumps({"mcpServers": {"clock": TIME}}),
        '{"mcpServers": {"time": {"command": "uvx"',
        "",
    ],
)
def test_a_file_whose_entries_were_changed_meanwhile_stays_as_it_is(machine: Machine, text: str) -> None:
    file = machine.cursor(time=TIME)
    reading, plan = only(machine), machine.plan()
    file.write_text(text)
    with pytest.raises(SmcpError, match="another program changed it meanwhile"):
        adopt_file(reading, plan, machine.world)
    assert file.read_text() == text
    assert machine.records.adopted() == ()


def test_what_a_host_that_runs_saves_beside_its_entries_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = machine.claude(time=TIME)
    before = json.loads(file.read_text())
    reading, plan = only(machine), machine.plan()
    starts = 0

    def save() -> None:
        nonlocal starts
        starts += 1
        data = json.loads(file.read_text())
        file.write_text(json.dumps({**data, "numStartups": starts, "new": {}}))

    def save_once(change: Change) -> None:
        # In the moment before it is written, twice; then the host is quiet.
        if starts < 3:
            save()
        files.write(change)

    save()
    monkeypatch.setattr(adopting, "write", save_once)
    monkeypatch.setattr(releasing, "write", save_once)
    assert adopt_file(reading, plan, machine.world)
    found = json.loads(file.read_text())
    assert (found["numStartups"], starts) == (3, 3)
    assert found["mcpServers"]["time"]["args"][-1] == "time"
    (record,) = machine.records.adopted()
    assert json.loads(machine.records.before(record)) == {"numStartups": 3, "new": {}, **before}
    starts = 1
    machine.release()
    assert json.loads(file.read_text()) == {"numStartups": 3, "new": {}, **before}
    assert machine.records.adopted() == ()


def test_a_file_that_a_host_saves_all_the_time_is_left_to_it(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    file = machine.claude(time=TIME)
    reading, plan = only(machine), machine.plan()

    def save_always(change: Change) -> None:
        file.write_text(file.read_text() + " ")
        files.write(change)

    with monkeypatch.context() as patch:
        patch.setattr(adopting, "write", save_always)
        with pytest.raises(SmcpError, match="another program changed it meanwhile"):
            adopt_file(reading, plan, machine.world)
    assert machine.records.adopted() == ()
    assert adopt_file(reading, plan, machine.world)
    monkeypatch.setattr(releasing, "write", save_always)
    with pytest.raises(SmcpError, match="another program changes it all the time"):
        machine.release()
    assert len(machine.records.adopted()) == 1


def test_a_project_file_that_was_changed_meanwhile_is_not_what_was_trusted(machine: Machine) -> None:
    file = machine.shared(here=TIME)
    machine.trust(file)
    reading, plan = only(machine), machine.plan()
    file.write_text(file.read_text() + "\n")
    with pytest.raises(SmcpError, match="another program changed it meanwhile"):
        adopt_file(reading, plan, machine.world)


def test_a_file_that_cannot_be_written_leaves_no_record(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.cursor(time=TIME)
    reading, plan = only(machine), machine.plan()

    def fail(_change: Change) -> None:
        raise SmcpError("the disk is full")

    monkeypatch.setattr(adopting, "write", fail)
    with pytest.raises(SmcpError, match="disk is full"):
        adopt_file(reading, plan, machine.world)
    assert machine.records.adopted() == ()
    assert [name for name in os.listdir(machine.records.directory) if name.endswith(("before", "after"))] == []


def test_a_file_without_servers_of_the_plan_is_not_touched(machine: Machine) -> None:
    machine.cursor(far={"url": "https://mcp.example.com"})
    assert adopt_file(only(machine), machine.plan(), machine.world) is False


def test_adopting_twice_changes_nothing_more(machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    plan = machine.adopt()
    after = file.read_bytes()
    machine.adopt()
    # Two hosts may read one file: the second finds the work done.
    for reading in machine.gathered().readings:
        assert adopt_file(reading, plan, machine.world) is False
    assert file.read_bytes() == after
    assert len(machine.records.adopted()) == 1


def test_the_directory_of_what_a_server_remembers_is_the_persons_alone(machine: Machine) -> None:
    machine.cursor(memory={"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]})
    assert not import_servers(machine.plan(), machine.world).failed
    directory = machine.root / "smcp/data/server-memory"
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    mounts = load(machine.paths).config.servers["memory"].mounts
    assert [(mount.path, mount.access) for mount in mounts] == [(str(directory), "rw")]


def test_what_is_taken_back_is_what_nothing_else_uses(machine: Machine) -> None:
    machine.cursor(git=GIT)
    server = machine.server()
    imported = import_servers(machine.plan(), machine.world)
    edit.add_server(machine.paths, "mine", {"command": "x", "credentials": {"T": "vault:git-GIT_TOKEN"}})
    take_back(server, imported.made["git"], machine.world)
    assert (list(configured(machine)), machine.vault) == (["mine"], {"git-GIT_TOKEN": TOKEN})
    edit.remove_server(machine.paths, "mine")
    again = import_servers(machine.plan(), machine.world).made["git"]
    assert again.secrets == ()
    take_back(server, replace(again, secrets=("vault:git-GIT_TOKEN",)), machine.world)
    assert machine.vault == {}


def test_a_server_that_an_adopted_file_names_is_not_taken_back(machine: Machine) -> None:
    machine.cursor(git=GIT)
    server = machine.server()
    made = import_servers(machine.plan(), machine.world).made["git"]
    adopt_file(only(machine), machine.plan(), machine.world)
    take_back(server, made, machine.world)
    assert list(configured(machine)) == ["git"]


WORKSPACE = {"command": "x-mcp", "args": ["${workspaceFolder}/src"], "env": {"ROOT": "${workspaceFolder}"}}


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (".cursor/mcp.json", "mcpServers"),
        (".config/Code/User/mcp.json", "servers"),
        (".config/Code/User/profiles/a1/mcp.json", "servers"),
        (".config/Trae/User/mcp.json", "mcpServers"),
        (".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json", "mcpServers"),
        (".kilocode/cli/global/settings/mcp_settings.json", "mcpServers"),
    ],
)
def test_an_entry_that_names_the_workspace_goes_on_naming_it(machine: Machine, path: str, key: str) -> None:
    file = machine.write(path, {"s": WORKSPACE, "other": TIME}, key)
    before = file.read_bytes()
    machine.adopt()
    found = json.loads(file.read_text())[key]
    assert found["s"]["args"][-3:] == ["s", "--project", "${workspaceFolder}"]
    assert found["other"]["args"][-1] == "other"
    table = configured(machine)["s"]
    assert (table["command"], table["env"]) == (["x-mcp", "${project}/src"], {"ROOT": "${project}"})
    assert (table["scope"], table["mounts"]) == ("project", [{"path": "${project}", "access": "rw"}])
    assert load(machine.paths).config.servers["s"].sharing == "project"
    assert drifted(machine.person, machine.records.adopted()) == []
    machine.release()
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (".claude.json", "mcpServers"),
        (".config/Claude/claude_desktop_config.json", "mcpServers"),
        (".config/github-copilot/intellij/mcp.json", "servers"),
        (".codeium/windsurf/mcp_config.json", "mcpServers"),
        (".gemini/settings.json", "mcpServers"),
        (".config/crush/crush.json", "mcp"),
        (".lmstudio/mcp.json", "mcpServers"),
    ],
)
def test_a_host_without_a_word_for_the_workspace_keeps_the_entry_and_that_is_told(
    machine: Machine, path: str, key: str
) -> None:
    machine.write(path, {"s": WORKSPACE, "env": {"command": "y-mcp", "env": {"ROOT": "${workspaceFolder}"}}}, key)
    plan = machine.plan()
    assert plan.servers == ()
    told = [one for left in plan.left for one in left.told]
    assert [one.partition(": this host")[0] for one in told] == [
        "args[0]: ${workspaceFolder}",
        "env.ROOT: ${workspaceFolder}",
        "env.ROOT: ${workspaceFolder}",
    ]


def test_entries_whose_smcp_is_gone_are_written_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    python = machine.root / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    file = machine.cursor(
        s=WORKSPACE, time={**TIME, "env": {"A": "${env:A}"}, "type": "stdio"}, far={"url": "https://x"}
    )
    before = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", str(python))
        machine.adopt()
    assert drifted(machine.person, machine.records.adopted()) == []
    adopted = file.read_text()
    # An environment that is removed, and one whose Python is.
    python.unlink()
    python.symlink_to(machine.root / "no/python3.11")
    assert [(one.name, one.change) for one in drifted(machine.person, machine.records.adopted())] == [
        ("s", Drifted.BROKEN),
        ("time", Drifted.BROKEN),
    ]
    plan = machine.adopt()
    assert [(one.server, one.entry.name) for one in plan.again] == [("s", "s"), ("time", "time")]
    assert all(str(python) in one.gone for one in plan.again)
    assert file.read_text() == adopted.replace(str(python), sys.executable)
    assert configured(machine).keys() == {"s", "time"}
    assert drifted(machine.person, machine.records.adopted()) == []
    assert machine.plan().again == ()
    machine.release()
    assert file.read_bytes() == before


def test_what_the_person_gave_to_an_entry_of_ours_stays_when_it_is_written_again(machine: Machine) -> None:
    gone = str(machine.root / "gone/smcp")
    machine.cursor(time=TIME)
    machine.adopt()
    mine = {"command": gone, "args": ["connect", "time", "--project", "/p"], "env": {"A": "1"}, "cwd": "/w"}
    file = machine.write(".codeium/windsurf/mcp_config.json", {"mine": mine})
    machine.adopt()
    found = entries(file)["mine"]
    assert [found["command"], *found["args"]] == list(shim_command("time", Path("/p")))
    assert (found["cwd"], found["env"]) == ("/w", {"A": "1", "SMCP_HOME": machine.environ["SMCP_HOME"]})


def test_an_entry_whose_smcp_is_gone_stays_where_nobody_knows_what_it_shall_name(machine: Machine) -> None:
    gone = str(machine.root / "gone/smcp")
    machine.cursor(
        a={"command": gone, "args": ["connect", "nobody"]},
        b={"command": gone, "args": ["connect", "time", "--project", "${env:WHERE}"]},
        time=TIME,
    )
    assert machine.adopt().again == ()
    told = [one for left in machine.plan().left for one in left.told]
    assert [one.partition("not there any more, ")[2] for one in told] == [
        "and smcp has no server 'nobody'",
        "and only the host knows the project ${WHERE}",
    ]
    file = machine.shared(time={"command": gone, "args": ["connect", "time"]})
    (left,) = [left for left in machine.plan().left if left.entry.file == file]
    assert left.why is Why.UNTRUSTED


@pytest.mark.parametrize("directory", ["a${HOME}b", "${workspaceFolder}", "${env:X}"])
def test_a_word_that_the_host_would_take_for_a_variable_is_never_written(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    python = machine.root / directory / "python"
    monkeypatch.setattr(sys, "executable", str(python))
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    (draft,) = drafts(machine.gathered().readings, machine.plan(), machine.environ)
    assert draft.change is None
    assert "mcpServers.time: the host would put something else for a part of" in str(draft.trouble)
    with pytest.raises(SmcpError, match="the host would put something else"):
        adopt_file(only(machine), machine.plan(), machine.world)
    assert (file.read_bytes(), machine.records.adopted()) == (before, ())


def test_a_path_that_is_not_utf_8_is_told_and_nothing_is_changed(tmp_path: Path) -> None:
    odd = Machine(tmp_path)
    odd.home = tmp_path / os.fsdecode(b"h\xff")
    odd.home.mkdir()
    odd.environ["HOME"] = str(odd.home)
    file = odd.cursor(time=TIME)
    before = file.read_bytes()
    plan, (reading,) = odd.plan(), odd.gathered().readings
    assert not import_servers(plan, odd.world).failed
    with pytest.raises(SmcpError, match="a file was whose path is not UTF-8; nothing was changed"):
        adopt_file(reading, plan, odd.world)
    odd.environ["SMCP_HOME"] = str(odd.home)
    (draft,) = drafts([reading], plan, odd.environ)
    assert "a path that it would name is not UTF-8; nothing was changed" in str(draft.trouble)
    assert file.read_bytes() == before
    assert [one.name for one in odd.records.directory.glob("*.before")] == []
