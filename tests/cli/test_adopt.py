"""``smcp import`` and ``smcp adopt``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.adoption import adopting
from supervisord_mcp.cli import person, secret_values
from supervisord_mcp.config.files import locked
from supervisord_mcp.credentials.vault import NewKey, Vault
from supervisord_mcp.errors import HostFileError, LaunchError, SmcpError
from supervisord_mcp.hosts.files import Reading
from supervisord_mcp.protocol import control
from tests.adoption.machine import TIME, TOKEN, Machine
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon
from tests.kit.daemon import ROOT

NO_KEYRING = "keyring.backends.fail.Keyring"
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


def test_who_interrupts_a_trial_finds_all_as_before(
    smcp: Smcp, machine: Machine, tools: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyed = {**TIME, "env": {"A_TOKEN": TOKEN}}
    cursor, claude = machine.cursor(time=TIME), machine.claude(keyed=keyed)
    before = [file.read_bytes() for file in (cursor, claude)]

    def interrupted(*_: object) -> dict[str, SmcpError]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("supervisord_mcp.cli.adopt.tried", interrupted)
        ran = smcp("adopt", "--yes")
    assert ran.status == 130
    assert "interrupted: what was imported for files that are not adopted is removed again" in ran.out
    assert [file.read_bytes() for file in (cursor, claude)] == before
    assert (servers(machine), machine.records.imported()) == ({}, {})
    assert "keyed" not in smcp("secret", "list").out
    assert tools.asked[-1] == control.Reload()


def test_who_interrupts_the_writing_keeps_what_an_adopted_file_names(
    smcp: Smcp, machine: Machine, tools: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor = machine.cursor(time=TIME)
    claude = machine.claude(other={**TIME, "args": ["other-time"]})
    before = {file: file.read_bytes() for file in (cursor, claude)}
    adopt_file, adopted = adopting.adopt_file, list[Path]()

    def one_only(reading: Reading, *rest: Any) -> bool:
        if adopted:
            raise KeyboardInterrupt
        adopted.append(reading.file.path)
        return bool(adopt_file(reading, *rest))

    with monkeypatch.context() as patch:
        patch.setattr(adopting, "adopt_file", one_only)
        assert smcp("adopt", "--yes").status == 130
    kept = "time" if adopted == [cursor] else "other"
    assert set(servers(machine)) == {kept}
    assert [file for file in before if file.read_bytes() != before[file]] == adopted
    assert smcp("release", "--yes").status == 0
    assert {file: file.read_bytes() for file in before} == before


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


def test_an_entry_whose_smcp_is_gone_is_shown_and_written_again(
    smcp: Smcp, machine: Machine, tools: FakeDaemon
) -> None:
    machine.cursor(time=TIME)
    machine.adopt()
    gone = machine.root / "gone/smcp"
    mine = {"command": str(gone), "args": ["connect", "time"]}
    file = machine.write(".codeium/windsurf/mcp_config.json", {"mine": mine})
    before = file.read_bytes()
    out = smcp("adopt", "--dry-run").out
    assert f"{file}:3: mcpServers.mine: it starts {gone}, which is not there any more; it is written again" in out
    assert f'-      "command": "{gone}",' in out
    assert file.read_bytes() == before
    assert smcp("import", "--yes").out == "nothing to import\n"
    assert smcp("adopt", "--yes").status == 0
    assert json.loads(file.read_text())["mcpServers"]["mine"]["args"][-1] == "time"
    assert list(servers(machine)) == ["time"]
    assert smcp("release", "--yes").status == 0
    assert file.read_bytes() == before


def test_of_two_commands_at_once_one_waits_and_then_says_why_it_did_nothing(
    smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = machine.cursor(time=TIME)
    machine.adopt()
    before = file.read_bytes()
    monkeypatch.setattr(person, "WAIT", 0.1)
    with locked(machine.paths.adoption_dir / "commands.lock"):
        for words in (("adopt",), ("import",), ("release",)):
            ran = smcp(*words, "--yes")
            assert ran.status == 1
            assert "another smcp adopt, import or release has been at the files of hosts for 0.1 s" in ran.err
            assert "nothing was changed" in ran.err
            # One that only looks does not wait.
            assert smcp(*words, "--dry-run").status == 0
    assert file.read_bytes() == before
    assert smcp("release", "--yes").status == 0


def test_two_processes_at_once_do_what_one_would(machine: Machine) -> None:
    junie = machine.write(".junie/mcp/mcp.json", {"j": GIT})
    files = [machine.cursor(time=TIME, git=GIT), machine.claude(clock=TIME), junie]
    before = [file.read_bytes() for file in files]
    environ = {**os.environ, **machine.environ, "PYTHONPATH": str(ROOT), "PYTHON_KEYRING_BACKEND": NO_KEYRING}
    for words in (("adopt", "--untried"), ("release",)):
        command = [sys.executable, "-m", "supervisord_mcp", *words, "--yes"]
        many = [
            subprocess.Popen(command, env=environ, cwd=machine.project, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(2)
        ]
        ended = [(one.communicate(timeout=60), one.returncode) for one in many]
        assert [code for _, code in ended] == [0, 0], ended
        assert sum(b"adopted " in out for (out, _), _ in ended) == (words[0] == "adopt")
        if words[0] == "adopt":
            assert len(machine.records.adopted()) == len(files)
            assert list(servers(machine)) == ["clock", "git"]
    assert [file.read_bytes() for file in files] == before
    assert machine.records.adopted() == ()


def locked_vault(machine: Machine) -> None:
    Vault(machine.paths, machine.environ).put("first", "value", key=NewKey("passphrase", "correct horse"))


def test_a_preview_with_a_locked_vault_shows_all_and_says_what_would_stay_readable(
    smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked_vault(machine)
    machine.cursor(git=GIT, time=TIME)
    for command in ("adopt", "import"):
        ran = smcp(command, "--dry-run")
        assert ran.status == 0
        assert "secrets  GIT_TOKEN: to the vault" in ran.out
        assert "the vault takes no secret as it is: " in ran.err
        assert "locked by a passphrase" in ran.err
        assert "readable in config.toml (for you alone): GIT_TOKEN of git" in ran.err
    machine.cursor(time=TIME)
    assert smcp("adopt", "--dry-run").err == ""


def test_who_can_be_asked_is_asked_for_the_passphrase_and_a_wrong_one_changes_nothing(
    smcp: Smcp, machine: Machine, monkeypatch: pytest.MonkeyPatch, tools: FakeDaemon
) -> None:
    locked_vault(machine)
    file = machine.cursor(git=GIT)
    before = file.read_bytes()
    monkeypatch.setattr(secret_values, "_has_terminal", lambda: True)
    said = iter(["wrong", "correct horse"])
    monkeypatch.setattr("getpass.getpass", lambda _prompt: next(said))
    ran = smcp("adopt", "--yes", "--untried")
    assert (ran.status, "passphrase" in ran.err) == (1, True)
    assert (file.read_bytes(), machine.paths.config_file.exists()) == (before, False)
    assert smcp("adopt", "--yes", "--untried").status == 0
    assert servers(machine)["git"]["credentials"] == {"GIT_TOKEN": "vault:git-GIT_TOKEN"}
    assert TOKEN not in machine.paths.config_file.read_text()


SECRET = "mArKeR7zQ"


def test_no_command_shows_a_secret_that_stands_in_a_command_line(smcp: Smcp, machine: Machine) -> None:
    lines = (
        ["--api-key", SECRET],
        [f"--api-key={SECRET}"],
        ["--header", f"Authorization: Bearer {SECRET}"],
        ["--header", f"X-Api-Key:{SECRET}"],
        [f"postgres://anna:{SECRET}@db.example.com/x"],
        ["run", "-e", f"API_TOKEN={SECRET}", "image"],
        ["-c", f"API_KEY={SECRET} node x.js"],
        ["--config", json.dumps({"apiKey": SECRET})],
        ["--auth", SECRET],
        ["--db-pass", SECRET],
        ["--token", f"${{TOKEN:-{SECRET}}}"],
    )
    servers = {f"s{number}": {"command": f"x{number}", "args": words} for number, words in enumerate(lines)}
    files = machine.cursor(**servers), machine.claude(**servers)
    out = [smcp(*command) for command in (("hosts",), ("hosts", "--json"), ("adopt", "-n"), ("import", "-n"))]
    out.append(smcp("adopt", "--yes", "--untried"))
    assert len(machine.records.adopted()) == 2
    for file in files:
        file.write_text(file.read_text() + "\n")
    out += [smcp("release", "-n"), smcp("release", "--yes")]
    assert "was changed since" in out[-2].out
    assert [SECRET in ran.out + ran.err for ran in out] == [False] * len(out)


def test_a_file_that_cannot_be_changed_is_told_once_and_nothing_is_made_for_it(
    smcp: Smcp, machine: Machine, tools: FakeDaemon
) -> None:
    text = "base: &b\n  cmd: /bin/sh\nextensions:\n  odd:\n    <<: *b\n    type: stdio\n"
    goose = machine.write(".config/goose/config.yaml", text)
    for words in (("-n",), ("--yes", "--untried")):
        ran = smcp("adopt", *words)
        assert (ran.status, ran.out.endswith("nothing to adopt\n")) == (1, True)
        assert ran.err.count(f"{goose} stays as it is") == 1
    assert not machine.paths.config_file.exists()
    machine.cursor(time=TIME)
    ran = smcp("adopt", "--yes")
    assert (ran.status, ran.err.count(f"{goose} stays as it is")) == (1, 1)
    assert list(servers(machine)) == ["time"]
    assert goose.read_text() == text


def test_what_was_imported_for_files_that_cannot_be_written_is_removed_again(
    smcp: Smcp, machine: Machine, tools: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursor, claude = machine.cursor(time=TIME, git=GIT), machine.claude(time=TIME)
    written = adopting.adopt_file

    def refused(reading: Reading, *rest: Any) -> bool:
        if reading.file.path == cursor:
            raise HostFileError(f"{cursor}: cannot be written: the file is read-only; nothing was changed")
        return written(reading, *rest)

    monkeypatch.setattr(adopting, "adopt_file", refused)
    ran = smcp("adopt", "--yes", "--untried")
    assert ran.status == 1
    assert f"{cursor} stays as it is: cannot be written: the file is read-only" in ran.err
    assert f"adopted {claude}\n" in ran.out
    assert list(servers(machine)) == ["time"]
    assert machine.vault == {}
    assert tools.asked[-1] == control.Reload()
