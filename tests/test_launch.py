"""From configuration to a child: what is shared, what a child gets, and real servers that just work."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import ConfigError, LaunchError, SecretError
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launch, Launcher, make_runtimes
from supervisord_mcp.runtimes import tree
from supervisord_mcp.runtimes.limits import DEFAULTS
from supervisord_mcp.runtimes.seccomp import Policy
from tests.kit.bounded import bounded
from tests.packages.registry import place
from tests.runtimes.conformance import ended, read

pytestmark = pytest.mark.usefixtures("subreaper")

BASE = {"PATH", "LANG", "HOME", "USER", "LOGNAME", "TMPDIR"}
NEVER = (
    "LD_PRELOAD",
    "NODE_OPTIONS",
    "PYTHONPATH",
    "SMCP_HOME",
    "LISTEN_FDS",
    "NOTIFY_SOCKET",
    "INVOCATION_ID",
    "X_API",
)
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


class World:
    """A launcher with a home of its own."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.project = folder / "project"
        self.project.mkdir()
        self.environ = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", **(environ or {})}
        self.paths = find_paths({"SMCP_HOME": str(folder / "smcp")}, os.getuid())
        self.marker = f"t-{folder}/"
        self.launcher = Launcher(self.paths, self.environ, self.marker, ["~/own"])

    def resolve(self, host: Mapping[str, str] | None = None, project: Path | None = None, **entry: Any) -> Launch:
        """Resolve an entry for a session."""
        config = ServerConfig.model_validate({"runtime": "bare", **entry})
        facts = Facts("files", project=None if project is None else str(project), environ=host or {})
        return self.launcher.resolve("files", config, facts)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_the_base_environment_and_nothing_else(tmp_path: Path) -> None:
    daemon = {
        **dict.fromkeys(NEVER, "x"),
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "Asia/Tokyo",
        "TMPDIR": "/var/tmp",
    }
    world = World(tmp_path, daemon)
    bare = dict(world.resolve(command=["sh"]).spec.env)
    assert set(bare) == BASE | {"LC_TIME", "TZ"}
    assert (bare["HOME"], bare["LANG"], bare["TZ"], bare["TMPDIR"]) == (
        str(world.home),
        "de_DE.UTF-8",
        "Asia/Tokyo",
        "/var/tmp",
    )
    inside = dict(world.resolve(command=["sh"], runtime="bwrap").spec.env)
    assert set(inside) == set(bare)
    assert (inside["HOME"], inside["USER"], inside["TMPDIR"]) == ("/home/mcp", "mcp", "/tmp")


def test_own_variables_win_and_empty_stays_empty(world: World) -> None:
    env = dict(world.resolve(command=["sh"], env={"HOME": "/elsewhere", "EMPTY": "", "X": "$$1"}).spec.env)
    assert (env["HOME"], env["EMPTY"], env["X"]) == ("/elsewhere", "", "$1")
    assert set(env) == BASE | {"EMPTY", "X"}


def test_variables_of_the_host_are_used_only_where_named(tmp_path: Path) -> None:
    world = World(tmp_path, {"BOTH": "daemon", "DAEMON": "daemon", "LD_PRELOAD": "x"})
    host = {"BOTH": "host", "TOKEN": "s3cret", "NODE_OPTIONS": "x", "PATH": "/host"}
    launch = world.resolve(host, command=["sh"], inherit=["BOTH", "DAEMON", "UNSET"], env={"T": "${TOKEN}"})
    env = dict(launch.spec.env)
    assert {name: env[name] for name in env.keys() - BASE} == {"BOTH": "host", "DAEMON": "daemon", "T": "s3cret"}
    assert launch.host_variables == {"BOTH", "TOKEN"}
    assert "/host" not in env["PATH"]
    assert "s3cret" not in repr(launch)
    assert "s3cret" not in launch.explain()
    with pytest.raises(ConfigError, match="TOKEN"):
        world.resolve(command=["sh"], env={"T": "${TOKEN}"})


