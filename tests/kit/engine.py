"""A Docker engine of the tests' own: real, private, and gone when they end. Images for it are made of this machine."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import docker

from supervisord_mcp.runtimes.container.places import reach
from tests.kit.required import need

_START_SECONDS = 60.0
#: What the smallest image is made of: no interpreter, nothing that serves.
_PROGRAMS = (
    *("/bin/sh", "/bin/cat", "/bin/sleep", "/bin/ls", "/bin/echo", "/bin/kill", "/usr/bin/env", "/usr/bin/stat"),
    *("/usr/bin/id", "/usr/bin/dirname", "/usr/bin/setsid", "/usr/bin/head", "/usr/bin/dd", "/usr/bin/touch"),
)
SHELL = "smcp-test:shell"
#: Whom Podman runs as where the tests are run by root.
PERSON = "smcp-podman"
_PODMAN = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
compat_api_enforce_docker_hub = false
"""
_SPECS = (
    importlib.util.find_spec(name) for name in ("binascii", "zlib", "_ssl", "_hashlib", "_ctypes", "_bz2", "_lzma")
)
_EXTENSIONS = tuple(s.origin for s in _SPECS if s is not None and s.origin is not None and s.origin.startswith("/"))


class Dockerd:
    """One engine, with its data, its state and its socket in a directory of its own with a short name."""

    def __init__(self, *more: str) -> None:
        """Start it with more words on its command line, and wait until it answers."""
        need(shutil.which("dockerd") and os.geteuid() == 0, "dockerd (Debian: docker.io), run by root")
        self.directory = Path(tempfile.mkdtemp(prefix="dk", dir="/tmp"))
        # With users of its own it looks at its data as one of them.
        self.directory.chmod(0o711)
        self.url = f"unix://{self.directory}/s"
        self._more = more
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        place = self.directory
        command = ["dockerd", *self._more, "--data-root", f"{place}/d", "--exec-root", f"{place}/e", "-H", self.url]
        command += ["--pidfile", f"{place}/p", "--iptables=false", "--ip6tables=false", "--bridge=none"]
        with open(place / "log", "ab") as log:
            # In our session: what is adopted in another one is taken for a leftover of a server, and ended.
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            self.client = _answering(place, process)
        except BaseException:
            process.terminate()
            process.wait(60)
            self.close()
            raise
        self._process = process

    def ended(self) -> str | None:
        """Say how it ended without having been told to, and start it again; return None if it runs."""
        if self._process is None or (status := self._process.poll()) is None:
            return None
        told = (self.directory / "log").read_text(errors="replace")[-4000:]
        self.stop()
        self.start()
        return f"the engine ended with status {status}:\n{told}"

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it with a signal, with all its containers if it is polite."""
        if self._process is not None:
            self.client.close()
            self._process.send_signal(number)
            self._process.wait(60)
            self._process = None
            # A new one would take what is left of this one for a containerd that serves it.
            record = self.directory / "e" / "containerd" / "containerd.pid"
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(record.read_text()), signal.SIGKILL)
            record.unlink(missing_ok=True)

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """Let it answer nobody for the time of a block."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and remove what it has."""
        self.stop()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            if line.split()[1].startswith(f"{self.directory}/"):
                subprocess.run(["umount", "-l", line.split()[1]], check=False, capture_output=True)
        shutil.rmtree(self.directory, ignore_errors=True)

    def containers(self) -> list[str]:
        """Return the names of all containers, also of those that have ended."""
        return sorted(name for each in self.client.containers(all=True) for name in each["Names"])


def _answering(place: Path, process: subprocess.Popen[bytes]) -> docker.APIClient:
    """Return a client of the engine in a place once it answers. Raise `AssertionError` with its words if it ends."""
    deadline = time.monotonic() + _START_SECONDS
    while True:
        with contextlib.suppress(OSError, docker.errors.DockerException):
            reach(f"{place}/s", 1.0)
            client = docker.APIClient(f"unix://{place}/s", version="auto", timeout=60)
            # Nothing stays open between two requests: tests look for what is left.
            client.headers["Connection"] = "close"
            client.close()
            return client
        waits = process.poll() is None and time.monotonic() < deadline
        assert waits, (place / "log").read_text(errors="replace")[-2000:]
        time.sleep(0.05)


