"""What a server must not reach, made for the time of a trial: a home with secrets, neighbours, sockets, memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from supervisord_mcp.runtimes import syscalls
from supervisord_mcp.runtimes.limits import Limits

Facts = dict[str, Any]

_SECRET_FILES = (
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".npmrc",
    ".gnupg/private-keys-v1.d/key",
    ".mozilla/firefox/x.default/cookies.sqlite",
    ".kube/config",
    ".docker/config.json",
    ".git-credentials",
    ".netrc",
    ".bash_history",
)
_PROJECT_FILES = (
    "file",
    ".git/HEAD",
    ".git/hooks/post-checkout",
    ".git/config",
    ".envrc",
    ".vscode/tasks.json",
    ".mcp.json",
)
_GROUPS = ("/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
_IPC_CREATE = 0o1000 | 0o666
_IPC_REMOVE = 0


@contextlib.contextmanager
def laid(base: Path, limits: Limits) -> Iterator[Facts]:
    """Lay everything out below a directory and around it, and yield the facts that attempts need; then remove it.

    ``limits`` are those of the server that will try. Everything can be reached by the user who runs this.
    """
    with contextlib.ExitStack() as stack:
        facts = _files(base)
        facts["limits"] = {"memory": limits.memory, "pids": limits.pids, "nofile": limits.nofile}
        facts["limits"] |= {"fsize": limits.fsize, "tmp": limits.tmp, "shm": limits.shm, "home": limits.home}
        facts |= _machine()
        for name, directory in (("temporary", tempfile.gettempdir()), ("shared", "/dev/shm")):
            facts[name] = stack.enter_context(_file(directory))
        stack.enter_context(_sockets(base, facts))
        stack.enter_context(_neighbour(facts))
        stack.enter_context(_memory(facts))
        stack.enter_context(_variables(facts))
        yield facts


def _files(base: Path) -> Facts:
    places = {name: base / name for name in ("home", "project", "shown", "other", "state", "run")}
    for place in places.values():
        place.mkdir(exist_ok=True)
        place.chmod(0o777)
    for name in _SECRET_FILES:
        _write(places["home"] / name)
    for name in _PROJECT_FILES:
        _write(places["project"] / name)
    for name in ("shown", "other", "state"):
        _write(places[name] / "file")
    (places["project"] / "link").symlink_to(places["home"] / ".netrc")
    return {name: str(place) for name, place in places.items()}


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("text\n")
    # Only isolation is to keep a server away, no mode of a file.
    for place in (path, *path.parents):
        if place.name in ("home", "project", "shown", "other", "state"):
            break
        place.chmod(0o777 if place.is_dir() else 0o666)


def _machine() -> Facts:
    with open("/etc/passwd", encoding="utf-8", errors="replace") as file:
        users = file.read().splitlines()
    return {
        "calls": dict(syscalls.native().numbers),
        "hostname": os.uname().nodename,
        "user_line": users[-1],
        "address": _address(),
        "home_of_root": _names("/root"),
        "block": next((f"/dev/{name}" for name in sorted(_listed("/sys/block"))), "/dev/nothing"),
        "groups": list(filter(os.path.isdir, _GROUPS)),
    }


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _listed(directory: str) -> list[str]:
    try:
        return [name for name in os.listdir(directory) if os.path.exists(f"/dev/{name}")]
    except OSError:
        return []


def _address() -> str:
    """Return the address of this machine towards others, empty where it has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
            return str(one.getsockname()[0])
        except OSError:
            return ""


@contextlib.contextmanager
def _file(directory: str) -> Iterator[str]:
    descriptor, path = tempfile.mkstemp(prefix="smcp-bait-", dir=directory)
    os.write(descriptor, b"text\n")
    os.fchmod(descriptor, 0o666)
    os.close(descriptor)
    try:
        yield path
    finally:
        os.unlink(path)


@contextlib.contextmanager
def _sockets(base: Path, facts: Facts) -> Iterator[None]:
    mark = secrets.token_hex(8)
    agent = os.path.join(tempfile.gettempdir(), f"smcp-bait-{mark}.sock")
    facts |= {"socket": str(base / "run" / "daemon.sock"), "agent": agent, "abstract": f"smcp-bait-{mark}"}
    with contextlib.ExitStack() as stack:
        for name in (facts["socket"], facts["agent"], "\0" + facts["abstract"]):
            one = stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX)))
            one.bind(name)
            one.listen()
            if not name.startswith("\0"):
                os.chmod(name, 0o666)
                stack.callback(os.unlink, name)
        facts["letters"] = f"{facts['project']}/letters"
        box = stack.enter_context(contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
        box.bind(facts["letters"])
        os.chmod(facts["letters"], 0o666)
        stack.callback(os.unlink, facts["letters"])
        local = stack.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0))))
        facts["port"] = local.getsockname()[1]
        if facts["address"]:
            other = (facts["address"], facts["port"])
            stack.enter_context(contextlib.closing(socket.create_server(other)))
        facts["port6"] = facts["port"]
        with contextlib.suppress(OSError):
            six = stack.enter_context(contextlib.closing(socket.create_server(("::1", 0), family=socket.AF_INET6)))
            facts["port6"] = six.getsockname()[1]
        yield


@contextlib.contextmanager
def _neighbour(facts: Facts) -> Iterator[None]:
    """Run a process that is the daemon and another server in one, with a secret in its environment and its argument."""
    facts["sibling_secret"] = f"sibling-{secrets.token_hex(8)}"
    facts["argument_secret"] = facts["daemon_mark"] = f"daemon-{secrets.token_hex(8)}"
    process = subprocess.Popen(
        ["/bin/sh", "-c", "echo up; read line", facts["daemon_mark"]],
        env={"PATH": "/usr/bin:/bin", "SIBLING": facts["sibling_secret"]},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    facts["daemon_pid"] = process.pid
    try:
        assert process.stdout is not None
        process.stdout.readline()  # only now its command line is certain to be its own
        yield
    finally:
        process.kill()
        process.communicate()


@contextlib.contextmanager
def _memory(facts: Facts) -> Iterator[None]:
    """Make shared memory of System V and a queue of messages."""
    libc = ctypes.CDLL(None, use_errno=True)
    calls = facts["calls"]
    name = f"smcp-bait-{secrets.token_hex(8)}"
    shared = libc.syscall(calls["shmget"], 0, ctypes.c_size_t(4096), _IPC_CREATE)
    queue = libc.syscall(calls["mq_open"], name.encode(), os.O_CREAT | os.O_RDWR, 0o666, None)
    facts |= {"shm": shared, "queue": name}
    try:
        if queue >= 0:
            os.close(queue)
        yield
    finally:
        libc.syscall(calls["shmctl"], shared, _IPC_REMOVE, None)
        if queue >= 0:
            libc.syscall(calls["mq_unlink"], name.encode())


@contextlib.contextmanager
def _variables(facts: Facts) -> Iterator[None]:
    """Put a secret and a variable that loads code into the environment of this process, as a daemon might have them."""
    facts["secret_variable"], facts["secret"] = "SMCP_BAIT", f"variable-{secrets.token_hex(8)}"
    facts["loader"] = f"/nowhere/{secrets.token_hex(8)}"
    wanted = {"SMCP_BAIT": facts["secret"], "BASH_ENV": facts["loader"]}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ |= wanted
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
