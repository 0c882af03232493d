"""``smcp import`` and ``smcp adopt``."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.protocol import control
from tests.adoption.machine import TIME, TOKEN, Machine
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon

GIT = {"command": "npx", "args": ["x-mcp"], "env": {"GIT_TOKEN": TOKEN}}


def servers(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(machine.paths.config_file.read_text()).get("servers", {})
    return found


def test_import_leaves_the_files_of_hosts_as_they_are(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    file = machine.cursor(time=TIME, git=GIT)
    before = file.read_bytes()
    ran = smcp("import", "--yes")
    assert ran.status == 0, ran.err
    assert servers(machine)["time"] == {"command": ["uvx", "mcp-server-time"], "profile": "python"}
    assert servers(machine)["git"]["credentials"] == {"GIT_TOKEN": "vault:git-GIT_TOKEN"}
    assert file.read_bytes() == before
    assert tools.asked == [control.Reload()]
    assert TOKEN not in ran.out + ran.err
    assert smcp("import", "--yes").out.endswith("nothing to import\n")


def test_a_dry_run_changes_nothing_and_shows_everything(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME, git=GIT, far={"url": "https://mcp.example.com"})
    before = file.read_bytes()
    ran = smcp("adopt", "--dry-run")
    assert ran.status == 0, ran.err
    assert file.read_bytes() == before
    assert not machine.paths.config_file.exists()
    assert not machine.paths.adoption_dir.exists()
    for text in (
        "runs     uvx mcp-server-time",
        f"from     cursor {file}:3",
        "may      profile python; no network; no files of yours",
        "may      profile node-net; reach all that is public; no files of yours",
        "secrets  GIT_TOKEN: to the vault",
        f"{file}:18: mcpServers.far: it is reached by its address",
        f"--- {file}",
        '-      "command": "uvx",',
    ):
        assert text in ran.out, (text, ran.out)
    assert TOKEN not in ran.out
    assert smcp("import", "--dry-run").status == 0
    assert not machine.paths.config_file.exists()


def test_adopt(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    file = machine.cursor(time=TIME)
    other = machine.claude(clock={"command": "uvx", "args": ["mcp-server-time"]})
    ran = smcp("adopt", "--yes")
    assert (ran.status, ran.err) == (0, "")
    assert list(servers(machine)) == ["clock"]
    for one, name in ((file, "time"), (other, "clock")):
        assert json.loads(one.read_text())["mcpServers"][name]["args"][-1] == "clock"
        assert f"adopted {one}" in ran.out
    assert tools.asked == [control.Reload(), control.Tools(name="clock")]
    assert "clock works: 1 tool" in ran.out
    assert smcp("adopt", "--yes").out == "nothing to adopt\n"


def test_a_server_that_does_not_work_stays_with_its_host(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    memory = {"command": "npx", "args": ["@modelcontextprotocol/server-memory"]}
    keyed = {**TIME, "env": {"A_TOKEN": TOKEN}}
    file = machine.cursor(time=TIME, keyed=keyed, memory=memory)
    before = file.read_bytes()
    tools.answers[control.Tools] = LaunchError(
        "it wants a file", remedy="mount it\nsmcp tries again in 1 s, and gives up"
    )
    ran = smcp("adopt", "--yes")
    assert ran.status == 1
    assert "'time' stays with its host: it wants a file\n  mount it\n" in ran.err
    assert "tries again" not in ran.err
    assert file.read_bytes() == before
    assert (servers(machine), machine.records.imported()) == ({}, {})
    assert "keyed" not in smcp("secret", "list").out
    assert not (machine.root / "smcp/data/server-memory").exists()
    assert tools.asked[-1] == control.Reload()
    assert smcp("adopt", "--yes", "--untried").status == 0
    assert file.read_bytes() != before
    assert "keyed-A_TOKEN" in smcp("secret", "list").out


def test_what_was_there_before_stays_when_it_does_not_work(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    keyed = {**TIME, "env": {"A_TOKEN": TOKEN}}
    machine.cursor(time=TIME, keyed=keyed)
    assert smcp("import", "--yes").status == 0
    before = machine.paths.config_file.read_bytes()
    machine.claude(keyed={**keyed, "args": ["other-time"]})
    tools.answers[control.Tools] = LaunchError("it wants a file", remedy="mount it")
    assert smcp("adopt", "--yes").status == 1
    assert machine.paths.config_file.read_bytes().split() == before.split()
    assert "keyed-A_TOKEN" in smcp("secret", "list").out


def test_a_command_that_is_not_there_is_told_before_anything_is_asked(
    smcp: Smcp, machine: Machine, tools: FakeDaemon
) -> None:
    file = machine.cursor(gone={"command": "no-such-command"})
    ran = smcp("adopt")
    assert (ran.status, "nothing to adopt" in ran.out) == (0, True)
    assert "command not found: no-such-command" in ran.out
    assert "smcp adopt leaves it with its host" in ran.out
    machine.cursor(gone={"command": "no-such-command"}, time=TIME)
    assert smcp("adopt", "--yes").status == 0
    assert list(servers(machine)) == ["time"]
    assert json.loads(file.read_text())["mcpServers"]["gone"]["command"] == "no-such-command"


def test_a_server_that_cannot_be_configured_stays_with_its_host(
    smcp: Smcp, machine: Machine, tools: FakeDaemon
) -> None:
    file = machine.cursor(time=TIME, odd={"command": "/bin/sh", "env": {"SMCP_INSTANCE": "x"}})
    ran = smcp("adopt", "--yes")
    assert ran.status == 1
    assert "the server 'odd' was not imported" in ran.err
    found = json.loads(file.read_text())["mcpServers"]
    assert (found["odd"]["command"], found["time"]["args"][-1]) == ("/bin/sh", "time")


def test_what_nobody_confirms_is_not_done(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    for words in (("adopt",), ("import",)):
        ran = smcp(*words)
        assert (ran.status, ran.out, "nothing was changed" in ran.err) == (2, "", True)
    assert file.read_bytes() == before
    assert not machine.paths.config_file.exists()


def test_only_the_hosts_that_are_named(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    machine.cursor(time=TIME)
    machine.claude(other={"command": "other-mcp"})
    assert smcp("adopt", "cursor", "--yes", "--network", "none").status == 0
    assert servers(machine) == {"time": {"command": ["uvx", "mcp-server-time"], "profile": "python", "network": "none"}}


@pytest.mark.parametrize(("words", "told"), [(("emacs",), "emacs"), (("--network", "some"), "--network some")])
def test_usage(smcp: Smcp, machine: Machine, words: tuple[str, ...], told: str) -> None:
    for command in ("adopt", "import"):
        ran = smcp(command, *words)
        assert (ran.status, told in ran.err) == (2, True)


def test_a_disabled_server_is_not_tried(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    file = machine.write(".codeium/windsurf/mcp_config.json", {"time": {**TIME, "disabled": True}})
    assert smcp("adopt", "--yes").status == 0
    assert json.loads(file.read_text())["mcpServers"]["time"]["disabled"] is True
    assert tools.asked == [control.Reload()]
