"""Options of ``docker run`` with which a container is none any more are found however they are written."""

from __future__ import annotations

import shlex

import pytest

from supervisord_mcp.config.openings import is_engine_socket, openings


def found(command: str) -> list[tuple[str, str]]:
    return [(opening.permit, opening.option) for opening in openings(shlex.split(command))]


@pytest.mark.parametrize(
    "command",
    [
        "docker run -i --rm -e TOKEN image",
        "docker run --rm -i -e TOKEN=-t --name -d image",
        "docker run -i image --privileged -t",
        "docker run -i -- image --privileged",
        "docker run -i --tty=false --detach=false --privileged=false image",
        "docker run --network none --pid container:x image",
        "docker run -v /srv:/srv --mount type=bind,source=/srv,target=/srv --security-opt no-new-privileges image",
        "docker run -ie -t image",
        "docker ps --privileged",
        "docker",
        "docker run",
        "docker run -e",
        "npx -y run -t --privileged",
        "env",
    ],
)
def test_an_ordinary_container_opens_nothing(command: str) -> None:
    assert found(command) == []


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("docker run -it image", [("tty", "--tty")]),
        ("docker run -t=true image", [("tty", "--tty true")]),
        ("docker run -itd image", [("tty", "--tty"), ("detach", "--detach")]),
        ("docker run --tty --detach image", [("tty", "--tty"), ("detach", "--detach")]),
        ("/usr/bin/podman container run --privileged image", [("privileged", "--privileged")]),
        ("docker --context far -H tcp://x --tls run --net=host x", [("host-network", "--net host")]),
        ("env A=1 -i docker run --network host image", [("host-network", "--network host")]),
        ("docker run --pid=host --ipc host x", [("host-namespace", "--pid host"), ("host-namespace", "--ipc host")]),
        ("docker run --cap-add NET_ADMIN x", [("cap:NET_ADMIN", "--cap-add NET_ADMIN")]),
        ("docker run --cap-add=cap_sys_admin x", [("cap:SYS_ADMIN", "--cap-add cap_sys_admin")]),
        ("docker run --cap-add n/a x", [("cap:n/a", "--cap-add n/a")]),
        ("docker run --security-opt seccomp=unconfined x", [("unconfined", "--security-opt seccomp=unconfined")]),
        ("docker run --security-opt label=disable x", [("unconfined", "--security-opt label=disable")]),
        ("docker run --device /dev/kvm x", [("device", "--device /dev/kvm")]),
        ("docker run --use-api-socket x", [("engine-socket", "--use-api-socket")]),
        (
            "nerdctl create -v /var/run/docker.sock:/var/run/docker.sock x",
            [("engine-socket", "--volume /var/run/docker.sock:/var/run/docker.sock")],
        ),
        (
            "docker run -v/run/user/1000/podman/podman.sock:/s x",
            [("engine-socket", "--volume /run/user/1000/podman/podman.sock:/s")],
        ),
        (
            "docker run --mount type=bind,src=/run/docker.sock,dst=/s x",
            [("engine-socket", "--mount type=bind,src=/run/docker.sock,dst=/s")],
        ),
    ],
)
def test_what_opens_a_container_is_named(command: str, expected: list[tuple[str, str]]) -> None:
    assert found(command) == expected


def test_an_engine_is_known_by_the_name_of_its_socket() -> None:
    assert is_engine_socket("/var/run/./docker.sock/")
    assert not is_engine_socket("/var/run/dockers.sock")
