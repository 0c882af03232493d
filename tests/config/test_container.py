"""Entries that run in containers: what has to be said, what may be said, and what only by its name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.container import package_command
from supervisord_mcp.config.models import ServerConfig


def entry(**keys: Any) -> ServerConfig:
    return ServerConfig.model_validate(keys)


def fault(**keys: Any) -> str:
    with pytest.raises(ValidationError) as raised:
        entry(**keys)
    return str(raised.value)


@pytest.mark.parametrize(
    "image",
    [
        *("alpine", "node:22-slim", "team/server", "registry.example.com/team/server:2", "localhost:5000/a/b"),
        *("[::1]:5000/a", f"server@sha256:{'0a' * 32}", f"example.com/s:1@sha256:{'0a' * 32}", f"sha256:{'0a' * 32}"),
    ],
)
def test_names_of_images(image: str) -> None:
    assert entry(runtime="container", image=image).image == image


@pytest.mark.parametrize("image", ["", "-v", "--privileged", "Upper", "a b", "a:", "a@sha256:12", "/a", "a//b/", "a$b"])
def test_what_is_no_name_of_an_image(image: str) -> None:
    assert "is no name of an image" in fault(runtime="container", image=image)


@pytest.mark.parametrize(
    ("package", "command"),
    [
        ("npx:foo@1.2.3", ("npx", "-y", "foo@1.2.3")),
        ("npx:@scope/foo@latest", ("npx", "-y", "@scope/foo@latest")),
        ("uvx:mcp-server-time==2026.1.1", ("uvx", "mcp-server-time==2026.1.1")),
        ("uvx:foo[extra]==1", ("uvx", "foo[extra]==1")),
    ],
)
def test_a_package_is_a_command(package: str, command: tuple[str, ...]) -> None:
    assert package_command(package) == command
    assert entry(runtime="container", package=package, args=["-v"]).argv == (*command, "-v")


@pytest.mark.parametrize(
    "package", ["foo", "npx:foo", "uvx:foo", "uvx:foo>=1", "npx:./foo@1", "npx:-g@1", "pip:foo==1"]
)
def test_a_package_has_a_version(package: str) -> None:
    assert 'names no package with its version; write "npx:NAME@1.2.3"' in fault(runtime="container", package=package)


@pytest.mark.parametrize(
    "engine", ["docker", "podman", "my-context", "ssh://a@b", "ssh://b:22/run/s", "tcp://h:2376", "unix:///s", "/run/s"]
)
def test_names_of_engines(engine: str) -> None:
    assert entry(runtime="container", image="a", engine=engine).engine == engine


@pytest.mark.parametrize(
    ("engine", "wrong"),
    [
        ("ssh://a:secret@b", "has a password"),
        ("ssh://b:x", "Port could not be cast"),
        ("ssh://@:22", "names no machine"),
        ("ssh://b?x=1", "more than a machine and a socket"),
    ],
)
def test_what_ssh_cannot_reach(engine: str, wrong: str) -> None:
    assert wrong in fault(runtime="container", image="a", engine=engine)


@pytest.mark.parametrize("engine", ["", "ftp://a", "ssh://", "a b", "-H"])
def test_what_is_no_engine(engine: str) -> None:
    assert "names no engine" in fault(runtime="container", image="a", engine=engine)


@pytest.mark.parametrize("user", ["1000:1000", "node", "app:staff", "0", ""])
def test_users(user: str) -> None:
    assert entry(runtime="container", image="a", container={"user": user}).container.user == user


def test_what_is_no_user() -> None:
    assert "is no user of a container" in fault(runtime="container", image="a", container={"user": "a b"})


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({}, "the key 'command' is required, or 'image' or 'package'"),
        ({"command": ["x"], "package": "npx:a@1"}, "package takes the place of command"),
        ({"command": ["x"], "runtime": "container"}, 'needs an image: image = "NAME"'),
        ({"image": "a", "runtime": "bwrap"}, 'image is for containers; set runtime = "container"'),
        ({"command": ["x"], "engine": "podman", "runtime": "bare"}, "engine is for containers"),
        ({"command": ["x"], "pull": "never", "runtime": "bwrap"}, "pull is for containers"),
        ({"image": "a", "runtime": "container", "network": "host"}, 'write permit = ["host-network"]'),
        (
            {"image": "a", "runtime": "container", "mounts": [{"path": "/run/docker.sock"}]},
            'write permit = ["engine-socket"]',
        ),
        ({"image": "a", "runtime": "container", "permit": ["tty"]}, "a container of smcp never has a terminal"),
        ({"image": "a", "runtime": "container", "permit": ["detach"]}, "is never in the background"),
        ({"command": ["docker", "run", "-it", "x"], "runtime": "bare"}, 'if it is meant, write permit = ["tty"]'),
        ({"command": ["docker", "run"], "args": ["--privileged", "x"]}, 'write permit = ["privileged"]'),
    ],
)
def test_what_does_not_go_together_is_said(keys: dict[str, Any], problem: str) -> None:
    assert problem in fault(**keys)


@pytest.mark.parametrize(
    "keys",
    [
        {"image": "a"},  # the runtime may be that of its profile
        {"image": "a", "runtime": "container", "command": ["./server"], "pull": "always"},
        {"command": ["npx", "-y", "foo"], "runtime": "container"},
        {"image": "a", "runtime": "container", "network": "host", "permit": ["host-network"]},
        {
            "image": "a",
            "runtime": "container",
            "mounts": [{"path": "/run/docker.sock"}],
            "permit": ["engine-socket", "privileged", "cap:NET_ADMIN"],
        },
        {"command": ["docker", "run", "-it", "--cap-add", "NET_RAW", "x"], "permit": ["tty", "cap:NET_RAW"]},
        # In an image of its own it is a program like any other, and has no engine to talk to.
        {"image": "a", "runtime": "container", "command": ["docker", "run", "-t", "x"]},
    ],
)
def test_what_is_named_is_allowed(keys: dict[str, Any]) -> None:
    assert entry(**keys).permit == tuple(keys.get("permit", ()))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("priviliged", 'did you mean "privileged"?'),
        ("everything", "there are privileged, host-network"),
        ("cap:NET_ADMN", 'did you mean "cap:NET_ADMIN"?'),
        ("cap:cap_sys_admin", 'did you mean "cap:SYS_ADMIN"?'),
        ("cap:ALL", "Linux has no such capability"),
    ],
)
def test_what_cannot_be_permitted(word: str, hint: str) -> None:
    assert hint in fault(command=["x"], permit=[word])
