"""The words about a server are true of what would be launched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.load import load
from supervisord_mcp.config.profiles import find_profiles
from supervisord_mcp.explanation import Explanation, explanation
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launcher
from supervisord_mcp.runtimes.filter_text import filter_lines
from supervisord_mcp.runtimes.seccomp import BASE
from tests.config.places import paths_in, write

pytestmark = pytest.mark.bwrap


class World:
    """A configuration with one server, and a project."""

    def __init__(self, folder: Path) -> None:
        self.paths = paths_in(folder / "smcp")
        self.project = folder / "project"
        self.home = folder / "home"
        self.bin = folder / "bin"
        for place in (self.paths.config_dir, self.project, self.home, self.bin):
            place.mkdir(parents=True)

    def explain(self, entry: str, environ: dict[str, str] | None = None) -> Explanation:
        command = "" if "command" in entry else 'command = "sh"'
        write(self.paths, f"[servers.s]\n{command}\n{entry}\n")
        loaded = load(self.paths)
        own = {"HOME": str(self.home), "PATH": f"{self.bin}:/usr/bin:/bin", **(environ or {})}
        launcher = Launcher(self.paths, own, "", [])
        launcher.origins = loaded.origins
        config = loaded.config.servers["s"]
        launch = launcher.resolve("s", config, Facts("s", project=str(self.project), environ={}))
        return explanation(launch, config, find_profiles(self.paths).effective(config.profile))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def lines(found: Explanation, title: str) -> tuple[str, ...]:
    [section] = [section for section in found.sections if section.title == title]
    return section.lines


def test_a_server_of_the_default_profile(world: World) -> None:
    found = world.explain("")
    assert (found.profile, found.runtime, found.isolation, found.scope) == ("default", "bwrap", "sandbox", "global")
    assert lines(found, "network") == ("none: a network of its own with nothing in it, not even this machine",)
    assert lines(found, "files")[-1] == "nothing else is there"
    assert not any("write" in line for line in lines(found, "files"))
    assert found.filter == filter_lines(BASE)
    assert "memory 1G, pids 128, nofile 1024" in lines(found, "limits")[0]
    assert lines(found, "not covered")[-1] == "one host from another: all share it"
    assert "--unshare-net" in found.command_line
    assert found.obstacle == ""


def test_what_the_entry_grants_beyond_its_profile(world: World) -> None:
    (world.home / ".ssh").mkdir()
    found = world.explain(
        'network = "host"\nmounts = [{ path = "~/.ssh", access = "rw" }]\n'
        'profile = "strict"\nseccomp = { families = ["inet"] }'
    )
    about = lines(found, "profile")
    assert about[0].startswith("strict: as little as possible")
    assert about[1].endswith("strict.toml, extends default")
    assert "the entry grants more: network: host is more than none" in about
    assert "the entry grants more: mounts[0]: ~/.ssh (rw)" in about
    assert "the entry grants more: seccomp.families: inet" in about
    assert "careful: ~/.ssh has keys, passwords or private data" in about
    assert f"read and write: {world.home}/.ssh" in lines(found, "files")
    assert lines(found, "network")[0].startswith("all of the machine's network")
    assert any(line.startswith("everything that listens on this machine") for line in lines(found, "not covered"))
    assert "also refused: prctl(PR_SET_MM)" in lines(found, "system calls")
    assert "cpu by control groups only" in lines(found, "limits")


def test_rules_and_a_project(world: World) -> None:
    found = world.explain(
        'profile = "files-ro"\nnetwork = { allow = ["a.example:443", "10.1.2.3:80"], private = true }'
    )
    assert found.scope == "project"
    assert f"read only: {world.project}" in lines(found, "files")
    assert f"working directory: {world.project}" in lines(found, "files")
    assert lines(found, "network")[0] == "through the daemon: a.example:443, 10.1.2.3:80"
    assert lines(found, "network")[-1] == "private networks too"
    assert "what it sends to the hosts that it reaches" in lines(found, "not covered")
    assert "one host from another: all of a project share it" in lines(found, "not covered")


def test_the_environment_by_name(world: World) -> None:
    found = world.explain(
        'env = { A = "s3cret" }\ninherit = ["TOKEN", "UNSET"]', {"TOKEN": "s3cret", "OTHER": "s3cret", "LC_TIME": "C"}
    )
    about = lines(found, "environment")
    assert about[0].startswith("for every server: HOME, LANG, LC_TIME, LOGNAME, PATH")
    assert about[1:] == (
        "from its entry and profile: A, TOKEN",
        "not set here, so left out: UNSET",
        "no other variable, neither of hosts nor of the daemon",
    )
    assert "s3cret" not in repr(found)


def test_credentials_by_name(world: World) -> None:
    entry = 'credentials = { TOKEN = "vault:github", A = "env:X" }\n'
    found = world.explain(entry, {})
    assert lines(found, "credentials") == (
        "A from env:X",
        "TOKEN from vault:github",
        "in its environment, read at each start",
    )
    assert lines(world.explain('deliver = "file"\n' + entry, {}), "credentials")[-1].startswith(
        "in files below /run/smcp"
    )
    bare = world.explain('deliver = "file"\nruntime = "bare"\n' + entry, {})
    assert lines(bare, "credentials")[-1].startswith("in files on a tmpfs of the machine")
    assert 'TOKEN="$TOKEN"' in bare.command_line
    assert lines(world.explain("", {}), "credentials") == ("none",)


def test_a_browser_keeps_to_one_session_and_reaches_more_of_the_kernel(world: World) -> None:
    found = world.explain('profile = "browser"')
    assert found.scope == "session"
    assert "namespaces of its own: more of the kernel is within reach" in lines(found, "not covered")
    assert not any("share it" in line for line in lines(found, "not covered")[1:])


def test_without_isolation(world: World) -> None:
    found = world.explain('runtime = "bare"')
    assert found.isolation == "none"
    assert found.filter == ()
    for title in ("files", "network", "system calls"):
        assert lines(found, title) == ('none: runtime "bare" holds nothing back',)
    assert lines(found, "user")[0] == f"the user of the daemon ({os.geteuid()}), with all rights"
    assert lines(found, "not covered") == ("everything: the server may do what you may do",)


@pytest.mark.parametrize(
    ("entry", "obstacle"),
    [
        ('command = "no-such-program"', "no-such-program"),
        ('command = "npx -y some-package"', "some-package is not installed yet"),
        ('command = "sh"\nmounts = [{ path = "/nowhere/at/all" }]', "there is no such file or directory"),
    ],
)
def test_why_there_is_no_command_line(world: World, entry: str, obstacle: str) -> None:
    (world.bin / "npx").symlink_to("/usr/bin/true")
    (world.bin / "npm").symlink_to("/usr/bin/true")
    (world.bin / "node").symlink_to("/usr/bin/true")
    found = world.explain(entry)
    assert found.command_line == ""
    assert obstacle in found.obstacle
    assert lines(found, "network")


def test_danger_is_told(world: World, tmp_path: Path) -> None:
    world.paths.profiles_dir.mkdir()
    (world.paths.profiles_dir / "p.toml").write_text(
        "description = 'x'\ndangerous = true\nreason = 'it has to'\n"
        f"mounts = [{{ path = '{tmp_path}/a.sock', optional = true }}]"
    )
    about = lines(world.explain('profile = "p"'), "profile")
    assert about[:3] == ("p: x", f"yours, {world.paths.profiles_dir}/p.toml", "dangerous: it has to")
    assert about[3].startswith(f"careful: {tmp_path}/a.sock is a socket")


def test_users(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(root: bool) -> str:
        monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1234)
        return lines(world.explain('command = "no-such-program"'), "user")[0]

    assert first(root=False) == "your own (1234); without any capability"
    assert first(root=True).startswith("one of its own from daemon.uids, never root")
    mounted: Any = 'command = "no-such-program"\nmounts = [{ path = "/usr/share" }]'
    assert lines(world.explain(mounted), "user")[1].startswith("files of root or of somebody else")


def test_landlock_holds_less_back_and_says_so(world: World) -> None:
    found = world.explain('runtime = "landlock"\nprofile = "node"\nnetwork = "host"')
    assert found.isolation == "reduced"
    assert 'the entry grants more: runtime: "landlock" isolates less than "bwrap"' in lines(found, "profile")
    assert lines(found, "files")[-1] == "nothing else can be read or written; that it is there can be seen"
    assert "shmget: EPERM" in found.filter
    assert any("sees that files and directories exist" in line for line in lines(found, "not covered"))
    assert not any("tmp" in line for line in lines(found, "limits"))


def test_registries_and_what_stays_read_only_in_a_project(world: World) -> None:
    found = world.explain('profile = "files-rw"\nnetwork = { allow = ["@npm", "a.example:443"] }')
    assert lines(found, "network")[:2] == (
        "through the daemon: a.example:443, @npm",
        "@npm: the registries that your own configuration of npm, pip and uv names",
    )
    files = lines(found, "files")
    [protected] = [line for line in files if line.startswith("  but read only in it: ")]
    assert files.index(protected) == files.index(f"read and write: {world.project}") + 1
    assert ".git/hooks" in protected
    unprotected = 'mounts = [{ path = "${project}", access = "rw", unprotected = [".vscode"] }]'
    about = world.explain(f'profile = "files-rw"\n{unprotected}')
    assert "the entry grants more: mounts[0]: ${project} (rw)" in lines(about, "profile")
    assert not any(".vscode" in line for line in lines(about, "files"))


def test_a_server_in_a_container(world: World) -> None:
    entry = 'runtime = "container"\nimage = "team/db:1"\nengine = "unix:///nowhere"\ncommand = ["serve", "-v"]'
    found = world.explain(f'{entry}\npermit = ["cap:NET_RAW"]\ncontainer = {{ user = "7:7" }}')
    assert (found.runtime, found.isolation, found.obstacle) == ("container", "sandbox", "")
    assert lines(found, "files")[0] == "read only: the image team/db:1"
    assert not any("/usr" in line for line in lines(found, "files"))
    assert lines(found, "user")[:2] == ("7:7", "permitted by its entry: cap:NET_RAW")
    assert "team/db:1" in found.command_line
    assert found.command_line.endswith("--entrypoint serve team/db:1 -v")
    plain = world.explain('runtime = "container"\nimage = "team/db:1"\nengine = "unix:///nowhere"\ncommand = ["x"]')
    assert lines(plain, "user")[0] == "that of the image, or an ordinary one where it says root"
    package = world.explain('runtime = "container"\ncommand = ["npx", "-y", "foo"]')
    assert "foo is not installed yet" in package.obstacle
    assert lines(package, "files")[0] == "read only: the image node:22-slim"
