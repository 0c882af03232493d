"""What entries of hosts become: one server for what is the same, else clear names; and what is left alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.adoption.importing import Why, handed_on
from supervisord_mcp.adoption.shims import shim_command
from supervisord_mcp.config.models import ServerConfig
from tests.adoption.machine import TIME, TOKEN, Machine, entry


def names(machine: Machine) -> dict[str, list[str]]:
    """Return the hosts of every server."""
    return {server.name: [one.host for one in server.sources] for server in machine.plan().servers}


def test_what_several_hosts_start_becomes_one_server(machine: Machine) -> None:
    machine.cursor(time=TIME)
    machine.claude(clock={"type": "stdio", "command": "uv", "args": ["tool", "run", "mcp-server-time"]})
    machine.write(".codex/config.toml", '[mcp_servers.time]\ncommand = "uvx"\nargs = ["mcp-server-time"]\n')
    assert names(machine) == {"clock": ["claude-code", "cursor", "codex"]}


def test_different_servers_of_one_name_get_clear_names(machine: Machine) -> None:
    machine.claude(time=TIME)
    machine.cursor(time={"command": "uvx", "args": ["other-time"]})
    machine.write(".codex/config.toml", '[mcp_servers.time]\ncommand = "uvx"\nargs = ["third"]\n')
    machine.write(".gemini/settings.json", {"time": {"command": "uvx", "args": ["third"]}})
    assert names(machine) == {
        "time": ["claude-code"],
        "time-cursor": ["cursor"],
        "time-2": ["codex", "gemini"],
    }


def test_names_of_ours_are_not_taken_again(machine: Machine) -> None:
    machine.paths.config_dir.mkdir(parents=True)
    machine.paths.config_file.write_text('[servers.time]\ncommand = "other"\n')
    machine.cursor(time=TIME, **{"a server/with signs!": {"command": "y"}, "!!!": {"command": "z-mcp"}})
    assert list(names(machine)) == ["time-cursor", "a-server-with-signs", "z"]


def test_a_server_that_is_there_already_is_used(machine: Machine) -> None:
    machine.paths.config_dir.mkdir(parents=True)
    machine.paths.config_file.write_text('[servers.clock]\ncommand = ["uvx", "mcp-server-time"]\n')
    machine.cursor(time=TIME)
    server = machine.server()
    assert (server.name, server.there) == ("clock", True)


def test_a_server_whose_secret_is_in_the_vault_is_known_again(machine: Machine) -> None:
    git = {"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN, "LEVEL": "1"}}
    machine.cursor(git=git)
    machine.adopt()
    machine.claude(github=git)
    server = machine.server("claude-code")
    assert (server.name, server.there) == ("git", True)
    machine.paths.config_file.write_text('[servers.git]\ncommand = "other"\n')
    server = machine.server("claude-code")
    assert (server.name, server.there) == ("github", False)


def test_a_server_with_credentials_is_no_server_of_an_entry_without(machine: Machine) -> None:
    machine.cursor(git={"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN}})
    machine.adopt()
    machine.claude(git={"command": "npx", "args": ["x-mcp"]})
    server = machine.server("claude-code")
    assert (server.name, server.there) == ("git-claude-code", False)


def test_a_name_that_is_used_again_stands_for_its_last_secret(machine: Machine) -> None:
    one = {"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN}}
    file = machine.cursor(git=one)
    machine.adopt()
    machine.release()
    machine.paths.config_file.write_text("")
    file.unlink()
    machine.claude(git={**one, "env": {"GIT_TOKEN": TOKEN[::-1].replace("_phg", "") + "x" * 4}})
    machine.adopt()
    machine.cursor(git=one)
    server = machine.server("cursor")
    assert (server.name, server.there) == ("git-cursor", False)


def test_a_server_that_got_more_words_is_known_again(machine: Machine) -> None:
    fetch = {"command": "uvx", "args": ["mcp-server-fetch"]}
    machine.cursor(fetch=fetch)
    assert machine.server().table["command"] == ["uvx", "mcp-server-fetch", "--allow-private-ips"]
    machine.adopt()
    machine.claude(fetch=fetch)
    server = machine.server("claude-code")
    assert (server.name, server.there) == ("fetch", True)


def test_plain_secrets_are_no_part_of_the_table(machine: Machine) -> None:
    machine.cursor(git={"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN, "LEVEL": "1", "NONE": ""}})
    server = machine.server()
    assert server.secrets == {"GIT_TOKEN": TOKEN}
    assert server.table["env"] == {"LEVEL": "1", "NONE": ""}
    assert TOKEN not in f"{server.table}{server.remarks}{server!r}"


def test_a_reference_is_better_than_the_same_secret(machine: Machine) -> None:
    machine.environ["GIT_TOKEN"] = TOKEN
    machine.cursor(git={"command": "x", "env": {"GIT_TOKEN": TOKEN}})
    machine.claude(git={"command": "x", "env": {"GIT_TOKEN": "${GIT_TOKEN}"}})
    server = machine.server()
    assert (len(server.sources), dict(server.secrets)) == (2, {})
    assert server.table["env"] == {"GIT_TOKEN": "${GIT_TOKEN}"}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${env:OTHER}", "${T:-${OTHER}}"),
        ("Bearer ${env:OTHER}", "${T:-Bearer ${OTHER}}"),
        ("${env:T}", "${T}"),
        ("{${env:OTHER}}", "{${OTHER}}"),
        ("$5", "$$5"),
        ("${workspaceFolder}/x", "${project}/x"),
        ("${userHome}/x", "${HOME}/x"),
    ],
)
def test_variables_are_translated_and_hosts_go_on_giving_them(machine: Machine, text: str, wanted: str) -> None:
    machine.cursor(s={"command": "x", "env": {"T": text}})
    server = machine.server()
    assert server.table["env"] == {"T": wanted}
    ServerConfig.model_validate(server.table)
    assert handed_on(server.sources[0]) == ({"T"} if "env:" in text else set())


def test_what_the_host_asks_for_goes_on_coming_from_it(machine: Machine) -> None:
    text = """{
      "inputs": [{"id": "t", "type": "promptString", "description": "a token", "password": true}],
      "servers": {
        "a": {"command": "x", "env": {"T": "${input:t}"}},
        "b": {"command": "x", "args": ["${input:t}"]}
      }
    }"""
    file = machine.write(".config/Code/User/mcp.json", text)
    plan = machine.plan()
    (server,) = plan.servers
    assert server.table["env"] == {"T": "${T}"}
    assert "env.T" in server.remarks[-1]
    (left,) = plan.left
    assert (left.why, left.entry.name, left.entry.file, left.entry.line) == (Why.UNRESOLVED, "b", file, 5)
    assert left.told[0].startswith("args[0]: ${input:t}: ")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"url": "https://mcp.example.com/mcp"}, Why.URL),
        ({"command": "smcp", "args": ["connect", "time"]}, Why.THROUGH),
        (dict(zip(("command", "args"), ("py", list(shim_command("time", None))), strict=True)), Why.THROUGH),
        ({"command": "x", "args": ["${input:t}"]}, Why.UNRESOLVED),
        ({"command": "x", "envFile": ".env"}, Why.UNRESOLVED),
        ({"command": "x", "envFile": "${env:NOWHERE}/.env"}, Why.UNRESOLVED),
        ({"command": "x", "envFile": "/nowhere/.env"}, Why.UNRESOLVED),
        ({"command": "x", "args": [f"--token={TOKEN}"]}, Why.EXPOSED),
        ({"command": "x", "args": ["/"]}, Why.UNSHOWABLE),
    ],
)
def test_what_is_left_alone(machine: Machine, value: dict[str, Any], why: Why) -> None:
    machine.cursor(s=value)
    plan = machine.plan()
    assert plan.servers == ()
    (left,) = plan.left
    assert left.why is why
    assert bool(left.told) is (why is not Why.THROUGH)
    assert plan.server_of(left.entry) is None


def test_a_project_file_is_taken_only_as_it_was_trusted(machine: Machine) -> None:
    file = machine.shared(here={"command": "./server.py", "env": {"A": "b"}})
    (left,) = machine.plan().left
    assert (left.why, f"smcp trust {file}" in left.told[0]) == (Why.UNTRUSTED, True)
    machine.trust(file)
    server = machine.server()
    assert server.table == {
        "command": ["./server.py"],
        "env": {"A": "b"},
        "network": "internet",
        "mounts": [{"path": "${project}", "access": "rw"}],
        "project_file": str(file),
        "scope": "project",
    }
    assert ServerConfig.model_validate(server.table).sharing == "project"
    file.write_text(file.read_text() + "\n")
    assert machine.plan().left[0].why is Why.UNTRUSTED


def test_a_browser_of_a_project_file_keeps_a_session_of_its_own(machine: Machine) -> None:
    machine.trust(machine.shared(web={"command": "npx", "args": ["@playwright/mcp"]}))
    assert "scope" not in machine.server().table


def test_the_network_can_be_given(machine: Machine) -> None:
    machine.cursor(time=TIME, box={"command": "docker", "args": ["run", "x"]})
    tables = {server.name: server.table for server in machine.plan(network="none").servers}
    assert tables["time"]["network"] == "none"
    assert "network" not in tables["box"]


def test_what_a_person_should_know_is_remarked(machine: Machine) -> None:
    machine.write(
        ".codeium/windsurf/mcp_config.json", {"s": {"command": "x", "args": ["--token", "hunter2"], "disabled": True}}
    )
    remarks = "\n".join(machine.server().remarks)
    assert "args[1]: a secret" in remarks
    assert "disabled in its host and stays so" in remarks
    assert "hunter2" not in remarks


def test_servers_can_be_left_out(machine: Machine) -> None:
    machine.cursor(a={"command": "a-mcp"}, b={"command": "b-mcp"})
    plan = machine.plan().without({"a"})
    assert [server.name for server in plan.servers] == ["b"]


def test_an_entry_of_one_project_says_so_in_its_name(machine: Machine) -> None:
    mine = '{"/home/anna/My Site": {"mcpServers": {"s": {"command": "y"}}}}'
    text = f'{{"mcpServers": {{"s": {{"command": "x"}}}}, "projects": {mine}}}'
    machine.write(".claude.json", text)
    assert list(names(machine)) == ["s", "s-My-Site"]
    assert machine.plan().servers[1].sources[0].project == Path("/home/anna/My Site")


def test_variables_of_an_entry_that_no_shell_could_name_are_not_handed_on() -> None:
    assert handed_on(entry("x", env={"a.b": "${X}", "C": "${X}", "D": "plain"})) == {"C"}


def test_variables_of_a_file_are_copied_and_those_of_the_entry_win(machine: Machine) -> None:
    (machine.home / "vars").write_text(f"GIT_TOKEN={TOKEN}\nLEVEL=1\nOTHER=$5\n")
    machine.cursor(s={"command": "x", "env": {"LEVEL": "2"}, "envFile": "${userHome}/vars"})
    server = machine.server()
    assert server.table["env"] == {"LEVEL": "2", "OTHER": "$$5"}
    assert server.secrets == {"GIT_TOKEN": TOKEN}
    assert "copied from ${HOME}/vars" in server.remarks[-1]


def test_a_file_of_variables_in_a_project(machine: Machine) -> None:
    (machine.project / ".env").write_text("LEVEL=1\n")
    text = json.dumps({"servers": {"s": {"command": "x", "envFile": "${workspaceFolder}/.env"}}})
    machine.trust(machine.write("site/.vscode/mcp.json", text))
    assert machine.server().table["env"] == {"LEVEL": "1"}


def test_variables_that_are_set_nowhere_are_reported_with_their_keys(machine: Machine) -> None:
    machine.environ["SET"] = "1"
    entry = {"command": "${env:PROGRAM}", "args": ["${env:WORD}", "${env:SET}"], "env": {"A": "${env:TEXT}"}}
    machine.cursor(s={**entry, "cwd": "${workspaceFolder}/${env:DIR}"})
    told = [remark.partition(" is not set here")[0] for remark in machine.server().remarks if "not set here" in remark]
    assert told == ["command: ${PROGRAM}", "args[0]: ${WORD}", "env.A: ${TEXT}", "cwd: ${DIR}"]
