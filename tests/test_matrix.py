"""The matrix of real peers: what counts as working, how it is told, and where it stands in the README."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from contrib.matrix import table
from contrib.matrix.__main__ import main
from contrib.matrix.pairs import Outcome
from contrib.matrix.peers import CHECKS, EVERYTHING, HOSTS, KITS, OURS, SCRIPTS, SERVERS, Host, Kit

README = table.README.read_text(encoding="utf-8")
WORKS = dict.fromkeys(CHECKS, "")


def outcome(**failed: str) -> Outcome:
    return Outcome("2025-11-25", WORKS | failed)


def test_what_fails_through_smcp_alone_is_told_apart() -> None:
    through, direct = outcome(progress="late", roots="none"), outcome(roots="none")
    assert table.missing(through, direct) == (["progress"], ["roots"])
    assert table.missing(outcome(), direct) == ([], [])


def test_the_table_counts_and_notes_what_is_missing() -> None:
    hosts, servers = HOSTS[:2], SERVERS[:1]
    found = {
        (hosts[0], servers[0]): (outcome(), outcome()),
        (hosts[1], servers[0]): (outcome(progress="late", roots="none"), outcome(roots="none")),
    }
    text = table.table(found, hosts, servers)
    assert text.splitlines() == [
        "| host \\ server | Python `mcp` 1.26 |",
        "|---|---|",
        "| Python `mcp` 1.26 | 12 of 12 |",
        "| Python `mcp` 2.3, handshake | 10 of 12 <sup>1, 2</sup> |",
        "",
        "1. progress does not work through smcp",
        "2. roots does not work without smcp either",
    ]
    told = table.report(found)
    assert "py2-legacy with py1, revision 2025-11-25\n" in told
    assert "  progress       late\n" in told
    assert "  roots          none (without smcp: none)\n" in told


def test_the_table_goes_between_its_markers() -> None:
    before, _, rest = README.partition(table.BEGIN)
    written = table.with_table(README, "| x |")
    assert written == f"{before}{table.BEGIN}\n| x |\n\n{table.END}{rest.partition(table.END)[2]}"
    assert table.with_table(written, "| x |") == written
    with pytest.raises(ValueError, match="markers"):
        table.with_table("no markers", "x")


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
def test_the_readme_has_a_row_for_every_host(host: Host) -> None:
    rows = README.partition(table.BEGIN)[2].partition(table.END)[0].splitlines()
    (row,) = [row for row in rows if row.startswith(f"| {host.shown} |")]
    assert row.count("|") == len(SERVERS) + 2


def test_every_kit_has_a_host_and_a_server() -> None:
    for kit in KITS:
        assert len(list(SCRIPTS.glob(f"{kit.name}_*"))) == 2
    assert OURS.keys() == EVERYTHING.keys()


def test_what_is_installed_is_not_installed_again(tmp_path: Path) -> None:
    kit = Kit("py1", "python", ("nothing==0",), "nothing")
    folder = kit.folder(tmp_path)
    folder.mkdir()
    (folder / "installed").write_text("nothing==0")
    kit.install(tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        "installed",
        "py1_host.py",
        "py1_server.py",
        "checks.py",
        "checks.mjs",
    }


def test_an_installation_that_fails_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*words: object, **more: object) -> None:
        raise subprocess.CalledProcessError(1, "pip", stderr="no such package")

    monkeypatch.setattr(subprocess, "run", fail)
    assert main(["--hosts", "py1", "--servers", "py1", "--place", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "the SDKs cannot be installed: no such package\n"
