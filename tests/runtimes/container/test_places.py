"""Where an engine is: what the entry says, what the person's settings say, what is there."""

from __future__ import annotations

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.container import places
from supervisord_mcp.runtimes.container.places import find_place


@contextmanager
def listening(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(str(path))
        made.listen(1)
        yield


def context(home: Path, name: str, endpoint: dict[str, object]) -> Path:
    folder = hashlib.sha256(name.encode()).hexdigest()
    place = home / ".docker" / "contexts" / "meta" / folder
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": endpoint}}))
    return home / ".docker" / "contexts" / "tls" / folder / "docker"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def environ(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a person on a machine whose own engines do not run, whatever runs on this one."""
    monkeypatch.setattr(places, "_OF_MACHINE", {name: f"{home}/of-machine/{name}.sock" for name in places._OF_MACHINE})
    return {"HOME": str(home), "XDG_RUNTIME_DIR": f"{home}/run"}


@pytest.mark.parametrize(
    ("word", "url"),
    [
        ("unix:///somewhere/s", "unix:///somewhere/s"),
        ("/somewhere/s", "unix:///somewhere/s"),
        ("ssh://me@there", "ssh://me@there"),
        ("tcp://there:2376", "tcp://there:2376"),
    ],
)
def test_what_the_entry_names_comes_first(environ: dict[str, str], word: str, url: str) -> None:
    place = find_place(word, {**environ, "DOCKER_HOST": "unix:///other"})
    assert (place.url, place.origin) == (url, "engine in config.toml")


def test_docker_host_comes_before_contexts_and_sockets(environ: dict[str, str], home: Path) -> None:
    context(home, "mine", {"Host": "unix:///context"})
    with listening(home / "run" / "docker.sock"):
        named = {**environ, "DOCKER_CONTEXT": "mine"}
        assert find_place("", {**named, "DOCKER_HOST": "unix:///host"}).url == "unix:///host"
        assert find_place("", named).url == "unix:///context"
        assert find_place("", environ).url == f"unix://{home}/run/docker.sock"


def test_the_current_context_is_used(environ: dict[str, str], home: Path) -> None:
    context(home, "far", {"Host": "tcp://far:2376"})
    (home / ".docker" / "config.json").write_text(json.dumps({"currentContext": "far"}))
    assert find_place("", environ).url == "tcp://far:2376"
    with listening(home / "run" / "docker.sock"):
        assert find_place("default", environ).url == f"unix://{home}/run/docker.sock"


def test_a_context_has_certificates_and_may_be_named_by_the_entry(environ: dict[str, str], home: Path) -> None:
    certificates = context(home, "far", {"Host": "tcp://far:2376", "SkipTLSVerify": True})
    certificates.mkdir(parents=True)
    place = find_place("far", environ)
    assert (place.certificates, place.verified, place.path) == (str(certificates), False, None)


def test_a_context_that_is_not_there_is_named(environ: dict[str, str]) -> None:
    place = find_place("nowhere", environ)
    assert "nowhere" in place.origin
    assert "docker context inspect nowhere" in place.remedy


def test_tls_is_as_docker_has_it(environ: dict[str, str], home: Path) -> None:
    plain = find_place("", {**environ, "DOCKER_HOST": "tcp://there:2375"})
    assert (plain.certificates, plain.verified) == ("", False)
    named = {**environ, "DOCKER_HOST": "tcp://there:2376", "DOCKER_TLS_VERIFY": "1"}
    verified = find_place("", named)
    assert (verified.certificates, verified.verified) == (f"{home}/.docker", True)
    assert find_place("", {**named, "DOCKER_CERT_PATH": "/certs"}).certificates == "/certs"


def test_a_socket_where_somebody_answers_is_better_than_one_that_is_only_there(
    environ: dict[str, str], home: Path
) -> None:
    (home / "run").mkdir()
    (home / "run" / "docker.sock").touch()
    assert find_place("docker", environ).url == f"unix://{home}/run/docker.sock"
    with listening(home / "run" / "podman" / "podman.sock"):
        assert find_place("", environ).url == f"unix://{home}/run/podman/podman.sock"
        assert find_place("podman", environ).url == f"unix://{home}/run/podman/podman.sock"
        assert find_place("", {**environ, "CONTAINER_HOST": "unix:///p"}).url == "unix:///p"


def test_where_nothing_is_all_that_was_looked_for_is_named(environ: dict[str, str], home: Path) -> None:
    place = find_place("podman", environ)
    assert f"{home}/run/podman/podman.sock" in place.origin
    assert "apt install" in place.remedy