def test_what_tells_instances_apart(world: World, tmp_path: Path) -> None:
    entry: dict[str, Any] = {"command": ["sh", "${KEY:-none}"]}
    one = world.resolve({"KEY": "1", "OTHER": "1"}, **entry)
    assert one.digest == world.resolve({"KEY": "1", "OTHER": "2"}, **entry).digest
    different = [
        world.resolve({"KEY": "2"}, **entry),
        world.resolve({"KEY": "1"}, **entry, runtime="bwrap"),
        world.resolve({"KEY": "1"}, **entry, cwd="/"),
        world.resolve({"KEY": "1"}, **entry, env={"A": "1"}),
        world.resolve({"KEY": "1"}, **entry, network="host"),
        world.resolve({"KEY": "1"}, **entry, mounts=[{"path": "/srv"}]),
        world.resolve({"KEY": "1"}, command=["sh", "1"], args=["2"]),
    ]
    assert len({one.digest, *(launch.digest for launch in different)}) == len(different) + 1


@bounded(30)
async def test_secrets_are_in_nothing_but_one_start(tmp_path: Path) -> None:
    world = World(tmp_path, {"E": "s3cret-of-now", "F": "s3cret-of-another"})
    entry: dict[str, Any] = {"command": ["sh", "-c", 'printf "%s|%s" "$$TOKEN" "$$(cat "$$TOKEN")"']}
    plain = world.resolve(**entry)
    launch = world.resolve(**entry, credentials={"TOKEN": "env:E"})
    files = world.resolve(**entry, credentials={"TOKEN": "env:E"}, deliver="file")
    other = world.resolve(**entry, credentials={"TOKEN": "env:F"})
    assert len({one.digest for one in (plain, launch, files, other)}) == 4
    assert len({one.fingerprint for one in (plain, launch)}) == 2
    assert "s3cret" not in f"{launch!r} {launch.spec.env} {launch.explain()} {launch.complete().env}"
    assert 'TOKEN="$TOKEN"' in launch.explain()
    for one, wanted in ((launch, b"s3cret-of-now|"), (files, b"|s3cret-of-now")):
        child = await one.start(lambda: None, lambda _: None)
        said = await read(child.stdout)
        await child.aclose()
        assert wanted in said
        assert b"s3cret" not in said.replace(wanted, b"")
    missing = world.resolve(**entry, credentials={"TOKEN": "env:NONE"})
    with pytest.raises(SecretError, match="server 'files' was not given TOKEN from env:NONE"):
        await missing.start(lambda: None, lambda _: None)


def test_projects(world: World) -> None:
    entry: dict[str, Any] = {"command": ["sh", "-c", "pwd"], "mounts": [{"path": "${project}", "access": "rw"}]}
    launch = world.resolve(project=world.project, runtime="bwrap", **entry)
    assert (launch.scope, launch.uses_project, launch.spec.cwd) == ("project", True, str(world.project))
    assert [(mount.path, mount.access) for mount in launch.spec.mounts] == [(str(world.project), "rw")]
    with pytest.raises(ConfigError, match="project"):
        world.resolve(runtime="bwrap", **entry)
    alone = world.resolve(project=world.project, command=["sh"])
    assert (alone.scope, alone.uses_project, alone.spec.cwd) == ("global", False, str(world.home))
    assert world.resolve(command=["sh"], runtime="bwrap").spec.cwd is None
    unseen = world.resolve(project=world.project, command=["sh", "${project}"], runtime="bwrap")
    assert (unseen.scope, unseen.spec.cwd) == ("project", None)
    assert world.resolve(project=world.project, command=["sh"], cwd="sub").spec.cwd == f"{world.project}/sub"


def test_commands_are_found_without_a_login_shell(world: World) -> None:
    program = world.home / "own/mcp-own"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    launch = world.resolve(command=["mcp-own"])
    assert launch.spec.argv == (str(program),)
    assert dict(launch.spec.env)["PATH"].startswith(f"{world.home}/own:/usr/bin")


@bounded(30)
async def test_a_missing_command_is_said_at_the_start_and_found_later(world: World) -> None:
    launch = world.resolve(command=["mcp-later"])
    with pytest.raises(LaunchError, match=r"mcp-later .searched in .*/usr/bin") as caught:
        await launch.start(lambda: None, lambda _: None)
    assert not caught.value.retryable
    _write_program(world.home / "own/mcp-later", "#!/bin/sh\necho here\n")
    launch = world.resolve(command=["mcp-later"])
    child = await launch.start(lambda: None, lambda _: None)
    assert await read(child.stdout) == b"here\n"
    await child.aclose()


