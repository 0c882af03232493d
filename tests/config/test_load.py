"""From files to a configuration: what is joined, what is refused, and where every fault is said to be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.config import document, profiles
from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.load import load, watched_directories
from supervisord_mcp.config.models import Config
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.config.resolve import resolve
from supervisord_mcp.config.variables import Variables
from supervisord_mcp.errors import ConfigError, SmcpError
from tests.config.places import paths_in, problems, write

SERVER = '[servers.%s]\ncommand = "x"\n'


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_in(tmp_path)


def faults(paths: Paths) -> list[str]:
    return problems(paths, lambda: load(paths))


def test_nothing_is_an_empty_configuration(paths: Paths) -> None:
    loaded = load(paths)
    assert loaded.config == Config()
    assert loaded.files == ()
    assert loaded.directories == (paths.config_dir.parent,)
    assert dict(loaded.origins) == {}


def test_what_is_measured_is_said_in_one_file(paths: Paths) -> None:
    write(paths, "[metrics]\ncalls = false\n", b="[metrics]\nusage = false\n")
    assert faults(paths) == ["conf.d/b.toml:1: metrics: only config.toml may have the table [metrics]"]
    write(paths, "[metrics]\ncalls = false\n", b="[servers.a]\ncommand = 'x'\n")
    config = load(paths).config
    assert (config.metrics.calls, config.metrics.usage, config.daemon.reload) == (False, True, True)


def test_files_are_joined_in_order(paths: Paths) -> None:
    write(paths, "[daemon]\nreload = false\n" + SERVER % "m", b=SERVER % "b", a="\n" + SERVER % "a")
    (paths.conf_dir / ".#a.toml").write_text("not toml")
    (paths.conf_dir / "a.toml~").write_text("not toml")
    loaded = load(paths)
    assert list(loaded.config.servers) == ["m", "a", "b"]
    assert not loaded.config.daemon.reload
    assert loaded.files == (paths.config_file, paths.conf_dir / "a.toml", paths.conf_dir / "b.toml")
    assert loaded.directories == (paths.config_dir, paths.conf_dir)
    assert loaded.origins["a"] == Origin(paths.conf_dir / "a.toml", 2)


def test_every_fault_of_every_file_at_once(paths: Paths) -> None:
    write(
        paths,
        '[daemon]\nrelod = true\n\n[servers.a]\ncomand = "x"\nenv = { A = "1",\t"b c" = 2 }\nscope = "glob"\n',
        b="[servers.b]\n\n[servers.a]\ncommand = 'x'\n[daemon]\n",
        c='[servers.c]\ncommand = "x\n',
        d="servers.d.args = 5\nservers.d.command = []",
    )
    assert faults(paths) == [
        "config.toml:2: daemon.relod: unknown key 'relod'; did you mean 'reload'?",
        "config.toml:5: servers.a.comand: unknown key 'comand'; did you mean 'command'?",
        'config.toml:6: servers.a.env."b c": must be a string, not an integer; write it in quotes',
        'config.toml:7: servers.a.scope: must be "auto" or "global" or "project" or "session"; did you mean "global"?',
        "conf.d/b.toml:1: servers.b: the key 'command' is required, or 'image' or 'package' in its place",
        "conf.d/b.toml:3: servers.a: server 'a' is defined twice; first at config.toml:4",
        "conf.d/b.toml:5: daemon: only config.toml may have the table [daemon]",
        "conf.d/c.toml:2: not valid TOML, column 13: illegal character '\\n'",
        "conf.d/d.toml:1: servers.d.args: must be an array, not an integer",
        "conf.d/d.toml:2: servers.d.command: must not be empty",
    ]


def test_faults_in_arrays_of_tables(paths: Paths) -> None:
    write(paths, SERVER % "a" + '[[servers.a.mounts]]\npath = "/x"\n[[servers.a.mounts]]\npath = "/y"\naccess = "x"\n')
    assert faults(paths) == ['config.toml:7: servers.a.mounts[1].access: must be "ro" or "rw"']


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = [1,\n  2\nb = 3", "3: not valid TOML, column 1: unclosed array"),
        ("a = ", "1: not valid TOML, end of file: invalid value"),
        ("\n\na = 'x", '3: not valid TOML, end of file: expected "\'"'),
        ("a = 1\x00", "1: not valid TOML, column 6: expected newline or end of document after a statement"),
        (SERVER % "a" + "\n" + SERVER % "a", "4: servers.a: defined twice; first in line 1"),
        (SERVER % "a" + "command = 'y'\nargs = []", "3: servers.a.command: defined twice; first in line 2"),
        (
            "[servers]\na = {command='x'}\na.args = []",
            "3: not valid TOML, end of file: cannot mutate immutable namespace",
        ),
        ("a = zzz\nb = 1\nb = 2", "1: not valid TOML, column 5: invalid value"),
        ("servers.a = {x=1, x=2}", "1: servers.a.x: defined twice; first in line 1"),
        ("a = " + "9" * 5000, " not valid TOML: Exceeds the limit (4300 digits) for integer string conversion"),
        ("a = " + "[" * 100_000, " values are nested too deeply"),
    ],
)
def test_syntax(paths: Paths, text: str, problem: str) -> None:
    write(paths, text)
    [only] = faults(paths)
    assert only.startswith(f"config.toml:{problem}")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_mark_and_line_ends_of_windows(paths: Paths, mark: str, newline: str) -> None:
    write(paths, (mark + SERVER % "a" + "x = 1\n").replace("\n", newline))
    assert faults(paths) == ["config.toml:3: servers.a.x: unknown key 'x'; known here: " + ", ".join(_server_keys())]
    write(paths, (mark + SERVER % "a").replace("\n", newline))
    assert list(load(paths).config.servers) == ["a"]


def _server_keys() -> list[str]:
    return list(Config.model_validate({"servers": {"a": {"command": "x"}}}).servers["a"].model_dump())


def test_what_is_not_utf8(paths: Paths) -> None:
    write(paths, b"# one\n# \xff\n", a="[servers.a]".encode("utf-16"))
    assert faults(paths) == [
        "config.toml:2: not valid UTF-8; save the file as UTF-8",
        "conf.d/a.toml:1: the file is UTF-16; save it as UTF-8",
    ]


def test_what_cannot_be_read(paths: Paths) -> None:
    write(paths, SERVER % "a")
    (paths.conf_dir / "a.toml").mkdir()
    os.mkfifo(paths.conf_dir / "b.toml")
    (paths.conf_dir / "c.toml").symlink_to("nowhere")
    (paths.conf_dir / "d.toml").symlink_to("d.toml")
    assert faults(paths) == [
        "conf.d/a.toml: cannot be read: not a regular file",
        "conf.d/b.toml: cannot be read: not a regular file",
        "conf.d/c.toml: the link leads to nowhere, which does not exist",
        "conf.d/d.toml: cannot be read: Too many levels of symbolic links",
    ]


def test_a_directory_that_cannot_be_listed(paths: Paths) -> None:
    paths.config_dir.mkdir()
    paths.conf_dir.touch()
    assert faults(paths) == ["conf.d: cannot be read: Not a directory"]


def test_a_file_without_permission(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    # The tests may run as root, who may read everything.
    write(paths, SERVER % "a")
    monkeypatch.setattr(document, "read_file", refuse)
    assert faults(paths) == ["config.toml: cannot be read: Permission denied"]


def test_a_file_that_vanishes_while_it_is_read_is_missing(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    write(paths, SERVER % "a")
    listdir = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: ["gone.toml"] if path == paths.conf_dir else listdir(path))
    assert list(load(paths).config.servers) == ["a"]


def test_servers_that_are_no_table(paths: Paths) -> None:
    write(paths, "servers = 5", a="servers = [1]")
    assert faults(paths) == [
        "config.toml:1: servers: must be a table, not an integer",
        "conf.d/a.toml:1: servers: must be a table, not an array",
    ]


def test_an_overlay_stands_for_files(paths: Paths) -> None:
    write(paths, SERVER % "a")
    overlay = {paths.config_file: b"", paths.conf_dir / "new.toml": (SERVER % "n").encode()}
    assert list(load(paths, overlay).config.servers) == ["n"]


def test_the_same_content_in_another_form_is_the_same_configuration(paths: Paths) -> None:
    write(paths, '[servers.a]\ncommand = "x y"\nenv = { A = "1", B = "2" }\n')
    before = load(paths).config
    write(paths, '# comment\n[servers]\na.env.B = "2"\na.env.A = "1"\na.command = ["x", "y"]\n')
    assert load(paths).config == before


def test_directories_of_links_are_watched(paths: Paths, tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "dotfiles" / "smcp.toml").write_text(SERVER % "a")
    paths.config_dir.mkdir()
    paths.config_file.symlink_to(tmp_path / "dotfiles" / "smcp.toml")
    assert set(load(paths).directories) == {paths.config_dir, tmp_path / "dotfiles"}


def test_directories_of_a_broken_configuration_are_known(paths: Paths) -> None:
    write(paths, "not toml")
    assert watched_directories(paths) == (paths.config_dir, paths.conf_dir)


def test_secrets_are_not_in_the_representation(paths: Paths) -> None:
    write(paths, SERVER % "a" + 'env = { A = "s3cret" }')
    assert "s3cret" not in repr(load(paths))


# Profiles


def profile(paths: Paths, name: str, text: str) -> Path:
    paths.profiles_dir.mkdir(parents=True, exist_ok=True)
    file = paths.profiles_dir / f"{name}.toml"
    file.write_text(f"description = 'x'\n{text}")
    return file


def test_servers_come_out_as_they_apply(paths: Paths) -> None:
    write(paths, SERVER % "a" + "profile = 'files-ro'\nlimits = { memory = '2G' }\n" + SERVER % "b")
    loaded = load(paths)
    a, b = loaded.config.servers["a"], loaded.config.servers["b"]
    assert (a.mounts[0].path, a.uses_project, a.limits.memory) == ("${project}", True, 2 << 30)
    assert (b.profile, b.mounts) == ("default", ())
    assert (loaded.origins["a"].beyond, loaded.origins["b"].beyond) == (("limits",), ())


def test_what_shows_only_where_a_server_is_used_is_placed_at_its_key(paths: Paths) -> None:
    text = """[servers.v]
