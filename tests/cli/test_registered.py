"""The quick look at the configuration files."""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.registered import configured_servers, unknown


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    assert unknown("x", ["b", "a"]).message == "no server 'x' in the configuration (known: a, b)"
    assert "smcp add x -- COMMAND" in unknown("x", []).remedy


def test_no_files() -> None:
    assert configured_servers(paths()) == {}


def test_servers_of_all_files(home: Path) -> None:
    more = home / "config" / "conf.d"
    more.mkdir(parents=True)
    first = home / "config" / "config.toml"
    first.write_text('[servers.a]\ncommand = "1"\n')
    (more / "b.toml").write_text('[servers.a]\ncommand = "2"\n[servers.b]\ncommand = "3"\n')
    (more / "broken.toml").write_text("servers = [")
    (more / "odd.toml").write_text("servers = 3")
    (more / "odder.toml").write_text("[servers]\nc = 3")
    (more / "latin.toml").write_bytes(b'[servers.\xff]\ncommand = "x"')
    (more / "other.txt").write_text('[servers.d]\ncommand = "x"\n')
    (more / ".hidden.toml").write_text('[servers.e]\ncommand = "x"\n')
    (more / "directory.toml").mkdir()
    found = configured_servers(paths())
    assert {name: (server.entry, server.file) for name, server in found.items()} == {
        "a": ({"command": "1"}, first),
        "b": ({"command": "3"}, more / "b.toml"),
    }
