"""What a server is given so that it still works: files and hosts that it names, and nothing it must not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.adoption.needs import Needs, Place, Wanted, needs
from supervisord_mcp.config.models import ServerConfig
from tests.adoption.machine import TOKEN


@pytest.fixture
def home(tmp_path: Path) -> Path:
    found = tmp_path / "home"
    for name in ("notes", ".config/smcp", "site/data"):
        (found / name).mkdir(parents=True)
    for name in ("key.json", "notes/x.sqlite", "server.py", "top.db"):
        (found / name).touch()
    return found


def asked(home: Path, *argv: str, cwd: str | None = None, inside: bool = False, **env: str) -> Needs:
    """Return what a command needs, after a look at whether it makes a valid entry."""
    place = Place(
        str(home), {"PATH": "/usr/bin:/bin", "DATA": str(home / "notes")}, None, (str(home / ".config/smcp"),)
    )
    found = needs(Wanted(argv, env, cwd, inside), place)
    settings = {**found.settings, "env": {**found.settings.get("env", {}), **env}}
    ServerConfig.model_validate({"command": list(argv), "cwd": cwd, **settings})
    return found


def mounts(found: Needs) -> dict[str, str]:
    return {mount["path"]: mount["access"] for mount in found.settings.get("mounts", ())}


@pytest.mark.parametrize(
    ("argv", "settings"),
    [
        (("npx", "-y", "@modelcontextprotocol/server-everything"), {"profile": "node"}),
        (
            ("npx", "-y", "@modelcontextprotocol/server-github@1.2.3"),
            {"profile": "node-net", "network": {"allow": ["api.github.com:443"]}},
        ),
        (("npx", "@playwright/mcp@latest"), {"profile": "browser"}),
        (("uvx", "mcp-server-time"), {"profile": "python"}),
        (("python3", "-m", "mcp_server_fetch"), {"profile": "fetch", "env": {"PATH": "/none"}}),
        (("/opt/x/bin/mcp-server-time",), {"profile": "python"}),
        (("uvx", "mcp-server-git"), {"profile": "git"}),
        (("npx", "some-mcp"), {"profile": "node-net"}),
        (("uvx", "some-mcp"), {"profile": "python-net"}),
        (("/opt/x/some-mcp",), {"network": "internet"}),
        (("docker", "run", "-i", "--rm", "some/mcp"), {"runtime": "bare"}),
    ],
)
def test_by_the_command(home: Path, argv: tuple[str, ...], settings: dict[str, Any]) -> None:
    assert asked(home, *argv).settings == settings


def test_who_is_not_known_is_said_to_be(home: Path) -> None:
    assert "not known" in asked(home, "npx", "some-mcp").remarks[0]
    assert asked(home, "npx", "@modelcontextprotocol/server-everything").remarks == ()


def test_one_that_judges_addresses_itself_is_told_not_to_where_the_daemon_does(home: Path) -> None:
    found = asked(home, "uvx", "mcp-server-fetch")
    assert found.words == ("--allow-private-ips",)
    assert any("--allow-private-ips is added" in remark for remark in found.remarks)
    assert any("PATH is /none" in remark for remark in found.remarks)
    assert asked(home, "uvx", "mcp-server-fetch", "--allow-private-ips").words == ()
    assert asked(home, "uvx", "mcp-server-fetch", PATH="/bin").settings == {"profile": "fetch"}
    # Nobody else refuses them there.
    assert asked(home, "uvx", "mcp-server-fetch", "--proxy-url", "http://localhost:3128").words == ()
    wanted = Wanted(("uvx", "mcp-server-fetch"))
    assert [needs(wanted, Place(str(home)), network).words for network in ("host", "none")] == [(), ()]
    assert needs(wanted, Place(str(home)), "internet").words == ("--allow-private-ips",)


def test_one_that_remembers_in_its_package_gets_a_file_of_its_own(home: Path) -> None:
    argv = ("npx", "-y", "@modelcontextprotocol/server-memory")
    place = Place(str(home), {}, data=str(home / ".local/share/smcp"))
    found = needs(Wanted(argv), place)
    directory = str(home / ".local/share/smcp/server-memory")
    assert found.settings == {
        "profile": "node",
        "mounts": [{"path": directory, "access": "rw"}],
        "env": {"MEMORY_FILE_PATH": f"{directory}/memory.jsonl"},
    }
    assert found.directories == (directory,)
    assert [f"{directory}/memory.jsonl; what it has so far stays" in remark for remark in found.remarks] == [True]
    own = needs(Wanted(argv, {"MEMORY_FILE_PATH": f"{home}/notes/m.json"}), place)
    assert (mounts(own), own.directories, own.remarks) == ({f"{home}/notes": "rw"}, (), ())
    assert needs(Wanted(argv, {"MEMORY_FILE_PATH": "${NOBODY_KNOWS}"}), place).obstacle == ""
    assert "give MEMORY_FILE_PATH a whole path" in needs(Wanted(argv, {"MEMORY_FILE_PATH": "m.json"}), place).obstacle


def test_directories_that_it_names_are_mounted(home: Path) -> None:
    found = asked(home, "npx", "@modelcontextprotocol/server-filesystem", str(home / "notes"), "~/site", "/nowhere")
    assert mounts(found) == {str(home / "notes"): "rw", "~/site": "rw"}
    assert mounts(asked(home, "x", f"--root={home}/notes", "${DATA}")) == {f"{home}/notes": "rw", "${DATA}": "rw"}
    assert mounts(asked(home, "x", str(home / "site"), str(home / "site/data"))) == {str(home / "site"): "rw"}
    assert mounts(asked(home, "x", "/usr/share", "/usr")) == {}


def test_files_that_it_names_are_mounted_with_what_is_beside_a_database(home: Path) -> None:
    assert mounts(asked(home, "x", f"{home}/notes/x.sqlite")) == {f"{home}/notes": "rw"}
    assert mounts(asked(home, "x", f"{home}/notes/new.json")) == {f"{home}/notes": "rw"}
    assert mounts(asked(home, "x", f"{home}/top.db")) == {f"{home}/top.db": "rw"}
    found = asked(home, "x", GOOGLE_APPLICATION_CREDENTIALS=f"{home}/key.json", MEMORY_FILE_PATH=f"{home}/notes/m.json")
    assert mounts(found) == {f"{home}/key.json": "ro", f"{home}/notes": "rw"}


def test_what_the_sandbox_shows_anyway_is_not_mounted(home: Path) -> None:
    assert mounts(asked(home, "python3", f"{home}/server.py")) == {}


def test_git_with_a_repository_of_its_own(home: Path) -> None:
    found = asked(home, "uvx", "mcp-server-git", "--repository", str(home / "site"))
    assert found.settings["profile"] == "python"
    assert mounts(found) == {str(home / "site"): "rw", "~/.gitconfig": "ro"}
    assert found.settings["env"] == {"GIT_CONFIG_GLOBAL": "~/.gitconfig"}


def test_the_project(home: Path) -> None:
    assert mounts(asked(home, "x", "${project}/data")) == {"${project}": "rw"}
    assert mounts(asked(home, "./server.py", inside=True)) == {"${project}": "rw"}
    place = Place(str(home), project=str(home / "site"))
    assert mounts(needs(Wanted(("x", "${project}/data")), place)) == {"${project}": "rw"}


@pytest.mark.parametrize(
    ("command", "works"),
    [
        ("uvx mcp-server-time", False),
        ("npx -y @scope/some-mcp --level info", False),
        ("some-mcp", False),
        ("/opt/x/some-mcp --url https://example.com/a", False),
        ("python3 -m mcp_server_time", False),
        ("python3 -m elsewhere", False),
        ("uvx some-mcp .", True),
        ("uvx some-mcp --root=data", True),
        ("uvx some-mcp --db new.db", True),
        ("some-mcp data/new", True),
        ("some-mcp nowhere/new", False),
        ("node server.js", True),
        ("python3 -m own.server", True),
        ("bin/server", True),
        ("uv run own", True),
        ("npm start", True),
    ],
)
def test_an_entry_of_a_project_gets_it_where_it_works_on_it(home: Path, command: str, works: bool) -> None:
    project = home / "site"
    for name in ("server.js", "own.py"):
        (project / name).touch()
    place = Place(str(home), {"PATH": "/usr/bin:/bin"}, str(project))
    found = needs(Wanted(tuple(command.split()), inside=True), place)
    assert mounts(found) == ({"${project}": "rw"} if works else {})


def test_a_directory_or_a_variable_may_lead_into_the_project(home: Path) -> None:
    place = Place(str(home), {}, str(home / "site"))
    for wanted in (Wanted(("x",), cwd="data", inside=True), Wanted(("x",), {"DATA": "data/x.db"}, inside=True)):
        assert mounts(needs(wanted, place)) == {"${project}": "rw"}
    assert mounts(needs(Wanted(("x",), {"LEVEL": "data"}, inside=True), place)) == {}
    git = needs(Wanted(("uvx", "mcp-server-git"), inside=True), place)
    assert git.settings == {"profile": "git"}


def test_its_directory(home: Path) -> None:
    assert mounts(asked(home, "x", cwd=str(home / "site"))) == {str(home / "site"): "rw"}


@pytest.mark.parametrize("path", ["", "/..", "/.config", "/.config/smcp", "/new.json"])
def test_a_directory_with_everything_or_with_smcp_is_an_obstacle(home: Path, path: str) -> None:
    found = asked(home, "npx", "@modelcontextprotocol/server-filesystem", f"{home}{path}")
    assert "no server may see" in found.obstacle
    assert found.settings == {}


def test_a_link_to_such_a_directory_is_one(home: Path) -> None:
    link = home / "notes/all"
    link.symlink_to(home)
    assert asked(home, "x", str(link)).obstacle


def test_a_dangerous_mount_is_told(home: Path) -> None:
    (home / ".kube").mkdir()
    (home / ".kube/config").touch()
    found = asked(home, "x", KUBECONFIG="~/.kube/config")
    assert mounts(found) == {"~/.kube/config": "ro"}
    assert any("keys, passwords" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("word", "network"),
    [
        ("http://localhost:11434", "host"),
        ("127.0.0.1:8080", "host"),
        ("postgres://u@10.1.2.3/x", {"allow": ["internet", "10.1.2.3:5432"], "private": True}),
        ("https://wiki.corp/x", {"allow": ["internet", "wiki.corp:443"], "private": True}),
        ("https://api.example.com", "internet"),
        ("https://[broken", "internet"),
    ],
)
def test_addresses_that_it_names(home: Path, word: str, network: Any) -> None:
    assert asked(home, "some-mcp", URL=word).settings["network"] == network
    if network == "host":
        assert any("nothing is held back" in remark for remark in asked(home, "some-mcp", word).remarks)


def test_a_known_server_reaches_also_the_addresses_that_it_is_given(home: Path) -> None:
    found = asked(home, "npx", "@modelcontextprotocol/server-github", GITHUB_API="https://git.example.com/api")
    assert found.settings["network"] == {"allow": ["api.github.com:443", "git.example.com:443"]}
    found = asked(home, "npx", "@modelcontextprotocol/server-everything", "https://git.example.com:8443/api")
    assert found.settings["network"] == {"allow": ["git.example.com:8443"]}


def test_nothing_of_a_secret_is_in_what_is_said(home: Path) -> None:
    found = asked(home, "some-mcp", "--token", TOKEN, URL=f"https://{TOKEN}@localhost/")
    assert TOKEN not in str(found.remarks) + str(found.settings)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-it", "x"), "--tty: a terminal turns the ends of lines"),
        (("-d", "x"), "--detach: a container in the background"),
        (("--privileged", "x"), "--privileged: it is no container any more"),
        (("--network=host", "x"), 'if it is meant, add it by hand with permit = ["host-network"]'),
        (("-v", "/var/run/docker.sock:/var/run/docker.sock", "x"), 'permit = ["engine-socket"]'),
        (("--cap-add", "SYS_ADMIN", "x"), 'permit = ["cap:SYS_ADMIN"]'),
    ],
)
def test_a_container_that_is_open_is_not_taken_over_unseen(home: Path, words: tuple[str, ...], told: str) -> None:
    argv = ("docker", "run", "-i", "--rm", *words)
    assert told in needs(Wanted(argv), Place(str(home))).obstacle
