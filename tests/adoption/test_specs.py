"""Entries are the same if they start the same, whatever words they use for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.adoption.needs import Place
from supervisord_mcp.adoption.specs import fingerprint
from supervisord_mcp.hosts.entry import HostEntry, Scope
from tests.adoption.machine import entry

PLACE = Place("/home/anna", {"PATH": "/usr/bin:/bin", "TOKEN": "abc"})


def same(one: HostEntry, other: HostEntry) -> bool:
    return fingerprint(one, PLACE) == fingerprint(other, PLACE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (entry("npx", "-y", "x-mcp", "a"), entry("npx", "x-mcp", "a")),
        (entry("npx", "x-mcp"), entry("/usr/local/bin/npx", "--yes", "x-mcp")),
        (entry("uvx", "x-mcp"), entry("uv", "tool", "run", "x-mcp")),
        (entry("sh", "-c", "x"), entry("/bin/sh", "-c", "x")),
        (entry("x", env={"T": "${TOKEN}"}), entry("x", env={"T": "abc"})),
        (entry("x", env={"A": "1", "B": "2"}), entry("x", env={"B": "2", "A": "1"})),
        (entry("x", "~/a"), entry("x", "/home/anna/a")),
        (entry("x", host="cursor", line=1), entry("x", host="codex", line=9, disabled=True)),
        (entry("x", scope=Scope.LOCAL, project=Path("/p")), entry("x")),
    ],
)
def test_the_same(one: HostEntry, other: HostEntry) -> None:
    assert same(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (entry("npx", "x-mcp"), entry("npx", "x-mcp@1.0.0")),
        (entry("npx", "x-mcp"), entry("uvx", "x-mcp")),
        (entry("x", "a"), entry("x", "b")),
        (entry("x", env={"T": "${TOKEN}"}), entry("x", env={"T": "other"})),
        (entry("x", env={"T": "${NOWHERE}"}), entry("x", env={"T": "$${NOWHERE}"})),
        (entry("x"), entry("x", env={"T": ""})),
        (entry("x", cwd="/a"), entry("x")),
        (
            entry("./x", scope=Scope.LOCAL, project=Path("/p")),
            entry("./x", scope=Scope.LOCAL, project=Path("/q")),
        ),
        (entry("x", scope=Scope.PROJECT, project=Path("/p")), entry("x")),
    ],
)
def test_not_the_same(one: HostEntry, other: HostEntry) -> None:
    assert not same(one, other)


def test_a_program_whose_place_is_not_known_yet(tmp_path: Path) -> None:
    place = Place(str(tmp_path), {"PATH": "/usr/bin"})
    commands = ("${project}/bin/x",), ("${A}/bin/x",), ("${A}", "x"), ("~/bin/x",)
    prints = {fingerprint(entry(*argv), place) for argv in commands}
    assert len(prints) == 4
    assert fingerprint(entry("${A}/bin/x"), place) in prints