command = ["x",
    "${A}"]

profile = "mine"
env = { V = "${B}" }
mounts = [
    { path = "/tmp" },
    { path = "${C}" },
]
cwd = "${D}"
[servers.v.seccomp]
"""
    write(paths, text)
    profile(paths, "mine", "mounts = [{ path = '/usr/share' }]")
    loaded = load(paths)
    with pytest.raises(ConfigError) as caught:
        resolve("v", loaded.config.servers["v"], Variables({}, home="/h"), loaded.origins["v"])
    assert [(problem.line, problem.key) for problem in caught.value.problems] == [
        (3, "servers.v.command[1]"),
        (11, "servers.v.cwd"),
        (6, "servers.v.env.V"),
        (9, "servers.v.mounts[2].path"),
    ]
    placed = loaded.origins["v"].problem("v", ("seccomp", "deny"), "no such call")
    assert str(placed) == f"{paths.config_file}:12: servers.v.seccomp.deny: no such call"
    assert loaded.origins["v"].problem("v", ("limits",), "x").line == 1, "what the file does not say is at the table"


def test_a_change_of_a_profile_is_a_change_of_the_servers_that_use_it(paths: Paths) -> None:
    write(paths, SERVER % "a" + "profile = 'mine'\n" + SERVER % "b" + SERVER % "c" + "profile = 'child'\n")
    profile(paths, "mine", "limits = { pids = 64 }")
    profile(paths, "child", "extends = 'mine'")
    before = load(paths).config.servers
    profile(paths, "mine", "# another comment\nlimits = { pids = 64 }")
    assert load(paths).config.servers == before
    profile(paths, "mine", "limits = { pids = 32 }")
    after = load(paths).config.servers
    assert [name for name in after if after[name] != before[name]] == ["a", "c"]


def test_an_own_default_is_the_default_of_all(paths: Paths) -> None:
    write(paths, SERVER % "a")
    profile(paths, "default", "extends = 'default'\nlimits = { pids = 32 }")
    assert load(paths).config.servers["a"].limits.pids == 32


def test_faults_of_profiles_are_those_of_their_files_and_told_once(paths: Paths) -> None:
    write(
        paths,
        SERVER % "a" + "profile = 'mine'\n" + SERVER % "b" + "profile = 'mine'\n" + SERVER % "c" + "profile = 'pyton'",
    )
    profile(paths, "mine", "netwrok = 'none'")
    profile(paths, "unused", "netwrok = 'none'")
    assert faults(paths) == [
        "profiles/mine.toml:2: netwrok: unknown key 'netwrok'; did you mean 'network'?",
        "config.toml:9: servers.c.profile: no profile 'pyton'; did you mean 'python'?",
    ]


def test_what_gives_much_must_be_meant(paths: Paths) -> None:
    write(paths, SERVER % "a" + "profile = 'docker-socket'\n")
    [fault] = faults(paths)
    assert fault.startswith("config.toml:1: servers.a.confirm: the profile 'docker-socket' wants to be meant (")
    write(paths, SERVER % "a" + "profile = 'docker-socket'\nconfirm = 'docker-socket'\n")
    assert load(paths).config.servers["a"].seccomp.unix


def test_profiles_are_watched(paths: Paths) -> None:
    write(paths)
    assert paths.profiles_dir not in watched_directories(paths)
    profile(paths, "mine", "")
    assert paths.profiles_dir in watched_directories(paths)


def test_missing_shipped_profiles_are_a_fault(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise SmcpError("the shipped profiles are missing")

    monkeypatch.setattr(profiles, "profiles_directory", none)
    write(paths, SERVER % "a")
    assert faults(paths) == ["profiles: the shipped profiles are missing"]
