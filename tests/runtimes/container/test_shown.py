"""The command line that starts the same container; the conformance kit pastes one."""

from __future__ import annotations

from dataclasses import replace

from supervisord_mcp.runtimes.base import Container, LaunchSpec, Mount
from supervisord_mcp.runtimes.container.places import Place
from supervisord_mcp.runtimes.container.shown import shown
from supervisord_mcp.runtimes.limits import UNLIMITED

HERE = Place("unix:///var/run/docker.sock", "found by itself")
SPEC = LaunchSpec("one", ("/bin/server", "a b"), env=(("LANG", "C"), ("TOKEN", "s3cret")), container=Container("img"))


def test_it_is_a_command_of_docker_without_secrets() -> None:
    line = shown(SPEC, HERE)
    assert line.startswith("docker run -i --rm --init --log-driver none --network none --cap-drop ALL ")
    assert line.endswith("--entrypoint /bin/server img 'a b'")
    assert "-e LANG=C -e TOKEN " in line
    assert "s3cret" not in line


def test_it_names_the_engine_the_user_and_what_is_shown() -> None:
    container = Container("img", user="7:7", volumes=(("cache", "/cache", "rw"),), entrypoint=True)
    spec = replace(SPEC, container=container, mounts=(Mount("/a"), Mount("/b", "rw", "/c")), cwd="/c", network="host")
    line = shown(replace(spec, limits=UNLIMITED, read_only=("/opt/x",)), Place("ssh://far", "engine"))
    assert line.startswith("docker -H ssh://far run ")
    assert "--mount type=bind,source=/a,target=/a,readonly --mount type=bind,source=/b,target=/c " in line
    assert "--volume cache:/cache:rw" in line
    assert "--user 7:7 --workdir /c" in line
    assert "--network host" in line
    assert "--memory" not in line
    assert line.endswith(" img /bin/server 'a b'")
