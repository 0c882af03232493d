"""``smcp release``."""

from __future__ import annotations

import json
import tomllib

from supervisord_mcp.protocol import control
from tests.adoption.machine import TIME, Machine
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon


def test_nothing_is_adopted(smcp: Smcp, machine: Machine) -> None:
    assert smcp("release").out == "nothing is adopted\n"


def test_every_byte_comes_back(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    machine.adopt()
    assert smcp("release", "--dry-run").out == f"{file}: every byte becomes what it was\n"
    assert smcp("release").status == 2
    assert file.read_bytes() != before
    ran = smcp("release", "--yes")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith("these servers stay in smcp, and no host uses them: time (smcp remove NAME)\n")
    assert file.read_bytes() == before
    assert list(tomllib.loads(machine.paths.config_file.read_text())["servers"]) == ["time"]


def test_a_faulty_configuration_keeps_no_file(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    before = file.read_bytes()
    machine.adopt()
    machine.paths.config_file.write_text("[servers")
    ran = smcp("release", "--yes")
    assert (ran.status, ran.out, ran.err) == (0, f"{file}: every byte becomes what it was\n", "")
    assert file.read_bytes() == before


def test_servers_go_too_if_that_is_wanted(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    ran = smcp("release", "--yes", "--remove")
    assert ran.out.endswith("removed the server time\n")
    assert "time" not in machine.paths.config_file.read_text()
    assert tools.asked == [control.Reload()]


def test_a_server_that_a_host_names_by_hand_stays(smcp: Smcp, machine: Machine, tools: FakeDaemon) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    machine.claude(clock={"command": "smcp", "args": ["connect", "time"]})
    ran = smcp("release", "--yes", "--remove")
    assert (ran.status, ran.err) == (0, "")
    assert list(tomllib.loads(machine.paths.config_file.read_text())["servers"]) == ["time"]


def test_without_a_terminal_nothing_is_said_as_if_it_were_done(smcp: Smcp, machine: Machine) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    ran = smcp("release")
    assert (ran.status, ran.out, "nothing was changed" in ran.err) == (2, "", True)


def test_what_cannot_be_given_back_is_told_and_the_rest_is(smcp: Smcp, machine: Machine) -> None:
    cursor, claude = machine.cursor(time=TIME), machine.claude(time=TIME)
    before = claude.read_bytes()
    machine.adopt()
    data = json.loads(cursor.read_text())
    data["mcpServers"]["time"]["command"] = "other"
    cursor.write_text(json.dumps(data))
    ran = smcp("release", "--yes")
    assert ran.status == 1
    assert f"{cursor} stays as it is" in ran.err
    assert "mcpServers.time" in ran.err
    assert claude.read_bytes() == before


def test_a_file_that_was_changed_since_is_shown(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    file.write_text(json.dumps({**json.loads(file.read_text()), "theme": "dark"}))
    out = smcp("release", "-n").out
    assert f"{file} was changed since; only the entries are put back" in out
    assert "mcp-server-time" in out


def test_a_file_that_is_gone_is_forgotten(smcp: Smcp, machine: Machine) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    file.unlink()
    ran = smcp("release", "--yes")
    assert (ran.status, f"{file} is gone; how it was stays in {machine.paths.adoption_dir}" in ran.out) == (0, True)
    assert smcp("release").out == "nothing is adopted\n"


def test_a_host_that_is_not_known(smcp: Smcp, machine: Machine) -> None:
    assert smcp("release", "emacs").status == 2


def test_backups_that_a_killed_command_left_go_also_where_nothing_is_adopted(smcp: Smcp, machine: Machine) -> None:
    directory = machine.paths.adoption_dir
    directory.mkdir(parents=True)
    for name in ("x.before", "x.after"):
        (directory / name).write_text("a secret")
    assert smcp("release", "--dry-run").out == "nothing is adopted\n"
    assert len(list(directory.glob("x.*"))) == 2
    assert smcp("release").out == "nothing is adopted\n"
    assert list(directory.glob("x.*")) == []
