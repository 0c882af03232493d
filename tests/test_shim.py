"""The shim against a fake daemon: handing over, waiting as a shell, coming back, pumping, and what a person is told."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp import shim
from supervisord_mcp.protocol.hello import MAX_HELLO, parse_hello
from tests.kit import probe
from tests.kit.fdaemon import PATIENCE, Installation

INITIALIZE = b'{"jsonrpc":"2.0","id":"a\\u00e9","method":"initialize","params":{}}\n'
UID = os.getuid()


@pytest.fixture
def place() -> Iterator[Installation]:
    with probe.LeakGuard(), Installation() as installation:
        yield installation


def echo(process: subprocess.Popen[bytes], line: bytes) -> None:
    """Send one line and expect it back."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    assert process.stdout.readline() == line


def end(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    """Close stdin as a host does; return the exit status and what was on stderr."""
    _, err = process.communicate(timeout=PATIENCE)
    return process.returncode, err


def shell(process: subprocess.Popen[bytes]) -> probe.Process:
    """Return what the shim became, once it did."""
    limit = time.monotonic() + PATIENCE
    while (found := probe.look(process.pid)) is None or not found.cmdline.startswith("sh "):
        assert time.monotonic() < limit, found
        time.sleep(0.005)
    return found


# Handing over


def test_a_session_from_the_first_line_to_the_end_of_the_host(place: Installation) -> None:
    host = place.host("echo")
    echo(host, b"one\n")
    echo(host, b"x" * 100_000 + b"\n")
    assert end(host) == (0, b"")
    greeting = place.events("greeting")[0]
    assert (greeting["server"], greeting["cwd"], greeting["resume"]) == ("echo", str(place.work), None)


def test_the_shell_that_waits_holds_nothing_but_the_session(place: Installation) -> None:
    extra = os.open("/dev/null", os.O_RDONLY)
    host = place.host("echo", pass_fds=(extra,))
    os.close(extra)
    echo(host, b"one\n")
    found = shell(host)
    echo(host, b"two\n")
    # The shell keeps a copy of its stdin while it reads from another descriptor. Its loader may still have a library
    # open when the name has changed.
    limit = time.monotonic() + PATIENCE
    while not (held := set(probe.fd_table(host.pid))) <= {0, 1, 2, 3, 10}:
        assert time.monotonic() < limit, held
        time.sleep(0.005)
    assert found.fds[3].startswith("socket:")
    assert end(host) == (0, b"")


def test_the_token_of_a_session_is_not_in_an_argument(place: Installation) -> None:
    host = place.host("echo")
    echo(host, b"one\n")
    shell(host)
    token = Path(f"/proc/{host.pid}/environ").read_bytes().partition(b"SMCP_RESUME=")[2].split(b" ")[0]
    assert len(token) > 16
    assert token not in Path(f"/proc/{host.pid}/cmdline").read_bytes()
    end(host)


def test_a_verdict_with_a_text_of_several_lines(place: Installation) -> None:
    done = place.run("verdict")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"", b"it stopped\nlast words\n")


def test_a_host_on_a_socket_pair_is_served_too(place: Installation) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        host = place.host("echo", stdin=theirs.fileno(), stdout=theirs.fileno())
        theirs.close()
        ours.settimeout(PATIENCE)
        ours.sendall(b"one\n")
        assert ours.recv(100) == b"one\n"
        ours.shutdown(socket.SHUT_WR)
        assert host.wait(PATIENCE) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_ends_the_session(place: Installation, number: signal.Signals) -> None:
    hostile = {signal.SIGTERM, signal.SIGINT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, hostile)
    try:  # a host that blocks signals passes that on
        host = place.host("echo")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    echo(host, b"one\n")
    shell(host)
    host.send_signal(number)
    assert host.wait(PATIENCE) == -number
    place.wait_for("gone")
    assert probe.alive(place.daemon())


