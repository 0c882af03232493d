"""``smcp secret list``, ``check`` and ``grant``."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from supervisord_mcp.config.references import parse_reference
from supervisord_mcp.credentials import vault_file
from supervisord_mcp.credentials.reading import Credentials, Grant
from supervisord_mcp.credentials.vault import NewKey
from supervisord_mcp.protocol import control
from supervisord_mcp.protocol.secret_requests import GrantCheck, SecretCheck, SecretCheckResult
from tests.cli.conftest import Smcp
from tests.cli.daemon import FakeDaemon, clean_lines
from tests.credentials.places import paths_in
from tests.kit.bounded import bounded

VALUE = "s3cret-of-a-command"
CONFIG = """\
# mine
[servers.github]   # of github
command = ["x"]

[servers.github.credentials]
# the first
TOKEN = "vault:github"   # kept

[servers.jira]
command = ["x"]
credentials = { KEY = "env:JIRA_KEY", TOKEN = "vault:jira" }  # kept too

[servers.time]
command = ["x"]
"""


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})
    monkeypatch.setattr("supervisord_mcp.cli.secret_values._has_terminal", lambda: False)


@pytest.fixture
def file(home: Path) -> Path:
    path = home / "config" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(CONFIG)
    return path


def credentials(home: Path, **environ: str) -> Credentials:
    return Credentials(paths_in(home), environ)


# list


def test_nothing_to_list(smcp: Smcp) -> None:
    ran = smcp("secret", "list")
    assert (ran.status, ran.err) == (0, "")
    assert "smcp secret set NAME" in ran.out
    assert json.loads(smcp("secret", "list", "--json").out) == {"vault": {"key": None, "problem": ""}, "secrets": []}


@bounded(30)
async def use(one: Credentials, variable: str, secret: str) -> None:
    await one.values("github", (Grant(variable, parse_reference(secret)),))


def test_list_has_names_sources_servers_and_the_last_use(
    smcp: Smcp, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = credentials(home)
    one.vault.put("github", VALUE)
    one.vault.put("unused", VALUE)
    use(one, "TOKEN", "vault:github")
    ran = smcp("secret", "list")
    assert (ran.status, ran.err) == (0, "")
    assert [re.split(" {2,}", re.sub(r"\d+s ago", "just now", line)) for line in clean_lines(ran.out)] == [
        ["SECRET", "LAST USE", "GIVEN TO"],
        ["env:JIRA_KEY", "never", "jira (KEY)"],
        ["vault:github", "just now", "github (TOKEN)"],
        ["vault:jira", "never", "jira (TOKEN); NOT STORED"],
        ["vault:unused", "never", "nobody"],
    ]
    found = json.loads(smcp("secret", "list", "--json").out)
    assert found["vault"] == {"key": "file", "problem": ""}
    assert found["secrets"][1]["last_use"] > 0
    assert found["secrets"][1]["servers"] == [{"name": "github", "variable": "TOKEN"}]
    assert [row["stored"] for row in found["secrets"]] == [None, True, False, True]
    assert VALUE not in ran.out


def test_list_with_a_locked_vault_shows_what_is_granted(smcp: Smcp, home: Path, file: Path) -> None:
    credentials(home).vault.put("github", VALUE, key=NewKey("passphrase", "correct horse"))
    ran = smcp("secret", "list")
    assert ran.status == 0
    assert "locked by a passphrase" in ran.err
    assert "vault:github" in ran.out
    assert "NOT STORED" not in ran.out
    assert "locked" in json.loads(smcp("secret", "list", "--json").out)["vault"]["problem"]


def test_list_asks_for_the_passphrase_on_a_terminal(
    smcp: Smcp, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials(home).vault.put("unused", VALUE, key=NewKey("passphrase", "correct horse"))
    monkeypatch.setattr("supervisord_mcp.cli.secret_values._has_terminal", lambda: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: "correct horse")
    ran = smcp("secret", "list")
    assert (ran.status, ran.err) == (0, "")
    assert "vault:unused" in ran.out


# check


def test_check_without_a_daemon_reads_here(smcp: Smcp, home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JIRA_KEY", VALUE)
    credentials(home).vault.put("github", VALUE)
    ran = smcp("secret", "check")
    assert ran.status == 1
    assert clean_lines(ran.out) == [
        "SERVER  VARIABLE  SECRET        READ",
        "github  TOKEN     vault:github  ok",
        "jira    KEY       env:JIRA_KEY  ok",
        "jira    TOKEN     vault:jira    fails",
        "    server 'jira' was not given TOKEN from vault:jira: the vault has no secret 'jira'",
        "    Store it: smcp secret set jira",
    ]
    assert "error[secret]: 1 secret of 3 cannot be read by this command (no daemon runs)" in ran.err
    assert VALUE not in ran.out + ran.err
    assert smcp("secret", "check", "github").status == 0
    assert smcp("secret", "check", "time").out == "no server is granted a secret\n"


def test_check_asks_the_daemon(smcp: Smcp, file: Path, daemon: FakeDaemon) -> None:
    daemon.answers[SecretCheck] = SecretCheckResult(
        grants=(GrantCheck(server="github", variable="TOKEN", secret="vault:github"),)
    )
    ran = smcp("secret", "check", "github", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "read_by": "the daemon",
        "grants": [{"server": "github", "variable": "TOKEN", "secret": "vault:github", "problem": "", "remedy": ""}],
    }
    assert daemon.asked == [SecretCheck(names=("github",))]


def test_check_of_a_server_that_is_not_there(smcp: Smcp, file: Path) -> None:
    ran = smcp("secret", "check", "nope")
    assert ran.status == 4
    assert "no server 'nope'" in ran.err


# grant


def test_grant_and_take_away_with_comments_kept(smcp: Smcp, file: Path, daemon: FakeDaemon) -> None:
    ran = smcp("secret", "grant", "github", "OTHER=jira", "TOKEN=keyring:github")
    assert (ran.status, ran.out, ran.err) == (0, "", "")
    assert smcp("secret", "grant", "jira", "KEY=", "NEW=command:pass show 'a b'").status == 0
    assert smcp("secret", "grant", "time", "X=x").status == 0
    assert (
        file.read_text()
        == """\