@pytest.mark.bwrap
@bounded(60)
async def test_scripts_of_the_home_run_in_the_sandbox(world: World) -> None:
    script = _write_program(world.home / "code/server/run.py", "import other; print(other.NAME)\n")
    _write_program(world.home / "code/server/other.py", "NAME = 'fine'\n")
    _write_program(world.home / "secret", "s3cret")
    world.launcher = Launcher(world.paths, world.environ, world.marker, [os.path.dirname(sys.executable)])
    launch = world.resolve(command=["python3", str(script)], runtime="bwrap")
    child = await launch.start(lambda: None, lambda _: None)
    assert await read(child.stdout) == b"fine\n"
    await child.aclose()
    assert str(world.home / "code/server") in launch.prepared().read_only
    assert str(world.home) not in launch.prepared().read_only


@pytest.mark.parametrize("place", ["smcp", "smcp/run", "smcp/config/conf.d", "smcp/state", "."])
def test_no_sandbox_shows_what_belongs_to_smcp(world: World, tmp_path: Path, place: str) -> None:
    launch = world.resolve(command=["cat"], runtime="bwrap", mounts=[{"path": str(tmp_path / place)}])
    with pytest.raises(LaunchError, match="belongs to smcp itself") as caught:
        launch.prepared()
    assert not caught.value.retryable
    world.resolve(command=["cat"], runtime="bwrap", mounts=[{"path": str(world.project)}]).prepared()


def test_a_script_beside_what_belongs_to_smcp_is_named_as_what_gives_it(world: World, tmp_path: Path) -> None:
    script = _write_program(tmp_path / "smcp/server.py", "")
    world.launcher = Launcher(world.paths, world.environ, world.marker, [os.path.dirname(sys.executable)])
    with pytest.raises(
        LaunchError, match=f"the command needs {tmp_path / 'smcp'}: .* belongs to smcp itself"
    ) as caught:
        world.resolve(command=["python3", str(script)], runtime="bwrap").prepared()
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith("Move the program")


def test_limits_are_those_of_the_entry_and_part_of_the_digest(world: World) -> None:
    launch = world.resolve(command=["sh"], limits={"memory": "64M", "pids": "off", "cpu": 0.5})
    assert launch.spec.limits == replace(DEFAULTS, memory=64 << 20, pids=None, cpu=0.5)
    assert world.resolve(command=["sh"]).spec.limits == DEFAULTS
    assert launch.digest != world.resolve(command=["sh"]).digest
    assert launch.digest == world.resolve(command=["sh"], limits={"memory": 64 << 20, "pids": "off", "cpu": 0.5}).digest


def test_networks(world: World) -> None:
    def network(value: object) -> object:
        return world.resolve(command=["sh"], runtime="bwrap", network=value).spec.network

    assert [network(word) for word in ("none", "loopback", "host")] == ["none", "loopback", "host"]
    assert network("internet") == Egress(parse_rules(["internet"]))
    rules = ["*.example.com:443", "10.1.2.3:5432"]
    assert network({"allow": rules, "private": True}) == Egress(parse_rules(rules, private=True))


def test_rules_are_part_of_the_digest(world: World) -> None:
    tables = [
        {"allow": ["a.example:443"]},
        {"allow": ["a.example:444"]},
        {"allow": ["a.example:443"], "private": True},
        {"allow": ["a.example:443", "b.example:443"]},
        {"allow": ["internet"]},
    ]
    digests = {
        world.resolve(command=["sh"], runtime="bwrap", network=network).digest
        for network in (*tables, "none", "loopback", "internet", "host")
    }
    assert len(digests) == 9


def test_every_runtime_is_made(world: World) -> None:
    made = make_runtimes(world.home / "private", None, range(60706, 60710))
    assert {name: runtime.name for name, runtime in made.items()} == {
        name: name for name in ("bare", "bwrap", "container", "landlock")
    }


