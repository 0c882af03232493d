"""What no profile may mount by the way."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.lint import risk_of, risks
from supervisord_mcp.config.models import Mount
from supervisord_mcp.config.profile import Profile

HOME = "/home/ada"


def risk(path: str, access: str = "ro", home: str = HOME) -> str:
    return risk_of(Mount.model_validate({"path": path, "access": access}), home)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/", "is the whole machine"),
        ("//", "is the whole machine"),
        ("/usr/..", "is the whole machine"),
        ("/home", "holds your home directory"),
        ("~", "is your home directory"),
        ("${HOME}", "is your home directory"),
        ("~/", "is your home directory"),
        ("~/x/..", "is your home directory"),
        ("/home/ada", "is your home directory"),
        ("/proc/sys", "files of the kernel"),
        ("/sys", "files of the kernel"),
        ("/dev/kvm", "devices"),
        ("/run/user/1000", "sockets of the machine's services"),
        ("/var", "sockets of the machine's services"),
        ("/etc", "secrets of the machine"),
        ("/etc/ssl", "(/etc/ssl/private)"),
        ("~/.ssh", "keys, passwords"),
        ("~/.ssh/config", "keys, passwords"),
        ("~/.aws/credentials", "keys, passwords"),
        ("~/.gnupg", "keys, passwords"),
        ("~/.config", "keys, passwords"),
        ("~/.local", "(/home/ada/.local/share/keyrings)"),
        ("/srv/app.sock", "is a socket"),
        ("${XDG_RUNTIME_DIR}/x", "leads to wherever ${XDG_RUNTIME_DIR} says"),
        ("${HOME:-${ELSEWHERE}}", "leads to wherever ${ELSEWHERE} says"),
        ("${project}/..", "leads out of the project"),
        ("../x", "leads out of the project"),
        ("${project}/a/../../b", "leads out of the project"),
    ],
)
def test_dangerous(path: str, why: str) -> None:
    assert why in risk(path)
    assert risk(path).startswith(path)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "${project}",
            ".",
            "src",
            "${project}/.git",
            "${project}/../.project/x",
            "~/src",
            "~/.gitconfig",
            "/srv/data",
        ),
        *("/etc/hosts", "/usr/share/dict", "/opt", "/home/grace", "/runner", "/procs", "~/.sshx", "~/.config/thing"),
    ],
)
def test_harmless(path: str) -> None:
    assert risk(path) == ""


@pytest.mark.parametrize("path", ["~/.bashrc", "~/bin", "~/.config/autostart/x.desktop", "~/.gitconfig"])
def test_what_starts_programs_must_not_be_written(path: str) -> None:
    assert risk(path) == ""
    assert "without a sandbox" in risk(path, "rw")


def test_links_and_sockets_of_this_machine(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (tmp_path / "innocent").symlink_to(home / ".ssh")
    assert f"leads to {home}/.ssh, which has keys" in risk(str(tmp_path / "innocent"), home=str(home))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "s"))
        assert "is a socket" in risk(str(tmp_path / "s"), home=str(home))
    (tmp_path / "plain").touch()
    assert risk(str(tmp_path / "plain"), home=str(home)) == ""


def test_what_is_dangerous_beside_mounts() -> None:
    def found(**keys: Any) -> list[Any]:
        return [path for path, _ in risks(Profile.model_validate({"description": "x", **keys}), HOME)]

    assert found() == []
    assert found(runtime="bare") == [("runtime",)]
    assert found(network="host") == []
    assert found(network="host", seccomp={"unix": True}) == [("network",)]
    assert found(mounts=[{"path": "/srv"}, {"path": "~"}]) == [("mounts", 1, "path")]
