"""What a name of an image stood for is kept, and what it stands for by now is taken only when a person says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.images.pins import Known, Name, Pins

NAME = Name("", "example.com/server:1")
ONE, OTHER = Known("sha256:one", "sha256:aa"), Known("sha256:other")


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(tmp_path / "state/images.json", tmp_path / "state/lock")


@pytest.mark.parametrize("name", [NAME, Name("podman", "a"), Name("ssh://a@b c", f"a@sha256:{'0' * 64}")])
def test_names_are_keys(name: Name) -> None:
    assert Name.parse(name.text) == name


def test_the_first_use_is_recorded_for_each_engine(pins: Pins) -> None:
    assert pins.get(NAME) is None
    pins.hold(NAME, ONE)
    pins.hold(Name("podman", NAME.reference), OTHER)
    found = pins.get(NAME)
    assert found is not None
    assert (found.held, found.found) == (ONE, None)
    assert found.held.shown == "sha256:aa"
    assert {name: pin.held.shown for name, pin in pins.all().items()} == {
        NAME: "sha256:aa",
        Name("podman", NAME.reference): "sha256:other",
    }
    assert pins.file.stat().st_mode & 0o777 == 0o600


def test_a_change_is_news_once_and_held_back_until_it_is_accepted(pins: Pins) -> None:
    assert not pins.note(NAME, OTHER)  # nothing is recorded that could be another one
    assert pins.accept(NAME) is None
    pins.hold(NAME, ONE)
    assert pins.accept(NAME) is None
    assert pins.note(NAME, OTHER)
    assert not pins.note(NAME, OTHER)
    found = pins.get(NAME)
    assert found is not None
    assert (found.held, found.found) == (ONE, OTHER)
    accepted = pins.accept(NAME)
    assert accepted is not None
    assert (accepted.held, accepted.found) == (OTHER, None)


def test_a_change_that_was_taken_back_is_forgotten(pins: Pins) -> None:
    pins.hold(NAME, ONE)
    pins.note(NAME, OTHER)
    assert not pins.note(NAME, None)
    assert pins.accept(NAME) is None
    assert pins.note(NAME, OTHER)


def test_what_is_forgotten_is_recorded_anew(pins: Pins) -> None:
    assert not pins.forget(NAME)
    pins.hold(NAME, ONE)
    assert pins.forget(NAME)
    assert pins.get(NAME) is None


@pytest.mark.parametrize("content", ["", "[]", '{"a": {}}', "\udcff"])
def test_a_record_that_cannot_be_read_is_no_empty_one(pins: Pins, content: str) -> None:
    pins.hold(NAME, ONE)
    pins.file.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(SmcpError, match="cannot read which images were used"):
        pins.get(NAME)
    with pytest.raises(SmcpError, match="cannot read which images were used"):
        pins.hold(NAME, OTHER)


def test_a_record_that_cannot_be_written_is_told(pins: Pins) -> None:
    pins.file.mkdir(parents=True)
    (pins.file / "x").touch()
    with pytest.raises(SmcpError, match="cannot read which images were used"):
        pins.hold(NAME, ONE)


def test_the_file_is_for_people_too(pins: Pins) -> None:
    pins.hold(NAME, ONE)
    assert json.loads(pins.file.read_text())["example.com/server:1"]["held"] == {
        "id": "sha256:one",
        "digest": "sha256:aa",
    }