@pytest.mark.bwrap
@pytest.mark.npm
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["mcp-server-time"], "mcp-time"),
        (["python3", "-m", "mcp_server_time"], "mcp-time"),
        (["uvx", "mcp-server-time"], "mcp-time"),
        (["npx", "-y", "@modelcontextprotocol/server-filesystem", "${project}"], "secure-filesystem-server"),
    ],
    ids=["script", "module", "uvx", "npx"],
)
@bounded(300)
async def test_real_servers_answer_without_network(world: World, command: list[str], name: str) -> None:
    environ = {**os.environ, "HOME": str(Path.home())}
    launcher = Launcher(world.paths, environ, world.marker, [os.path.dirname(sys.executable)])
    mounts = [{"path": "${project}", "access": "rw"}]
    config = ServerConfig.model_validate({"command": command, "mounts": mounts})
    launch = launcher.resolve("real", config, Facts("real", project=str(world.project)))
    for _ in range(2):
        phases: list[int] = []
        child = await launch.start(lambda phases=phases: phases.append(1), lambda _: None)  # type: ignore[misc]
        os.write(child.stdin, json.dumps(INITIALIZE).encode() + b"\n")
        answer = json.loads(await read(child.stdout, b"\n", seconds=60))
        assert answer["result"]["serverInfo"]["name"] == name
        shown = b" ".join(map(_command_line, tree.marked(world.marker)))
        assert b"npm exec" not in shown
        assert b"uvx" not in shown
        child.close_stdin()
        assert (await ended(child)).success
        await child.aclose()
    await launch.runtime.aclose()
    assert not phases


@pytest.mark.bwrap
@bounded(60)
async def test_registries_of_the_person_are_rules_for_servers_too(tmp_path: Path) -> None:
    with place() as local:
        local.npm_package("plain")
        world = World(tmp_path, {"npm_config_registry": local.url})
        fetch = f"import urllib.request as r; print(r.urlopen('{local.url}/plain', timeout=20).status)"
        command = ["/usr/bin/python3", "-I", "-c", fetch]
        launch = world.resolve(command=command, runtime="bwrap", network={"allow": ["@npm", "a.test:1"]})
        assert launch.sets == ("@npm",)
        assert launch.spec.network == Egress(parse_rules(["a.test:1"])), "what they are is found out at the start"
        said: list[str] = []
        child = await launch.start(lambda: None, said.append)
        try:
            assert await read(child.stdout, b"\n") == b"200\n"
            await ended(child)
        finally:
            await child.aclose()
            await launch.runtime.aclose()
        assert said == []


@pytest.mark.bwrap
@bounded(60)
async def test_a_file_that_is_mounted_alone_can_be_written_and_why_not_replaced(world: World) -> None:
    file, said = world.project / "file", list[str]()
    file.write_text("old")
    script = f"echo new > {file} && echo written; mv /tmp/other {file} 2>/dev/null || echo kept"
    mounts = [{"path": str(file), "access": "rw"}]
    launch = world.resolve(command=["sh", "-c", f"echo > /tmp/other; {script}"], runtime="bwrap", mounts=mounts)
    child = await launch.start(lambda: None, said.append)
    try:
        assert await read(child.stdout, b"kept\n") == b"written\nkept\n"
        await ended(child)
    finally:
        await child.aclose()
    assert file.read_text() == "new\n"
    assert "mount its directory" in said[0]


@pytest.mark.bwrap
@bounded(60)
async def test_hooks_stay_as_they_are_unless_the_entry_says_otherwise(world: World) -> None:
    (world.project / ".vscode").mkdir()
    for taken, word in (([], b"no\n"), ([".vscode"], b"yes\n")):
        mounts = [{"path": "${project}", "access": "rw", "unprotected": taken}]
        script = "echo x > .vscode/tasks.json && echo yes || echo no"
        launch = world.resolve(project=world.project, command=["sh", "-c", script], runtime="bwrap", mounts=mounts)
        child = await launch.start(lambda: None, lambda _: None)
        try:
            assert await read(child.stdout, b"\n") == word
            await ended(child)
        finally:
            await child.aclose()
    assert sorted(path.name for path in world.project.iterdir()) == [".vscode"]


