"""Case 40: the environment of a server: the documented base and its entry, whatever the daemon and its hosts have.

What the language of variables makes of each form is tried in `tests/config/test_variables.py`, where a command is found
in `tests/runtimes/test_search.py`; here are the children themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.errors import ConfigError, LaunchError
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launch, Launcher, make_runtimes
from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT
from tests.kit.required import need
from tests.runtimes.conformance import ended, read

pytestmark = pytest.mark.usefixtures("subreaper")

RUNTIMES = (
    pytest.param("bare"),
    pytest.param("bwrap", marks=pytest.mark.bwrap),
    pytest.param("landlock"),
)
BASE = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR"}
#: What finds the processes of a tree again, and what a shell or bubblewrap adds before the server runs.
OURS = {"SMCP_INSTANCE", "PWD"}
#: What must not get through by itself: it steers a service, or what any program loads and does.
DANGEROUS = {
    "LISTEN_FDS": "1",
    "LISTEN_PID": "1",
    "LISTEN_FDNAMES": "x",
    "NOTIFY_SOCKET": "/run/n",
    "INVOCATION_ID": "1",
    "SMCP_HOME": "/somewhere",
    "SMCP_RESUME": "token",
    "LD_PRELOAD": "/lib/x.so",
    "LD_LIBRARY_PATH": "/lib/x",
    "PYTHONPATH": "/x",
    "PYTHONSTARTUP": "/x.py",
    "NODE_OPTIONS": "--require x",
    "BASH_ENV": "/x",
    "ENV": "/x",
    "GIT_SSH_COMMAND": "x",
    "JAVA_TOOL_OPTIONS": "x",
    "PERL5OPT": "x",
    "SSH_AUTH_SOCK": "/x",
    "DISPLAY": ":0",
    "DBUS_SESSION_BUS_ADDRESS": "unix:path=/x",
    "XDG_RUNTIME_DIR": "/run/user/1",
    "JOURNAL_STREAM": "8:1",
}
SECRETS = {f"SECRET_{number}": f"s3cret-value-{number}" for number in range(20)}
SYSTEMD = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "de_DE.UTF-8", "MANAGERPID": "1"}
DAEMONS: Mapping[str, Mapping[str, str]] = {
    "empty": {},
    "systemd": {**SYSTEMD, **DANGEROUS},
    "shell": {
        "PATH": "~/.nvm/versions/node/v20.1.0/bin:/usr/bin:/bin",
        "NVM_DIR": "~/.nvm",
        "TERM": "xterm",
        "PS1": "$",
        "LANG": "en_US.UTF-8",
        "LC_TIME": "C",
        "TZ": "Asia/Tokyo",
        "TMPDIR": "/var/tmp",
        **DANGEROUS,
        **SECRETS,
    },
}


class World:
    """A machine with two versions of Node, and a daemon with some environment."""

    def __init__(self, folder: Path, daemon: Mapping[str, str], runtime: str) -> None:
        self.home, self.runtime = folder / "home", runtime
        for version in ("v18.2.0", "v20.1.0"):
            program = self.home / f".nvm/versions/node/{version}/bin/mcp-node"
            program.parent.mkdir(parents=True)
            program.write_text("#!/bin/sh\nexec /usr/bin/env -0\n")
            program.chmod(0o755)
        environ = {name: value.replace("~", str(self.home)) for name, value in daemon.items()}
        paths = find_paths({"SMCP_HOME": str(folder / "smcp")}, os.getuid())
        runtimes = make_runtimes(paths.private_dir, uids=range(60706, 60716))
        self.launcher = Launcher(paths, {"HOME": str(self.home), **environ}, f"t-{folder}/", (), runtimes)

    def resolve(self, host: Mapping[str, str] | None = None, **entry: Any) -> Launch:
        config = ServerConfig.model_validate({"command": ["/usr/bin/env", "-0"], "runtime": self.runtime, **entry})
        return self.launcher.resolve("s", config, Facts("s", environ=host or {}))

    async def environment(self, host: Mapping[str, str] | None = None, **entry: Any) -> dict[str, str]:
        """Return the environment that a child really has."""
        launch = self.resolve(host, **entry)
        need(not launch.runtime.check(), f"what {self.runtime} needs")
        child = await launch.start(lambda: None, lambda _: None)
        try:
            told = await read(child.stdout)
            assert (await ended(child)).success
        finally:
            await child.aclose()
        pairs = dict(text.decode().partition("=")[::2] for text in told.split(b"\0") if text)
        assert pairs.keys() >= {"SMCP_INSTANCE"}
        return {name: value for name, value in pairs.items() if name not in OURS}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("daemon", DAEMONS)
@bounded(60)
async def test_the_base_is_the_same_for_every_runtime(runtime: str, daemon: str, tmp_path: Path) -> None:
    world = World(tmp_path, DAEMONS[daemon], runtime)
    found = await world.environment(DANGEROUS | SECRETS | {"PATH": "/of/the/host", "LANG": "tlh"})
    more = {"LC_TIME": "C", "TZ": "Asia/Tokyo"} if daemon == "shell" else {}
    assert found.keys() == BASE | more.keys()
    assert found == {**found, **more, "LANG": DAEMONS[daemon].get("LANG", "C.UTF-8")}
    assert found["PATH"].startswith("/usr/bin:")
    assert "/of/the/host" not in found["PATH"]
    if runtime == "bare":
        assert found["HOME"] == str(world.home)
        assert found["TMPDIR"] == DAEMONS[daemon].get("TMPDIR", "/tmp")
    else:
        assert found["USER"] == found["LOGNAME"] == "mcp"
        assert not found["HOME"].startswith(str(world.home))


NAMED: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (
    ("a value", {"env": {"A": "b"}}, {"A": "b"}),
    ("an empty value", {"env": {"A": ""}}, {"A": ""}),
    ("of the host", {"env": {"A": "${ONLY_HOST}"}}, {"A": "host"}),
    ("of the daemon", {"env": {"A": "x${SECRET_1}"}}, {"A": "xs3cret-value-1"}),
    ("of both", {"env": {"A": "${BOTH}"}}, {"A": "host"}),
    ("empty with the host", {"env": {"A": "${EMPTY:-default}"}}, {"A": ""}),
    ("a default", {"env": {"A": "${UNSET:-default}"}}, {"A": "default"}),
    ("a default in a default", {"env": {"A": "${UNSET:-${UNSET2:-${BOTH}}}"}}, {"A": "host"}),
    ("a dollar sign", {"env": {"A": "$$HOME"}}, {"A": "$HOME"}),
    ("the home directory", {"env": {"A": "~/x"}}, {"A": "{home}/x"}),
    ("passed on", {"inherit": ["ONLY_HOST", "SECRET_1", "UNSET"]}, {"ONLY_HOST": "host", "SECRET_1": "s3cret-value-1"}),
    ("over the base", {"env": {"LANG": "C", "PATH": "/usr/bin"}}, {"LANG": "C", "PATH": "/usr/bin"}),
    (
        "dangerous, but named",
        {"inherit": ["NODE_OPTIONS", "LISTEN_FDS", "PYTHONPATH", "SMCP_HOME"], "env": {"LD_LIBRARY_PATH": "/lib/y"}},
        {
            **{name: DANGEROUS[name] for name in ("NODE_OPTIONS", "LISTEN_FDS", "PYTHONPATH", "SMCP_HOME")},
            "LD_LIBRARY_PATH": "/lib/y",
        },
    ),
)


@pytest.mark.parametrize("runtime", RUNTIMES)
@bounded(120)
async def test_what_is_named_comes_on_top(runtime: str, tmp_path: Path) -> None:
    world = World(tmp_path, {**DAEMONS["shell"], "BOTH": "daemon", "EMPTY": "daemon"}, runtime)
    host = {"ONLY_HOST": "host", "BOTH": "host", "EMPTY": ""}
    for case, entry, expected in NAMED:
        found = await world.environment(host, **entry)
        wanted = {name: value.replace("{home}", str(world.home)) for name, value in expected.items()}
        assert {name: found.get(name) for name in wanted} == wanted, case
        assert found.keys() == BASE | {"LC_TIME", "TZ"} | wanted.keys(), case


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"command": ["sh", "${UNSET}"]}, "servers.s.command[1]"),
        ({"args": ["${UNSET}"]}, "servers.s.args[0]"),
        ({"env": {"A": "${UNSET}"}}, "servers.s.env.A"),
        ({"cwd": "/x/${UNSET}"}, "servers.s.cwd"),
    ],
)
def test_what_stands_for_nothing_is_an_error_and_no_text(
    runtime: str, entry: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"\$\{UNSET\} is not set") as raised:
        World(tmp_path, DAEMONS["shell"], runtime).resolve(**entry)
    assert [problem.key for problem in raised.value.problems] == [key]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_values_of_hosts_are_part_of_the_instance_where_they_are_named(runtime: str, tmp_path: Path) -> None:
    world = World(tmp_path, DAEMONS["shell"], runtime)
    for entry in ({"env": {"A": "${OF_HOST}"}}, {"inherit": ["OF_HOST"]}, {"args": ["${OF_HOST}"]}):
        one, other, same = (
            world.resolve({"OF_HOST": value, "ELSE": more}, **entry)
            for value, more in (("1", "1"), ("2", "1"), ("1", "2"))
        )
        assert one.digest != other.digest, entry
        assert one.digest == same.digest, entry


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("daemon", DAEMONS)
@bounded(60)
async def test_the_command_is_the_one_of_a_login_shell(runtime: str, daemon: str, tmp_path: Path) -> None:
    world = World(tmp_path, DAEMONS[daemon], runtime)
    found = await world.environment(command=["mcp-node"])
    # What a script runs by `env` is found beside it.
    assert found["PATH"].startswith(f"{world.home}/.nvm/versions/node/v20.1.0/bin:")
    with pytest.raises(LaunchError, match=r"mcp-nowhere \(searched in .*/usr/bin"):
        world.resolve(command=["mcp-nowhere"]).prepared()


def test_the_base_is_documented() -> None:
    text = (ROOT / "README.md").read_text()
    for name in (*BASE, "TZ", "LANGUAGE", "LC_*", "SMCP_INSTANCE"):
        assert f"`{name}`" in text, name