# mine
[servers.github]   # of github
command = ["x"]

[servers.github.credentials]
# the first
TOKEN = "keyring:github"   # kept
OTHER = "vault:jira"

[servers.jira]
command = ["x"]
credentials = {TOKEN = "vault:jira", NEW = "command:pass show 'a b'"}  # kept too

[servers.time]
command = ["x"]
credentials = {X = "vault:x"}
"""
    )
    assert daemon.asked == [control.Reload()] * 3
    assert smcp("secret", "grant", "time", "X=").status == 0
    assert "credentials" not in file.read_text().partition("[servers.time]")[2]
    assert smcp("secret", "grant", "github", "TOKEN=", "OTHER=").status == 0
    assert "github.credentials" not in file.read_text()
    assert "# of github" in file.read_text()


WRONG = {
    "no variable": (("github", VALUE), 2, "write VARIABLE=SOURCE:NAME"),
    "a secret instead of a name": (("github", f"TOKEN={VALUE}/{VALUE}!"), 2, "vault: a name has"),
    "no name of a variable": (("github", "A-B=x"), 2, "not a name of an environment variable"),
    "no server": (("nope", "A=x"), 4, "no server 'nope'"),
    "given twice": (("github", "PLAIN=x"), 2, "PLAIN is in `env` or `inherit` as well"),
}


@pytest.mark.parametrize("case", WRONG)
def test_grants_that_are_refused_change_nothing(smcp: Smcp, file: Path, case: str) -> None:
    words, status, why = WRONG[case]
    before = file.read_text().replace("[servers.github]   # of github\n", '[servers.github]\nenv = { PLAIN = "1" }\n')
    file.write_text(before)
    ran = smcp("secret", "grant", *words)
    assert ran.status == status
    assert why in ran.err
    assert VALUE not in ran.err
    assert file.read_text() == before
