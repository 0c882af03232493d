"""How it is shown what would be imported."""

from __future__ import annotations

import json

import pytest

from supervisord_mcp.credentials import adoption
from supervisord_mcp.errors import SecretError
from tests.adoption.machine import TOKEN, Machine
from tests.cli.conftest import Smcp


def test_what_a_server_may_do_is_said_in_words(smcp: Smcp, machine: Machine) -> None:
    notes = machine.home / "notes"
    notes.mkdir()
    machine.cursor(
        box={"command": "docker", "args": ["run", "x"]},
        files={"command": "npx", "args": ["@modelcontextprotocol/server-filesystem", str(notes)]},
        git={"command": "npx", "args": ["@modelcontextprotocol/server-github"]},
        local={"command": "x", "env": {"URL": "http://localhost:1"}},
    )
    out = smcp("adopt", "-n").out
    for text in (
        "may      everything that you may do: it is not isolated",
        f"may      profile node; no network; read and write {notes}",
        "may      profile node-net; reach api.github.com:443; no files of yours",
        "may      share the network of this machine; no files of yours",
        "note     it uses a service of this machine",
    ):
        assert text in out, (text, out)


def test_secrets_of_a_command_are_not_shown(smcp: Smcp, machine: Machine) -> None:
    machine.cursor(s={"command": "x", "args": ["--token", "hunter2", "--api-key=hunter2", "-v"]})
    ran = smcp("adopt", "-n")
    assert "runs     x --token ••• --api-key=••• -v" in ran.out
    assert "hunter2" not in ran.out
    assert "note     args[1]: a secret" in ran.out


def test_what_is_left_alone_is_said_with_file_and_key(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(s={"command": "x", "args": ["${input:t}"]}, t={"command": "x", "args": [TOKEN]})
    broken = machine.write(".gemini/settings.json", '{"mcpServers": {"a": }}')
    ran = smcp("adopt", "-n")
    assert f"  {file}:3: mcpServers.s: args[0]: ${{input:t}}: " in ran.out
    assert f"  {file}:9: mcpServers.t: args[0]: a secret" in ran.out
    assert f"{broken}:1: column 22" in ran.err
    assert TOKEN not in ran.out


def test_a_server_that_is_there_already_is_marked(smcp: Smcp, machine: Machine) -> None:
    machine.cursor(time={"command": "uvx", "args": ["mcp-server-time"]})
    machine.paths.config_dir.mkdir(parents=True)
    machine.paths.config_file.write_text('[servers.clock]\ncommand = "uvx mcp-server-time"\n')
    assert smcp("adopt", "-n").out.startswith("clock  (there already)\n")


def test_secrets_that_stay_readable_are_told(smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> str:
        raise SecretError("the vault is locked")

    monkeypatch.setattr(adoption, "free_name", refuse)
    machine.cursor(git={"command": "x-mcp", "env": {"GIT_TOKEN": TOKEN}})
    ran = smcp("import", "--yes")
    assert ran.status == 0
    assert "the secrets of 'git' stay readable in config.toml (for you alone): the vault is locked" in ran.err


def test_what_is_started_elsewhere_and_what_should_not_be_committed_is_said(smcp: Smcp, machine: Machine) -> None:
    servers = {"inside": {"command": "x"}}
    text = json.dumps({"customizations": {"vscode": {"mcp": {"servers": servers}}}})
    inside = machine.write("site/.devcontainer/devcontainer.json", text)
    shared = machine.shared(here={"command": "./x"})
    machine.trust(shared)
    out = smcp("adopt", "-n").out
    assert f"{inside}: its servers are started in a container, where there is no smcp" in out
    assert f"{shared}: it will name paths of this machine, so do not commit it" in out
    assert "started in a container, where there is no smcp" in smcp("hosts", "vscode").out