def make() -> Dockerd:
    """Return a new engine that has the image `SHELL`."""
    made = Dockerd()
    fill(made)
    return made


def fill(engine: Dockerd | Podman) -> None:
    """Give an engine the image `SHELL`."""
    load(engine, SHELL, _PROGRAMS)


def load(engine: Dockerd | Podman, name: str, programs: Iterable[str]) -> None:
    """Make an image of programs of this machine with their libraries."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path in ("tmp", "run", "etc", "proc", "dev", "sys", "usr/lib"):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if path == "tmp" else 0o755
            archive.addfile(entry)
        for path in sorted(set(_with_libraries(programs))):
            archive.add(os.path.realpath(path), path.lstrip("/"))
    repository, _, tag = name.partition(":")
    engine.client.import_image_from_data(content.getvalue(), repository, tag)
    if isinstance(engine, Podman):
        # It forgets the tag.
        (image,) = engine.client.images(f"localhost/{repository}", quiet=True)
        engine.client.tag(image, f"localhost/{repository}", tag)


def _with_libraries(programs: Iterable[str]) -> Iterable[str]:
    for path in programs:
        yield path
        yield from _libraries(path)
    # Tests show containers the Python that they run on, but not what it needs of the system.
    for place in (sys.executable, *_EXTENSIONS):
        yield from (library for library in _libraries(place) if library.startswith(("/lib", "/usr/lib")))


def _libraries(path: str) -> list[str]:
    listed = subprocess.run(["ldd", os.path.realpath(path)], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", listed)


class Podman:
    """Rootless Podman with a socket that speaks as Docker's; a test that is run by root has a person for it."""

    def __init__(self) -> None:
        """Start it, and wait until it answers."""
        need(shutil.which("podman"), "podman")
        self.directory = Path(tempfile.mkdtemp(prefix="pm", dir="/tmp"))
        self.url = f"unix://{self.directory}/s"
        person = None
        if os.geteuid() == 0:
            person = next((each for each in pwd.getpwall() if each.pw_name == PERSON), None)
            need(person, f"a person for rootless Podman: useradd --create-home {PERSON}")
        assert person is None or person.pw_uid
        for name in ("run", "tools", "gates"):
            (self.directory / name).mkdir()
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": person.pw_dir if person else str(Path.home()),
            "XDG_RUNTIME_DIR": f"{self.directory}/run",
            "CONTAINERS_CONF": f"{self.directory}/containers.conf",
        }
        # What it asks for by itself is more than a machine without CAP_SYS_RESOURCE gives.
        (self.directory / "containers.conf").write_text(_PODMAN)
        if person is not None:
            for place in (self.directory, *self.directory.iterdir()):
                os.chown(place, person.pw_uid, person.pw_gid)
        # Whoever runs the tests makes what containers are shown.
        for name in ("gates", "tools"):
            os.chown(self.directory / name, os.geteuid(), os.getegid())
        self.directory.chmod(0o755)
        self._person = person
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*self._command(), "system", "service", "--time=0", self.url],
                env=self.env,
                stdout=log,
                stderr=log,
                cwd="/",
                user=None if person is None else person.pw_uid,
                group=None if person is None else person.pw_gid,
                extra_groups=None if person is None else [],
            )
        self.client = _answering(self.directory, self._process)

    def _command(self) -> list[str]:
        place = self.directory
        return ["podman", "--root", f"{place}/r", "--runroot", f"{place}/rr", "--storage-driver", "vfs"]

    def close(self) -> None:
        """End it, and remove what it has."""
        self.client.close()
        person = self._person
        subprocess.run(
            [*self._command(), "system", "reset", "--force"],
            env=self.env,
            cwd="/",
            check=False,
            capture_output=True,
            user=None if person is None else person.pw_uid,
            group=None if person is None else person.pw_gid,
            extra_groups=None if person is None else [],
        )
        self._process.terminate()
        self._process.wait(60)
        shutil.rmtree(self.directory, ignore_errors=True)

    def containers(self) -> list[str]:
        """Return the names of all containers, also of those that have ended."""
        return sorted(name for each in self.client.containers(all=True) for name in each["Names"])