@pytest.mark.bwrap
@bounded(60)
async def test_a_project_behind_a_link_is_shown_where_it_was_named(world: World) -> None:
    (world.project / "file").write_text("x")
    link = world.project.parent / "link"
    link.symlink_to(world.project)
    mounts = [{"path": "${project}", "access": "rw"}]
    launch = world.resolve(project=link, command=["sh", "-c", "pwd; cat file"], runtime="bwrap", mounts=mounts)
    child = await launch.start(lambda: None, lambda _: None)
    try:
        assert (await read(child.stdout)).decode() == f"{link}\nx"
        await ended(child)
    finally:
        await child.aclose()


def test_the_marker_begins_as_the_daemon_says(world: World) -> None:
    launch = world.resolve(command=["sh"])
    assert launch.spec.marker == ""
    assert replace(launch, marker="x").spec == launch.spec
    assert launch.isolation == world.launcher.isolation(ServerConfig(command=("sh",), runtime="bare")) == "none"


def _write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def _command_line(entry: Any) -> bytes:
    return Path(f"/proc/{entry.pid}/cmdline").read_bytes()


def test_each_era_has_a_digest_and_the_legacy_one_is_that_of_always(world: World) -> None:
    launch = world.resolve(command=["sh"])
    assert (launch.era, launch.digest) == ("legacy", launch.digests["legacy"])
    modern = launch.of("modern")
    assert (modern.era, modern.digest) == ("modern", launch.digests["modern"])
    assert modern.digest != launch.digest
    assert modern.of("legacy") == launch
    assert world.resolve(command=["sh"], era="legacy").digest == launch.digest
    assert world.resolve(command=["sh"], era="modern").digest == modern.digest


