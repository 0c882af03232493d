"""What an engine is told to create: pure decisions about argv, environment, user, limits, mounts and network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes.base import Container, LaunchSpec, Mount, SecretFiles
from supervisord_mcp.runtimes.container import creation
from supervisord_mcp.runtimes.container.creation import Image, Setting
from supervisord_mcp.runtimes.container.engine import Facts
from supervisord_mcp.runtimes.limits import Limits

FACTS = Facts(
    name="here",
    version="1",
    local=True,
    rootless=False,
    selinux=False,
    remapped=False,
    cgroup=2,
    controllers=frozenset({"memory", "pids", "cpu"}),
    runtimes=("runc",),
    podman=False,
    architecture="x86_64",
)
FAR = replace(FACTS, local=False, name="far")
IMAGE = Image("sha256:1", env=(("PATH", "/opt/bin"), ("HOME", "/root")), entrypoint=("/entry",), command=("default",))
SPEC = LaunchSpec("one", ("/bin/server", "-x"), env=(("KEY", "v"),), marker="d:one:1", container=Container("sha256:1"))
GATED = Setting("smcp-one-1", {"a": "b"}, "1000:1000", "none", "{}", ("/gate",), (("/tools", "/.smcp/tools"),))


def body(spec: LaunchSpec = SPEC, facts: Facts = FACTS, setting: Setting = GATED) -> dict[str, Any]:
    return creation.body(spec, IMAGE, facts, setting)


def with_container(**changes: Any) -> LaunchSpec:
    return replace(SPEC, container=replace(Container("sha256:1"), **changes))


def test_an_image_is_read_as_engines_tell_it() -> None:
    told = {
        "Id": "sha256:2",
        "Config": {"Env": ["A=1=2", "B="], "User": "app", "Cmd": "run me", "Entrypoint": None, "StopSignal": "SIGINT"},
    }
    image = Image.of(told)
    assert image.env == (("A", "1=2"), ("B", ""))
    assert (image.user, image.entrypoint, image.command) == ("app", (), ("/bin/sh", "-c", "run me"))
    assert image.stop_signal == "SIGINT"
    assert Image.of({"Id": "x"}) == Image("x")


@pytest.mark.parametrize(
    ("argv", "entrypoint", "expected"),
    [
        (("/bin/x", "y"), False, ("/bin/x", "y")),
        (("y",), True, ("/entry", "y")),
        ((), True, ("/entry", "default")),
        ((), False, ("/entry", "default")),
    ],
)
def test_what_runs_is_what_the_entry_says_or_the_image(
    argv: tuple[str, ...], entrypoint: bool, expected: tuple[str, ...]
) -> None:
    assert creation.argv_of(replace(with_container(entrypoint=entrypoint), argv=argv), IMAGE) == expected


def test_an_image_that_runs_nothing_needs_a_command() -> None:
    with pytest.raises(LaunchError, match="does not say what it runs"):
        creation.argv_of(replace(SPEC, argv=()), Image("x"))


def test_a_server_without_an_image_is_none() -> None:
    with pytest.raises(LaunchError, match="no image"):
        creation.container_of(replace(SPEC, container=None))


def test_the_environment_is_that_of_the_image_below_that_of_the_entry() -> None:
    env = creation.environment_of(replace(SPEC, env=(("PATH", "/own"), ("KEY", "v"))), IMAGE)
    assert env == {"PATH": "/own", "KEY": "v", "HOME": "/home/mcp", "SMCP_INSTANCE": "d:one:1"}
    assert creation.environment_of(SPEC, Image("x"))["PATH"].startswith("/usr/local/sbin:")


@pytest.mark.parametrize(
    ("container", "image", "facts", "expected"),
    [
        ("7:7", "app", FACTS, "7:7"),
        ("", "app", FACTS, "app"),
        ("", "1234:5", FACTS, "1234:5"),
        ("", "root", FACTS, "1000:1001"),
        ("", "0:0", FACTS, "1000:1001"),
        ("", "00", FACTS, "1000:1001"),
        ("", "", replace(FACTS, rootless=True), "0:0"),
        ("", "", replace(FACTS, rootless=True, podman=True), "1000:1001"),
    ],
)
def test_nobody_is_root_who_need_not_be(container: str, image: str, facts: Facts, expected: str) -> None:
    spec = replace(with_container(user=container), mounts=(Mount("/data", "rw"),))
    assert creation.user_of(spec, Image("x", user=image), facts, (1000, 1001)) == expected


def test_a_gated_container_is_told_nothing_of_the_server() -> None:
    told = body(replace(SPEC, secrets=SecretFiles("", (("TOKEN", "s3cret"),))))
    assert (told["Entrypoint"], told["Cmd"]) == (["/gate"], [])
    assert told["Env"] == ["LD_PRELOAD=", "LD_LIBRARY_PATH=", "LD_AUDIT=", "LD_DEBUG=", "SMCP_INSTANCE=d:one:1"]
    assert "s3cret" not in repr(told)
    assert not told["OpenStdin"]
    assert "/run/smcp" in told["HostConfig"]["Tmpfs"]


def test_without_a_gate_the_server_is_what_is_started() -> None:
    told = body(setting=replace(GATED, command=(), shown=()))
    assert (told["Entrypoint"], told["Cmd"]) == (["/bin/server"], ["-x"])
    assert "KEY=v" in told["Env"]
    assert told["OpenStdin"]
    assert told["StdinOnce"]


def test_openings_are_only_those_that_are_named() -> None:
    closed = body()["HostConfig"]
    assert (closed["Privileged"], closed["CapAdd"], closed["CapDrop"]) == (False, [], ["ALL"])
    opened = body(with_container(allow=frozenset({"cap:NET_ADMIN", "privileged"})))["HostConfig"]
    assert (opened["Privileged"], opened["CapAdd"]) == (True, ["NET_ADMIN"])


def test_limits_are_those_that_the_engine_can_keep() -> None:
    spec = replace(SPEC, limits=Limits(memory=1 << 20, pids=10, cpu=0.5, nofile=7))
    host = body(spec)["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["PidsLimit"], host["NanoCpus"]) == (
        1 << 20,
        1 << 20,
        11,
        5 * 10**8,
    )
    assert {"Name": "nofile", "Soft": 7, "Hard": 7} in host["Ulimits"]
    weak = body(spec, replace(FACTS, controllers=frozenset()))["HostConfig"]
    assert not {"Memory", "PidsLimit", "NanoCpus"} & weak.keys()


def test_files_of_a_person_keep_their_labels() -> None:
    facts = replace(FACTS, selinux=True)
    assert "label=disable" in body(facts=facts)["HostConfig"]["SecurityOpt"]
    assert "label=disable" not in body()["HostConfig"]["SecurityOpt"]
    far = body(facts=facts, setting=replace(GATED, command=(), shown=()))
    assert "label=disable" not in far["HostConfig"]["SecurityOpt"]


def test_volumes_and_other_runtimes_are_as_named() -> None:
    host = body(with_container(volumes=(("cache", "/cache", "rw"),), oci_runtime="runsc"))["HostConfig"]
    assert {"Type": "volume", "Source": "cache", "Target": "/cache", "ReadOnly": False} in host["Mounts"]
    assert host["Runtime"] == "runsc"


def test_podman_keeps_the_user_of_the_person() -> None:
    facts = replace(FACTS, podman=True, rootless=True)
    assert body(facts=facts)["HostConfig"]["UsernsMode"] == "keep-id"
    assert "UsernsMode" not in body(with_container(user="0"), facts)["HostConfig"]


def test_another_machine_has_no_paths_of_this_one() -> None:
    with pytest.raises(LaunchError, match=r"another machine \(far\)"):
        creation.check_mount(SPEC, Mount("/etc"), FAR)


def test_the_socket_of_an_engine_must_be_named() -> None:
    with pytest.raises(LaunchError, match="root on this machine"):
        creation.check_mount(SPEC, Mount("/var/run/docker.sock", "rw"), FACTS)
    with pytest.raises(LaunchError, match="no such file"):
        creation.check_mount(with_container(allow=frozenset({"engine-socket"})), Mount("/run/docker.sock/x"), FACTS)


def test_the_socket_of_the_engine_itself_must_be_named_wherever_it_is(tmp_path: Path) -> None:
    facts = replace(FACTS, socket=f"{tmp_path}/engine/socket")
    with pytest.raises(LaunchError, match="engine/socket the server would be root"):
        creation.check_mount(SPEC, Mount(str(tmp_path)), facts)
    creation.check_mount(SPEC, Mount(str(tmp_path)), FACTS)


def test_the_socket_of_an_engine_of_the_person_must_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(LaunchError, match=r"docker\.sock"):
        creation.check_mount(SPEC, Mount(str(tmp_path)), FACTS)


def test_a_path_that_no_engine_understands_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="not UTF-8"):
        creation.check_mount(SPEC, Mount(f"{tmp_path}/a\udcffb"), FACTS)


@pytest.mark.parametrize(
    ("said", "number"),
    [("", 15), ("SIGINT", 2), ("int", 2), ("2", 2), ("SIGRTMIN+3", 37), ("SIGNOTHING", 15), ("raise_signal", 15)],
)
def test_signals_are_read_as_engines_do(said: str, number: int) -> None:
    assert creation.stop_number(Image("x", stop_signal=said)) == number


def test_volumes_of_an_image_take_no_place_that_is_taken() -> None:
    declared = replace(IMAGE, volumes=("/data", "/home/mcp", "/tools", "/mine", "/named", "/bin"))
    spec = replace(with_container(volumes=(("kept", "/named", "rw"),)), mounts=(Mount("/etc", target="/mine"),))
    host = creation.body(spec, declared, FACTS, GATED)["HostConfig"]
    assert host["Tmpfs"].keys() == {"/tmp", "/home/mcp", "/run", "/data", "/tools"}
    assert "/bin" not in {each["Target"] for each in host["Mounts"]}


def test_rules_for_the_network_need_the_daemon_beside_the_container() -> None:
    ruled = replace(SPEC, network=Egress(parse_rules(["a.test:443"])))
    assert creation.network_of(ruled, FACTS, gated=True) == "none"
    with pytest.raises(IsolationError, match="another machine"):
        creation.network_of(ruled, FAR, gated=False)
    assert creation.network_of(SPEC, FAR, gated=False) == "none"


def test_names_are_those_that_engines_take() -> None:
    assert creation.name_of("my server/ä", "1a") == "smcp-my-server-1a"
    assert creation.name_of("ä", "1a") == "smcp-server-1a"


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (with_container(allow=frozenset({"privileged"})), "privileged"),
        (replace(with_container(allow=frozenset({"host-network"})), network="host"), 'network = "host"'),
    ],
)
def test_an_engine_with_users_of_its_own_gives_no_rights_of_the_machine(spec: LaunchSpec, what: str) -> None:
    assert body(spec)
    with pytest.raises(LaunchError, match=f"userns-remap.*{what}"):
        body(spec, replace(FACTS, remapped=True))
