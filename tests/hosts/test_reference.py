"""The table of hosts."""

from __future__ import annotations

from pathlib import Path

from supervisord_mcp.hosts.base import Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS
from supervisord_mcp.hosts.entry import Scope
from supervisord_mcp.hosts.reference import reference


def test_every_host_has_a_row() -> None:
    table = reference()
    for host in HOSTS.values():
        assert f"| {host.title} | `{host.key}` |" in table
    assert "| Cursor | `cursor` | `~/.cursor/mcp.json` | `.cursor/mcp.json` |" in table
    assert "| Goose | `goose` | `~/.config/goose/config.yaml` | – |" in table
    assert "`~/.config/kilo/kilo.json`, `~/.config/kilo/kilo.jsonc` and 9 more" in table


def test_a_pattern_says_where_files_are_found(tmp_path: Path) -> None:
    where = Surroundings(tmp_path / "home", project=tmp_path / "project")
    places = [place for host in HOSTS.values() for place in host.places if place.pattern]
    assert len(places) >= 8
    for place in places:
        base = tmp_path / ("home" if place.scope is Scope.USER else "project")
        path = base / place.pattern.removeprefix("~/").replace("*", "x")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert path in list(place.paths(where))