def test_what_a_verdict_is_remembered_by(world: World, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    one = world.resolve(command=[str(program), "a"], env={"KEY": "1"})
    assert one.fingerprint == one.of("modern").fingerprint
    assert one.fingerprint == world.resolve(command=[str(program), "a"], env={"KEY": "2"}, network="host").fingerprint
    different = [
        world.resolve(command=[str(program), "b"], env={"KEY": "1"}),
        world.resolve(command=[str(program), "a"], env={"OTHER": "1"}),
        world.resolve(command=["no-such-program", "a"], env={"KEY": "1"}),
    ]
    assert one.fingerprint not in {launch.fingerprint for launch in different}
    before = one.fingerprint
    os.utime(program, (1, 1))
    assert one.fingerprint != before


def test_system_calls_are_those_of_the_entry_and_part_of_the_digest(world: World) -> None:
    calls = {"families": ["inet"], "unix": True, "userns": True, "deny": ["kcmp", "prctl(PR_SET_MM)"], "audit": True}
    launch = world.resolve(command=["sh"], runtime="bwrap", seccomp=calls)
    denied = frozenset({"kcmp", "prctl(PR_SET_MM)"})
    policy = Policy(frozenset({"inet", "unix"}), userns=True, deny=denied, audit=True)
    assert launch.spec.seccomp == policy
    plain = world.resolve(command=["sh"], runtime="bwrap")
    assert plain.spec.seccomp == Policy()
    named = world.resolve(command=["sh"], runtime="bwrap", profile="other")
    assert len({launch.digest, plain.digest, named.digest}) == 3


def test_a_system_call_that_linux_does_not_have(world: World) -> None:
    world.launcher.origins = {"files": Origin(Path("/c.toml"), 7)}
    with pytest.raises(ConfigError, match=r"/c.toml:7: servers.files.seccomp.deny: ptraec: Linux has no such"):
        world.resolve(command=["sh"], seccomp={"deny": ["ptraec"]})


def test_mounts_that_are_optional_are_left_out_where_nothing_is(world: World) -> None:
    def mounts() -> list[str]:
        wanted = [{"path": "~/one", "optional": True}, {"path": "~/two"}, {"path": "~/three", "optional": True}]
        spec = world.resolve(command=["sh"], runtime="bwrap", mounts=wanted).spec
        return [os.path.basename(mount.path) for mount in spec.mounts]

    assert mounts() == ["two"]
    (world.home / "three").mkdir()
    assert mounts() == ["two", "three"]


def test_what_an_entry_grants_beyond_its_profile(world: World) -> None:
    world.launcher.origins = {"files": Origin(Path("/c.toml"), 7, ("network",))}
    assert world.launcher.beyond("files") == ("network",)
    assert world.launcher.beyond("unknown") == ()


@pytest.mark.bwrap
@bounded(60)
async def test_sockets_of_a_profile_that_allows_them(world: World) -> None:
    script = "import socket; print(socket.socket(socket.AF_UNIX).bind('/tmp/s'))"
    told = []
    for unix in (False, True):
        world.launcher = Launcher(world.paths, world.environ, world.marker, [os.path.dirname(sys.executable)])
        launch = world.resolve(command=["python3", "-c", script], runtime="bwrap", seccomp={"unix": unix})
        child = await launch.start(lambda: None, lambda _: None)
        told.append(((await read(child.stdout)).strip(), b"not supported" in await read(child.stderr)))
        await child.aclose()
    assert told == [(b"", True), (b"None", False)]


def test_a_command_line_for_a_package_is_that_of_what_is_installed(world: World) -> None:
    launch = world.resolve(command=["npx", "-y", "some-package"], runtime="bwrap")
    with pytest.raises(LaunchError, match=r"some-package is not installed yet\n .*smcp start files"):
        launch.explain()


def _install_profile(world: World, text: str) -> None:
    world.paths.profiles_dir.mkdir(parents=True, exist_ok=True)
    (world.paths.profiles_dir / "install.toml").write_text(f"description = 'mine'\nextends = 'install'\n{text}")


def test_the_profile_of_installations(world: World) -> None:
    shipped = world.launcher.confinement()
    assert (shipped.sets, shipped.rules) == (("@npm", "@pypi"), ())
    assert shipped.seccomp == Policy()
    assert (shipped.limits.memory, shipped.limits.pids, shipped.limits.tmp) == (2 << 30, 512, 1 << 30)
    _install_profile(world, "network = { allow = ['@pypi', 'mirror.example:443'] }\noverride = ['network']")
    own = world.launcher.confinement()
    assert (own.sets, own.rules) == (("@pypi",), parse_rules(["mirror.example:443"]))
    _install_profile(world, "network = 'none'\n[seccomp]\ndeny = ['memfd_create']\n[limits]\npids = 64")
    own = world.launcher.confinement()
    assert (own.sets, own.rules, own.limits.pids) == ((), (), 64)
    assert own.seccomp.deny == {"memfd_create"}
    _install_profile(world, "network = 'internet'\noverride = ['network']")
    own = world.launcher.confinement()
    assert (own.sets, own.rules) == (("@npm", "@pypi"), parse_rules(["internet"]))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("network = 'host'\noverride = ['network']", 3, "no installation has the network of the machine"),
        ("mounts = [{ path = '/srv' }]\noverride = ['mounts']", 3, "take only network, limits and seccomp"),
        ("override = ['env']\n[env]\nA = '${B}'", 4, "take only network, limits and seccomp"),
        ("[seccomp]\ndeny = ['spoon']", 4, "Linux has no such system call"),
        ("[limits]\npids = 1000", 4, "grants more than 'install'"),
    ],
)
def test_a_profile_of_installations_that_cannot_be(world: World, text: str, line: int, said: str) -> None:
    _install_profile(world, text)
    with pytest.raises(ConfigError, match=said) as caught:
        world.launcher.confinement()
    assert f"install.toml:{line}: " in str(caught.value)


@pytest.mark.bwrap
@bounded(60)
async def test_an_installation_is_held_to_its_profile(tmp_path: Path) -> None:
    with place() as local:
        local.npm_package("plain")
        world = World(tmp_path, {"npm_config_registry": local.url})
        _install_profile(world, "network = { allow = ['@pypi'] }")
        launch = world.resolve(command=["npx", "-y", "plain"], runtime="bwrap")
        with pytest.raises(LaunchError, match="network of the profile 'install' has no @npm") as caught:
            await launch.start(lambda: None, lambda _: None)
        assert not caught.value.retryable
        _install_profile(world, "[limits]\npids = 8")
        with pytest.raises(LaunchError, match=r"(?s)plain.*(killed|exit)"):
            await launch.start(lambda: None, lambda _: None)
        await launch.runtime.aclose()
