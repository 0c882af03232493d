"""A server of ssh of the tests' own on this machine: real, private, with keys that nobody else has."""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tests.kit.required import need

_START_SECONDS = 20.0
_SERVER = """
ListenAddress 127.0.0.1
Port {port}
HostKey {place}/host
AuthorizedKeysFile {place}/authorized
PidFile none
StrictModes no
UsePAM {pam}
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
SetEnv {environ}
"""
_CLIENT = """
IdentityFile {place}/{key}
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {place}/known
GlobalKnownHostsFile /dev/null
KexAlgorithms curve25519-sha256
GSSAPIAuthentication no
"""


class Sshd:
    """One server in a directory; whoever has its key comes in as whoever runs the tests, with ``environ``."""

    def __init__(self, place: Path, environ: Mapping[str, str]) -> None:
        """Start it, and wait until it answers."""
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        need(program and shutil.which("ssh-keygen"), "sshd and ssh (Debian: openssh-server, openssh-client)")
        self.place = place
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"ssh://{self.user}@127.0.0.1:{self.port}"
        for name in ("host", "person", "stranger"):
            words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(place / name)]
            subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        shutil.copy(place / "person.pub", place / "authorized")
        self.know()
        self.use("person")
        said = " ".join(f"{name}={shlex.quote(value)}" for name, value in environ.items())
        text = _SERVER.format(port=self.port, place=place, environ=said, pam="yes" if _is_locked() else "no")
        (place / "sshd_config").write_text(text)
        if os.geteuid() == 0:
            # Where it goes when nobody has come in yet; its service makes it, which does not run.
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        with open(place / "log", "ab") as log:
            # In our session: what is adopted in another one is taken for a leftover of a server, and ended.
            command = [str(program), "-D", "-e", "-f", str(place / "sshd_config")]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                assert self._process.poll() is None, self.log()
                assert time.monotonic() < deadline, self.log()
                time.sleep(0.02)

    @property
    def path(self) -> str:
        """A directory for PATH with a command ``ssh``: the one of the machine, with settings for this server alone."""
        return str(self.place / "bin")

    def know(self, *, known: bool = True) -> None:
        """Let the client know the key of the server, or none."""
        key = (self.place / "host.pub").read_text()
        (self.place / "known").write_text(f"[127.0.0.1]:{self.port} {key}" if known else "")

    def use(self, key: str) -> None:
        """Let the client use a key: ``person``, which is let in, or ``stranger``."""
        real = shutil.which("ssh")
        need(real, "ssh (Debian: openssh-client)")
        (self.place / "ssh_config").write_text(_CLIENT.format(place=self.place, key=key))
        made = self.place / "bin" / "ssh"
        made.parent.mkdir(exist_ok=True)
        if not made.exists():
            # ssh looks for its settings in the home of the user database, whatever HOME says.
            made.write_text(f'#!/bin/sh\nexec {real} -F {self.place}/ssh_config "$@"\n')
            made.chmod(0o755)

    def connections(self) -> list[int]:
        """Return the processes that each serve one connection."""
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def cut(self) -> int:
        """Kill what serves connections, as a machine that goes down; return how many there were."""
        there = self.connections()
        for pid in there:
            # The one that serves a person who came in is a child of that one without rights, and ends with it.
            os.kill(pid, signal.SIGKILL)
        return len(there)

    def log(self) -> str:
        """Return what it said."""
        return (self.place / "log").read_text(errors="replace")[-3000:]

    def close(self) -> None:
        """End it, with every connection."""
        self.cut()
        self._process.kill()
        self._process.wait(20)


def _is_locked() -> bool:
    """Return whether whoever runs the tests has no password at all, whom only PAM lets in."""
    try:
        lines = Path("/etc/shadow").read_text().splitlines()
    except OSError:
        return False
    user = pwd.getpwuid(os.geteuid()).pw_name
    return any(line.split(":")[:1] == [user] and line.split(":")[1].startswith("!") for line in lines)