def test_a_host_without_standard_descriptors(place: Installation) -> None:
    command = ["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *place.command("echo")]
    assert subprocess.run(command, env=place.environ(), cwd=place.work, timeout=PATIENCE, check=False).returncode == 0


# Coming back


def test_a_killed_daemon_costs_the_host_nothing(place: Installation) -> None:
    host = place.host("echo")
    echo(host, b"one\n")
    shell(host)
    for number in range(3):
        os.kill(place.daemon(), signal.SIGKILL)
        echo(host, b"again %d\n" % number)
    assert end(host) == (0, b"")
    resumed = [event["resume"] for event in place.events("greeting")]
    assert resumed[0] is None
    assert len(set(resumed[1:])) == 1
    assert len(place.events("started")) == 4


def test_ten_sessions_come_back_to_one_daemon(place: Installation) -> None:
    hosts = [place.host("echo") for _ in range(10)]
    for host in hosts:
        echo(host, b"one\n")
        shell(host)
    assert len(place.events("launched")) == 1
    os.kill(place.daemon(), signal.SIGKILL)
    for host in hosts:
        echo(host, b"two\n")
    assert len(place.events("launched")) == 2
    for host in hosts:
        assert end(host) == (0, b"")


def test_a_daemon_that_ends_orderly_is_not_brought_back(place: Installation) -> None:
    host = place.host("echo")
    echo(host, b"one\n")
    shell(host)
    os.kill(place.daemon(), signal.SIGTERM)
    assert host.wait(PATIENCE) == 0
    place.wait_for("ended")
    assert len(place.events("launched")) == 1


def test_a_daemon_that_leaves_while_a_shim_connects(place: Installation) -> None:
    assert place.run("echo", env=place.environ({"leavings": 1})).returncode == 0
    host = place.host("leaving")
    echo(host, b"one\n")
    assert end(host) == (0, b"")
    assert len(place.events("started")) == 2


def test_a_session_that_kills_every_daemon_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMCP_RESUME", f"token 20 {int(time.monotonic())}")
    session = shim.Session(["name"])
    with pytest.raises(shim.ShimError, match="died 21 times within 60 s"):
        session.count_death()
    monkeypatch.setenv("SMCP_RESUME", f"token 20 {int(time.monotonic()) - 100}")
    session = shim.Session(["name"])
    session.count_death()
    assert (session.token, session.deaths) == ("token", 1)


# Signals and descriptors of the daemon that a shim starts (case 18)


def test_the_caller_of_a_shim_does_not_wait_for_the_daemon(place: Installation) -> None:
    done = subprocess.run(
        place.command("echo"), input=b"", capture_output=True, env=place.environ(), timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert probe.alive(place.daemon())


def test_signals_to_the_group_of_host_and_shim(place: Installation) -> None:
    host = place.host("echo", start_new_session=True)
    echo(host, b"one\n")
    shell(host)
    for number in (signal.SIGINT, signal.SIGHUP):
        os.killpg(host.pid, number)
    host.wait(PATIENCE)
    place.wait_for("gone")
    other = place.host("echo")
    echo(other, b"one\n")
    assert end(other) == (0, b"")
    assert len(place.events("launched")) == 1


# What a person is told


def answer(line: bytes) -> tuple[str, int, str]:
    """Return id, code and message of an error."""
    said = json.loads(line)
    return said["id"], said["error"]["code"], said["error"]["message"]


def test_a_refusal_reaches_the_host_and_stderr(place: Installation) -> None:
    done = place.run("refused", data=INITIALIZE)
    text = "smcp: no server 'refused' is configured\nadd it with: smcp add"
    assert done.returncode == 4
    assert answer(done.stdout) == ("aé", -32603, text)
    assert done.stderr.decode() == f"{text}\n"


def test_a_daemon_that_cannot_start(place: Installation) -> None:
    env = place.environ({"fail": "config.toml:3: servers.x: unknown key"})
    done = place.run("echo", data=INITIALIZE, env=env)
    assert done.returncode == 3
    _, code, text = answer(done.stdout)
    assert code == -32603
    assert text.startswith("smcp: the daemon cannot start:\n  config.toml:3: servers.x: unknown key")
    assert str(place.log) in text
    assert len(place.events("launched")) == 1


def test_a_daemon_that_does_not_answer(place: Installation) -> None:
    place.run("echo")
    host = place.changed("silent", "_PATIENCE = 0.3")
    assert host.stdin is not None
    assert host.stdout is not None
    host.stdin.write(INITIALIZE)
    host.stdin.close()
    # Not to the end of its stdout, which the silent daemon has got.
    assert f"the daemon with pid {place.daemon()} is alive but does not answer" in answer(host.stdout.readline())[2]
    assert host.wait(PATIENCE) == 3


def test_wrong_words(place: Installation) -> None:
    for words in ([], ["a", "b"], ["--no-such"], ["a", "--project"], ["a", "--project="]):
        done = place.run(*words, data=INITIALIZE)
        assert done.returncode == 2
        assert done.stderr.startswith(b"smcp: usage: smcp connect")
    done = place.run("a", "--project", "nowhere", data=INITIALIZE)
    assert done.returncode == 2
    assert "nowhere is not a directory" in answer(done.stdout)[2]
    assert place.events() == []


BLOCK_UNIX = """
import ctypes, os, platform, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
call = {"x86_64": 41, "aarch64": 198}[platform.machine()]
code = [(0x20, 0, 0, 0), (0x15, 0, 3, call), (0x20, 0, 0, 16), (0x15, 0, 1, 1)]  # socket(AF_UNIX, ...
code += [(0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7FFF0000)]  # ... gives EPERM, all else is allowed
program = b"".join(struct.pack("HBBI", *line) for line in code)
buffer = ctypes.create_string_buffer(program)
fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(buffer))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, fprog, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_host_whose_own_sandbox_forbids_unix_sockets(place: Installation) -> None:
    place.runtime.mkdir(parents=True)
    command = [sys.executable, "-I", "-S", "-c", BLOCK_UNIX, *place.command("echo")]
    done = subprocess.run(
        command, input=INITIALIZE, capture_output=True, env=place.environ(), timeout=PATIENCE, check=False
    )
    assert done.returncode == 3
    assert "is blocked by the host's sandbox (Operation not permitted)" in answer(done.stdout)[2]
    assert done.stderr.decode().startswith("smcp: the socket ")
    assert place.events() == []


def test_a_runtime_directory_of_somebody_else(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(shim.ShimError, match="is not a directory of uid"):
        shim.connect(str(tmp_path / "link"), UID)
    with pytest.raises(shim.ShimError, match=f"is not a directory of uid {UID + 1}, but of uid {UID}"):
        shim.connect(str(target), UID + 1)
    assert shim.connect(str(tmp_path / "nothing"), UID) is None


def test_a_path_that_is_too_long(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    with pytest.raises(shim.ShimError, match="the limit is 107 bytes"):
        shim.connect(str(long), UID)


# Pumping


def test_files_are_pumped(place: Installation, tmp_path: Path) -> None:
    data = b"".join(b'{"n":%d}\n' % number for number in range(100_000))
    (tmp_path / "in").write_bytes(data)
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        host = place.host("echo", stdin=source, stdout=sink)
        assert end(host) == (0, b"")
    assert (tmp_path / "out").read_bytes() == data


def test_nothing_is_lost_where_only_one_side_is_pumped(place: Installation, tmp_path: Path) -> None:
    done = subprocess.run(
        place.command("echo"), stdin=subprocess.DEVNULL, capture_output=True, env=place.environ(), check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    data = b"x" * 300_000 + b"\n"
    with (tmp_path / "out").open("wb") as sink:
        assert place.run("echo", data=data, stdout=sink).returncode == 0
    assert (tmp_path / "out").read_bytes() == data


def test_a_terminal_is_pumped_and_stays_as_it_was(place: Installation) -> None:
    ours, theirs = pty.openpty()
    try:
        host = place.host("echo", stdin=theirs, stdout=theirs)
        os.write(ours, b"one\n")
        seen = b""
        while seen.count(b"one") < 2:  # the terminal's own echo, and ours
            seen += os.read(ours, 100)
        assert os.get_blocking(theirs)
        os.kill(place.daemon(), signal.SIGKILL)
        os.write(ours, b"two\n")
        while seen.count(b"two") < 2:
            seen += os.read(ours, 100)
        os.write(ours, b"\x04")
        assert host.wait(PATIENCE) == 0
    finally:
        os.close(ours)
        os.close(theirs)


def test_without_a_shell_python_waits(place: Installation) -> None:
    place.run("echo")
    host = place.changed("echo", "SHELL = '/no/shell'")
    echo(host, b"one\n")
    os.kill(place.daemon(), signal.SIGKILL)
    echo(host, b"two\n")
    assert end(host)[0] == 0


# Places


def test_smcp_home_moves_everything(tmp_path: Path) -> None:
    environ = {"SMCP_HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/run", "HOME": "/h"}
    assert shim.runtime_directory(environ, UID) == f"{tmp_path}/run"
    assert shim.state_directory(environ, UID) == f"{tmp_path}/state"
    assert shim.pointer_file(environ, UID) is None
    relative = shim.daemon_environ({"SMCP_HOME": "here", "LISTEN_FDS": "1", "SMCP_RESUME": "t", "PATH": "/bin"})
    assert relative == {"SMCP_HOME": os.path.abspath("here"), "PATH": "/bin"}


def test_the_runtime_directory_without_it(tmp_path: Path) -> None:
    usual = shim.runtime_directory({}, UID)
    assert usual in (f"/run/user/{UID}/smcp", f"/tmp/smcp-{UID}")
    assert shim.runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)}, UID) == f"{tmp_path}/smcp"
    assert shim.runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path / "new")}, UID) == f"{tmp_path}/new/smcp"
    # of another user, relative, and in a place that nobody can make
    assert shim.runtime_directory({"XDG_RUNTIME_DIR": str(tmp_path)}, UID + 4321) == f"/tmp/smcp-{UID + 4321}"
    assert shim.runtime_directory({"XDG_RUNTIME_DIR": "run"}, UID) == usual
    assert shim.runtime_directory({"XDG_RUNTIME_DIR": "/nowhere/at/all"}, UID) == usual


def test_state_and_home() -> None:
    assert shim.state_directory({"HOME": "/h"}, UID) == "/h/.local/state/smcp"
    assert shim.state_directory({"HOME": "/h", "XDG_STATE_HOME": "/s"}, UID) == "/s/smcp"
    assert shim.pointer_file({"HOME": "/h", "XDG_STATE_HOME": "/s"}, UID) == "/h/.local/state/smcp/runtime"
    assert shim.home_directory({}, 0) == "/root"
    assert shim.home_directory({}, 1 << 30) == "/"


def test_a_daemon_of_another_environment_is_found(place: Installation) -> None:
    own = place.root / "runtime"
    own.mkdir()
    env = place.environ(XDG_RUNTIME_DIR=str(own))
    del env["SMCP_HOME"]
    host = place.host("echo", env=env)
    echo(host, b"one\n")
    other = place.root / "other"
    other.mkdir()
    second = place.host("echo", env=env | {"XDG_RUNTIME_DIR": str(other)})
    echo(second, b"two\n")
    assert len(place.events("launched")) == 1
    assert list(other.iterdir()) == []
    for process in (host, second):
        assert end(process) == (0, b"")


# The project


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("home/project/deep/down", "home/plain", "other", "shared/sub"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("home/.git", "home/project/.git", "home/project/deep/package.json", "shared/.git"):
        (tmp_path / name).touch()
    (tmp_path / "shared").chmod(0o777)
    return tmp_path


@pytest.mark.parametrize(
    ("explicit", "environ", "cwd", "found"),
    [
        ("../other", {"CLAUDE_PROJECT_DIR": "{}/home/project"}, "home", "other"),
        ("{}/home", {}, "other", "home"),
        (None, {"CLAUDE_PROJECT_DIR": "{}/other"}, "home/project", "other"),
        (None, {"CLAUDE_PROJECT_DIR": "{}/other", "SMCP_PROJECT": "{}/home/plain"}, "home", "home/plain"),
        (None, {"SMCP_PROJECT": "${workspaceFolder}"}, "home/project", "home/project"),
        (None, {"CLAUDE_PROJECT_DIR": "{}/home"}, "home/plain", None),
        (None, {"CLAUDE_PROJECT_DIR": "{}/missing"}, "home/plain", None),
        (None, {"WORKSPACE_FOLDER_PATHS": "{}/other,{}/home/project"}, "home", "other"),
        (None, {"WORKSPACE_FOLDER_PATHS": "{}/missing:{}/home/project"}, "home", "home/project"),
        (None, {"WORKSPACE_FOLDER_PATHS": '["{}/other"]'}, "home", "other"),
        (None, {}, "home/project/deep/down", "home/project/deep"),
        (None, {}, "home/project", "home/project"),
        (None, {}, "home/plain", None),
        (None, {}, "home", None),
        (None, {}, "shared/sub", None),
    ],
)
def test_the_project_of_a_session(
    tree: Path, explicit: str | None, environ: dict[str, str], cwd: str, found: str | None
) -> None:
    said = {name: value.replace("{}", str(tree)) for name, value in environ.items()} | {"HOME": str(tree / "home")}
    wanted = None if explicit is None else explicit.replace("{}", str(tree))
    expected = None if found is None else str(tree / found)
    assert shim.find_project(wanted, said, str(tree / cwd), UID) == expected


def test_a_linked_project_is_the_project(tree: Path) -> None:
    (tree / "link").symlink_to(tree / "home" / "project")
    environ = {"HOME": str(tree / "home"), "CLAUDE_PROJECT_DIR": str(tree / "link")}
    assert shim.find_project(None, environ, "/", UID) == str(tree / "home" / "project")
    assert shim.find_project(None, {"HOME": str(tree)}, "/", UID) is None


# The greeting

raw = st.binary(max_size=20).map(lambda data: data.replace(b"\0", b"?"))


@given(st.text(), st.one_of(st.none(), st.text()), st.dictionaries(raw, raw, max_size=5))
def test_the_greeting_says_what_it_should(server: str, project: str | None, environ: dict[bytes, bytes]) -> None:
    server = server.encode(errors="replace").decode()
    project = None if project is None else project.encode(errors="replace").decode()
    fields: dict[str, str | int | None] = {"smcp": 1, "role": "shim", "server": server, "project": project, "pid": 7}
    line = shim.encode_hello(fields, environ)
    assert line.index(b"\n") == len(line) - 1
    hello = parse_hello(line)
    assert (hello.server, hello.project, hello.pid) == (server, project, 7)
    readable = {name: value for name, value in environ.items() if is_utf8(name) and is_utf8(value)}
    assert hello.environ == {name.decode(): value.decode() for name, value in readable.items()}


def is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_a_greeting_is_never_too_long() -> None:
    environ = {b"V%d" % number: b"\x01" * (1000 * number) for number in range(60)} | {b"PATH": b"/bin"}
    environ[b"SMCP_RESUME"] = b"secret"
    line = shim.encode_hello({"smcp": 1, "role": "shim"}, environ)
    assert len(line) <= MAX_HELLO
    hello = parse_hello(line)
    assert hello.environ["PATH"] == "/bin"
    assert "V10" in hello.environ
    assert "V59" not in hello.environ
    assert "SMCP_RESUME" not in hello.environ


def test_the_shim_is_a_plain_file() -> None:
    assert stat.S_ISREG(os.lstat(shim.__file__).st_mode)


def test_a_directory_that_somebody_makes_just_now_is_no_blocked_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where ten hosts come at once to a machine without a daemon, one makes the directory while another looks."""
    directory = tmp_path / "run"
    look = os.lstat

    def looks_too_early(path: str) -> os.stat_result:
        try:
            return look(path)
        finally:
            directory.mkdir(mode=0o700, exist_ok=True)

    monkeypatch.setattr(os, "lstat", looks_too_early)
    assert shim.connect(str(directory), os.getuid()) is None
