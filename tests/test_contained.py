"""Which image an entry runs in, what its engine is told, and what is known of it without asking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.contained import Contained, Supply, contain, container_of, wish_of, words_of
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.images.pins import Known, Name, Pins
from supervisord_mcp.images.provider import Images
from supervisord_mcp.packages.phase import Surroundings
from supervisord_mcp.packages.volumes import Volumes
from supervisord_mcp.runtimes.base import Container, LaunchSpec
from supervisord_mcp.runtimes.container.engine import Engines
from supervisord_mcp.runtimes.container.runtime import ContainerRuntime
from tests.packages.estate import find, shipped


def entry(**keys: Any) -> ServerConfig:
    return ServerConfig.model_validate({"runtime": "container", **keys})


@pytest.fixture
def pins(tmp_path: Path) -> Pins:
    return Pins(tmp_path / "images.json", tmp_path / "lock")


@pytest.fixture
def supply(tmp_path: Path, pins: Pins) -> Supply:
    return Supply(Images(pins, Engines({})), Volumes(tmp_path / "volumes.json"), lambda _: None)


def contained(config: ServerConfig, supply: Supply) -> Contained:
    made = contain("srv", config, config.argv, supply)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("keys", "image", "installed"),
    [
        ({"image": "a:1"}, "a:1", None),
        ({"image": "a:1", "command": ["npx", "-y", "foo"]}, "a:1", None),
        ({"image": "a:1", "package": "npx:foo@1"}, "a:1", "foo@1"),
        ({"package": "npx:foo@1"}, "node:22-slim", "foo@1"),
        ({"package": "uvx:foo==1"}, "python:3.13-slim", "foo==1"),
        ({"command": ["npx", "-y", "foo", "--flag"]}, "node:22-slim", "foo"),
        ({"command": ["uv", "tool", "run", "foo"], "container": {"uvx": "mine:1"}}, "mine:1", "foo"),
    ],
)
def test_the_image_and_what_is_installed_in_it(keys: dict[str, Any], image: str, installed: str | None) -> None:
    config = entry(**keys)
    wish, request = wish_of("srv", config, config.argv)
    assert (wish.server, wish.reference, request and request.shown) == ("srv", image, installed)


def test_a_command_that_names_no_package_needs_an_image(supply: Supply) -> None:
    with pytest.raises(LaunchError, match="npx --what foo names no package that is understood") as raised:
        contained(entry(command=["npx", "--what", "foo"]), supply)
    assert not raised.value.retryable
    assert "package =" in raised.value.remedy


def test_what_runs_elsewhere_is_not_contained(supply: Supply) -> None:
    assert contain("srv", ServerConfig.model_validate({"command": ["x"]}), ("x",), supply) is None
    assert words_of(None) == ()


def test_what_the_engine_is_told(supply: Supply) -> None:
    config = entry(
        image="a:1", engine="podman", container={"user": "7"}, permit=["cap:CHOWN", "privileged"], pull="never"
    )
    made = contained(config, supply)
    assert (made.wish.engine, made.wish.pull) == ("podman", "never")
    told = container_of(config, made)
    assert told == Container(
        image="a:1",
        shown="a:1",
        engine="podman",
        user="7",
        allow=frozenset({"cap:CHOWN", "privileged"}),
        entrypoint=True,
    )
    assert not container_of(entry(image="a:1", command=["x"]), made).entrypoint
    others = [
        entry(image="a:1", engine="podman", container={"user": "7"}),
        entry(image="a:1", engine="podman"),
        entry(image="a:1"),
        entry(image="a:1", command=["x"]),
        entry(image="a:2"),
    ]
    words = [words_of(told), *(words_of(container_of(one, contained(one, supply))) for one in others)]
    assert len(set(words)) == len(words)


def test_what_is_known_of_an_image(supply: Supply, pins: Pins) -> None:
    made, name = contained(entry(image="a:1"), supply), Name("", "a:1")
    before = made.identity
    assert made.shown == "a:1"
    pins.hold(name, Known("sha256:one", "sha256:aa"))
    assert made.shown == "a:1 sha256:aa"
    assert made.identity != before
    pins.note(name, Known("sha256:two"))
    assert made.shown == "a:1 sha256:aa, by now sha256:two; smcp image accept srv"
    pins.file.write_text("[")
    assert made.shown == "a:1"
    assert made.identity == before


def test_what_would_run_is_told_without_an_engine(supply: Supply, pins: Pins, tmp_path: Path) -> None:
    around = Surroundings(
        runtime=ContainerRuntime(tmp_path),
        confinement=shipped(tmp_path),
        find=find,
        path="",
        home="",
        environ={},
        marker="",
        installing=lambda: None,
        progress=lambda _: None,
    )
    plain = contained(entry(image="a:1"), supply)
    spec = LaunchSpec("srv", ("x",), container=Container("a:1"))
    assert plain.complete(spec, around) == spec
    package = contained(entry(package="npx:foo@1"), supply)
    for known in (False, True):
        if known:
            pins.hold(Name("", "node:22-slim"), Known("sha256:one"))
        with pytest.raises(LaunchError, match="foo@1 is not installed yet"):
            package.complete(spec, around)
