"""``smcp image``: what is recorded is shown, a change is accepted for the server that a person names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import tomli_w

from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.images.pins import Known, Name, Pins
from tests.cli.conftest import Smcp

ONE, OTHER = Known("sha256:" + "1" * 64, "sha256:" + "a" * 64), Known("sha256:" + "2" * 64)
IMAGE = Name("podman", "example.com/db:1")


@pytest.fixture
def pins(home: Path) -> Pins:
    paths = find_paths(os.environ, os.getuid())
    paths.config_file.parent.mkdir(parents=True, exist_ok=True)
    servers = {
        "db": {"runtime": "container", "image": IMAGE.reference, "engine": "podman"},
        "more": {"runtime": "container", "image": IMAGE.reference, "engine": "podman", "args": ["-v"]},
        "package": {"runtime": "container", "command": ["npx", "-y", "foo"]},
        "odd": {"runtime": "container", "command": ["npx", "--unknown", "foo"]},
        "time": {"command": ["uvx", "mcp-server-time"]},
    }
    paths.config_file.write_text(tomli_w.dumps({"servers": servers}))
    return Pins.of(paths)


def test_nothing_is_recorded_before_the_first_start(smcp: Smcp, pins: Pins) -> None:
    assert smcp("image", "list").out == "no image was used yet\n"
    ran = smcp("image", "accept", "db")
    assert ran.status == 2
    assert "the image of 'db', example.com/db:1, was not used yet" in ran.err
    assert "nothing is recorded of example.com/db:1" in smcp("image", "forget", "db").err


def test_what_runs_and_what_was_found(smcp: Smcp, pins: Pins) -> None:
    pins.hold(IMAGE, ONE)
    pins.hold(Name("", "node:22-slim"), OTHER)
    pins.note(IMAGE, OTHER)
    head, first, second = (line.split() for line in smcp("image", "list").out.splitlines())
    assert head == ["IMAGE", "ENGINE", "SINCE", "RUNS", "FOUND", "SERVERS"]
    assert [first[0], first[1], *first[3:]] == ["node:22-slim", "-", OTHER.id[:19], "-", "package"]
    assert [second[0], second[1], *second[3:]] == [
        *("example.com/db:1", "podman", "sha256:aaaaaaaaaaaa", "sha256:222222222222", "db,", "more")
    ]
    rows = json.loads(smcp("image", "list", "--json").out)
    assert [(row["servers"], row["digest"], row["found"]) for row in rows] == [
        (["package"], OTHER.shown, ""),
        (["db", "more"], ONE.digest, OTHER.id),
    ]


def test_a_change_is_accepted_once(smcp: Smcp, pins: Pins) -> None:
    pins.hold(IMAGE, ONE)
    assert smcp("image", "accept", "db").out == f"example.com/db:1 is still {ONE.digest}, as far as is known\n"
    pins.note(IMAGE, OTHER)
    assert smcp("image", "accept", "db").out == f"example.com/db:1 is {OTHER.id} from the next start on\n"
    found = pins.get(IMAGE)
    assert found is not None
    assert (found.held, found.found) == (OTHER, None)


def test_what_is_forgotten_is_gone(smcp: Smcp, pins: Pins) -> None:
    pins.hold(IMAGE, ONE)
    assert smcp("image", "forget", "more").status == 0
    assert pins.get(IMAGE) is None


@pytest.mark.parametrize(
    ("name", "status", "told"),
    [
        ("nobody", 4, "no server 'nobody'"),
        ("time", 2, "'time' runs in no container: its runtime is bwrap"),
        ("odd", 6, "names no package that is understood"),
    ],
)
def test_what_has_no_image(smcp: Smcp, pins: Pins, name: str, status: int, told: str) -> None:
    ran = smcp("image", "accept", name)
    assert ran.status == status
    assert told in ran.err


def test_the_record_is_shown_with_a_broken_configuration_too(smcp: Smcp, pins: Pins) -> None:
    pins.hold(IMAGE, ONE)
    find_paths(os.environ, os.getuid()).config_file.write_text("[")
    assert smcp("image", "list").out.splitlines()[1].endswith("-")
