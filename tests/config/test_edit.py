"""Edits of files that a person owns: all or nothing, one at a time, and only what was asked for."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from supervisord_mcp.config import edit as module
from supervisord_mcp.config.edit import add_server, grant_secrets, register_wrapped, remove_server
from supervisord_mcp.config.files import locked
from supervisord_mcp.config.load import load
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import ConfigError, SmcpError, UnknownServerError, UsageError
from tests.config.places import paths_in, problems, write

SERVER = '# about %s\n[servers.%s]\ncommand = "x" # why\n\n'


def server(name: str) -> str:
    return SERVER % (name, name)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return paths_in(tmp_path)


def test_the_first_server_makes_a_private_file(paths: Paths) -> None:
    assert add_server(paths, "a", {"command": ["npx", "a"]}) == paths.config_file
    assert paths.config_file.read_text() == '[servers.a]\ncommand = ["npx", "a"]\n'
    assert stat.S_IMODE(paths.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(paths.config_dir.stat().st_mode) == 0o700


def test_grants_go_where_the_server_is_defined(paths: Paths) -> None:
    write(paths, server("a"), b=server("b"))
    assert grant_secrets(paths, "b", {"TOKEN": "vault:x"}) == paths.conf_dir / "b.toml"
    assert (paths.conf_dir / "b.toml").read_text() == (
        '# about b\n[servers.b]\ncommand = "x" # why\ncredentials = {TOKEN = "vault:x"}\n\n'
    )
    assert load(paths).config.servers["b"].credentials == {"TOKEN": "vault:x"}
    with pytest.raises(UnknownServerError, match="no server 'c'"):
        grant_secrets(paths, "c", {"TOKEN": "vault:x"})
    before = (paths.conf_dir / "b.toml").read_bytes()
    [problem] = problems(paths, lambda: grant_secrets(paths, "b", {"TOKEN": "a secret"}))
    assert problem.startswith("conf.d/b.toml: servers.b.credentials.TOKEN: names no source")
    assert "a secret" not in problem.replace("a secret itself", "")
    assert (paths.conf_dir / "b.toml").read_bytes() == before


def test_add_replace_and_remove(paths: Paths) -> None:
    write(paths, server("a"), b=server("b"))
    assert add_server(paths, "c", {"command": "y"}) == paths.config_file
    assert paths.config_file.read_text() == server("a") + '[servers.c]\ncommand = "y"\n'
    assert add_server(paths, "b", {"command": "y", "cwd": "/"}, replace=True) == paths.conf_dir / "b.toml"
    assert (paths.conf_dir / "b.toml").read_text() == '# about b\n[servers.b]\ncommand = "y" # why\ncwd = "/"\n\n'
    assert remove_server(paths, "a") == paths.config_file
    assert paths.config_file.read_text() == '[servers.c]\ncommand = "y"\n'
    assert list(load(paths).config.servers) == ["c", "b"]


def test_a_taken_name_is_refused(paths: Paths) -> None:
    write(paths, b="\n" + server("b"))
    with pytest.raises(UsageError, match=r"'b' is already defined at .*conf\.d/b\.toml:3\n.*smcp add --replace"):
        add_server(paths, "b", {"command": "y"})
    assert not paths.config_file.exists()


def test_replace_adds_what_is_not_there(paths: Paths) -> None:
    assert add_server(paths, "a", {"command": "y"}, replace=True) == paths.config_file
    assert load(paths).config.servers["a"].command == ("y",)


def test_an_unknown_server_is_not_removed(paths: Paths) -> None:
    with pytest.raises(UnknownServerError, match="the servers are: none"):
        remove_server(paths, "x")
    write(paths, server("github"), b=server("time"))
    with pytest.raises(UnknownServerError, match="did you mean 'github'"):
        remove_server(paths, "git-hub")
    write(paths, server("github"), c="not toml")
    for change in (remove_server, partial(grant_secrets, changes={"T": "vault:t"})):
        with pytest.raises(ConfigError, match=r"c\.toml:1: "):
            change(paths, "x")
    (paths.conf_dir / "c.toml").unlink()
    with pytest.raises(UnknownServerError, match="the servers are: github, time"):
        remove_server(paths, "x")


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (lambda paths: add_server(paths, "n", {"comand": "x"}), "unknown key 'comand'; did you mean 'command'?"),
        (lambda paths: add_server(paths, "a b", {"command": "x"}), "the name of a server has"),
        (lambda paths: add_server(paths, "a", {}, replace=True), "the key 'command' is required"),
        (lambda paths: add_server(paths, "n", {"command": "\udcff"}), "a word is not valid UTF-8"),
    ],
)
def test_a_change_that_would_break_the_configuration_changes_nothing(
    paths: Paths, action: Callable[[Paths], object], problem: str
) -> None:
    write(paths, server("a"))
    [only] = problems(paths, lambda: action(paths))
    assert problem in only
    assert paths.config_file.read_text() == server("a")
    assert sorted(os.listdir(paths.config_dir)) == ["conf.d", "config.toml"]


def test_nothing_is_added_to_a_broken_configuration(paths: Paths) -> None:
    write(paths, server("a"), b="[servers.b]\n")
    assert problems(paths, lambda: add_server(paths, "n", {"command": "x"})) == [
        "conf.d/b.toml:1: servers.b: the key 'command' is required, or 'image' or 'package' in its place"
    ]
    write(paths, "[servers", b="")
    assert problems(paths, lambda: add_server(paths, "n", {"command": "x"}))[0].startswith("config.toml:1: not valid")
    write(paths, "servers = 5")
    assert problems(paths, lambda: add_server(paths, "n", {"command": "x"})) == [
        "config.toml: servers.n: 'servers' is not a table"
    ]


def test_places_are_those_of_the_file_as_it_is(paths: Paths) -> None:
    faulty = "[servers.z]\ncomand = 'x'\n"
    write(paths, server("a") + faulty)
    fault = "config.toml:6: servers.z.comand: unknown key 'comand'; did you mean 'command'?"
    assert problems(paths, lambda: remove_server(paths, "a")) == [fault]
    assert problems(paths, lambda: add_server(paths, "n", {"command": "x", "scope": "none"})) == [
        fault,
        'config.toml: servers.n.scope: must be "auto" or "global" or "project" or "session"',
    ]
    assert paths.config_file.read_text() == server("a") + faulty


def test_a_place_where_nobody_may_write_is_named(paths: Paths) -> None:
    nowhere = paths_in(Path("/proc/1/nowhere"))
    with pytest.raises(SmcpError, match=r"cannot be edited: /proc/1/nowhere/.*nothing was changed") as raised:
        add_server(nowhere, "a", {"command": "x"})
    assert "read-only" in raised.value.remedy


def test_a_broken_server_can_be_removed_and_replaced(paths: Paths) -> None:
    write(paths, "[servers.b]\ncomand = 'x'\n" + server("a"))
    add_server(paths, "b", {"command": "y"}, replace=True)
    assert load(paths).config.servers["b"].command == ("y",)
    write(paths, "[servers.b]\ncomand = 'x'\n" + server("a"))
    remove_server(paths, "b")
    assert paths.config_file.read_text() == server("a")


def test_byte_order_mark_and_line_ends_stay(paths: Paths) -> None:
    content = b"\xef\xbb\xbf" + server("a").replace("\n", "\r\n").encode()
    write(paths, content)
    add_server(paths, "n", {"command": "y"})
    assert paths.config_file.read_bytes() == content + b'[servers.n]\r\ncommand = "y"\r\n'
    remove_server(paths, "n")
    assert paths.config_file.read_bytes().rstrip() == content.rstrip()


def test_a_link_stays_a_link(paths: Paths, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text(server("a"))
    target.chmod(0o644)
    paths.config_dir.mkdir()
    paths.config_file.symlink_to(target)
    add_server(paths, "n", {"command": "y"})
    assert paths.config_file.is_symlink()
    assert "servers.n" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_nothing_is_written_when_nothing_changes(paths: Paths) -> None:
    write(paths, server("a"))
    before = paths.config_file.stat()
    add_server(paths, "a", {"command": "x"}, replace=True)
    assert paths.config_file.stat().st_ino == before.st_ino


def test_what_a_person_saves_meanwhile_is_kept(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    write(paths, server("a"))

    def save(*arguments: object) -> object:
        if "servers.b" not in paths.config_file.read_text():
            write(paths, server("a") + server("b"))
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "load", save)
    add_server(paths, "n", {"command": "y"})
    assert list(load(paths).config.servers) == ["a", "b", "n"]


def test_a_file_that_never_rests_is_left_alone(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    write(paths, server("a"))

    def save(*arguments: object) -> object:
        paths.config_file.write_text(paths.config_file.read_text() + "#")
        return load(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "load", save)
    with pytest.raises(SmcpError, match="changes all the time"):
        add_server(paths, "n", {"command": "y"})
    assert "servers.n" not in paths.config_file.read_text()


def test_a_file_that_cannot_be_written(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write(paths, server("a"))
    monkeypatch.setattr(module, "replace_file", full)
    with pytest.raises(SmcpError, match=r"cannot write .*: No space left on device; it stays as it was"):
        add_server(paths, "n", {"command": "y"})


def test_a_file_that_cannot_be_read(paths: Paths) -> None:
    paths.config_dir.mkdir()
    paths.config_file.mkdir()
    assert problems(paths, lambda: add_server(paths, "n", {"command": "y"})) == [
        "config.toml: cannot be read: not a regular file"
    ]


def test_edits_wait_for_each_other(paths: Paths) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: add_server(paths, f"s{n}", {"command": f"c{n}"}), range(16)))
    assert sorted(load(paths).config.servers) == sorted(f"s{n}" for n in range(16))


def test_an_edit_does_not_wait_forever(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "locked", lambda path: locked(path, wait=0))
    with locked(paths.edit_lock), pytest.raises(SmcpError, match="has been editing"):
        add_server(paths, "n", {"command": "y"})


class TestWrapped:
    """Commands that hosts wrap."""

    def test_a_command_is_registered_once(self, paths: Paths) -> None:
        command = ["npx", "-y", "@modelcontextprotocol/server-github", "$X ~", "~"]
        assert register_wrapped(paths, command, {"network": "host"}) == "github"
        before = paths.wrapped_file.stat().st_ino
        assert register_wrapped(paths, command) == "github"
        assert paths.wrapped_file.stat().st_ino == before
        entry = load(paths).config.servers["github"]
        assert entry.command == ("npx", "-y", "@modelcontextprotocol/server-github", "$$X ~", "$~")
        assert entry.network == "host"
        assert paths.wrapped_file.read_text().startswith("# Servers that `smcp wrap` registered.")

    def test_another_command_of_the_name_gets_a_number(self, paths: Paths) -> None:
        write(paths, server("git"))
        names = [register_wrapped(paths, ["uvx", "mcp-server-git", str(n)]) for n in (1, 2, 1, 3)]
        assert names == ["git-2", "git-3", "git-2", "git-4"]

    def test_what_a_person_changed_stays(self, paths: Paths) -> None:
        register_wrapped(paths, ["uvx", "foo"])
        text = paths.wrapped_file.read_text().replace("servers.foo", "servers.mine") + 'network = "host" # mine\n'
        paths.wrapped_file.write_text(text)
        assert register_wrapped(paths, ["uvx", "foo"], {"network": "none"}) == "mine"
        assert paths.wrapped_file.read_text() == text

    def test_more_variables_are_inherited(self, paths: Paths) -> None:
        register_wrapped(paths, ["uvx", "foo"], {"inherit": ["A"]})
        assert register_wrapped(paths, ["uvx", "foo"], {"inherit": ["B", "A"]}) == "foo"
        assert register_wrapped(paths, ["uvx", "foo"]) == "foo"
        assert load(paths).config.servers["foo"].inherit == ("A", "B")

    def test_a_server_that_was_moved_is_found(self, paths: Paths) -> None:
        write(paths, '[servers.foo]\ncommand = "uvx foo"\nnetwork = "host"\n')
        assert register_wrapped(paths, ["uvx", "foo"]) == "foo"
        assert not paths.wrapped_file.exists()

    @pytest.mark.parametrize(
        "entry",
        [
            "[servers.work]\n",
            "[servers.foo]\nenv = { TOKEN = 'x' }\n",
            "[servers.foo]\ncredentials = { TOKEN = 'vault:x' }\n",
        ],
    )
    def test_credentials_of_another_server_are_not_used(self, paths: Paths, entry: str) -> None:
        write(paths, entry + 'command = "uvx foo"\n')
        assert register_wrapped(paths, ["uvx", "foo"]) in ("foo", "foo-2")
        assert paths.wrapped_file.exists()

    def test_a_host_that_came_second_finds_what_the_first_registered(
        self, paths: Paths, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        @contextmanager
        def slow(path: Path) -> Iterator[None]:
            monkeypatch.undo()
            register_wrapped(paths, ["uvx", "foo"])
            with locked(path):
                yield

        monkeypatch.setattr(module, "locked", slow)
        assert register_wrapped(paths, ["uvx", "foo"]) == "foo"
        assert list(load(paths).config.servers) == ["foo"]

    def test_no_command_is_no_server(self, paths: Paths) -> None:
        with pytest.raises(UsageError, match="no command to wrap"):
            register_wrapped(paths, [])

    def test_a_broken_configuration_is_reported(self, paths: Paths) -> None:
        write(paths, "[servers.a]\n")
        assert problems(paths, lambda: register_wrapped(paths, ["x"])) == [
            "config.toml:1: servers.a: the key 'command' is required, or 'image' or 'package' in its place"
        ]

    def test_hosts_may_wrap_at_the_same_time(self, paths: Paths, tmp_path: Path) -> None:
        code = (
            "import sys\n"
            "from pathlib import Path\n"
            "from supervisord_mcp.config.edit import register_wrapped\n"
            "from tests.config.places import paths_in\n"
            "sys.stdin.readline()\n"
            "for n in sys.argv[2:]:\n"
            "    print(register_wrapped(paths_in(Path(sys.argv[1])), ['uvx', 'foo', n]))\n"
        )
        hosts = [
            subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path), *order],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=Path(__file__).parents[2],
            )
            for order in ("123", "321", "213")
        ]
        outputs = [host.communicate("go\n", timeout=60)[0].split() for host in hosts]
        assert sorted(load(paths).config.servers) == ["foo", "foo-2", "foo-3"]
        by_command = [
            dict(zip(order, names, strict=True)) for order, names in zip(("123", "321", "213"), outputs, strict=True)
        ]
        assert by_command[0] == by_command[1] == by_command[2]
        assert sorted(by_command[0].values()) == ["foo", "foo-2", "foo-3"]
