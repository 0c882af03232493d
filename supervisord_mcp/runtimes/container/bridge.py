"""An engine behind ssh: each connection to it is one of ssh's.

That is what the command ``docker`` does too, so what works for it works here: the person's own ssh with its settings,
keys and agent, and on the other side nothing but ``docker``. Nobody is asked anything: there is nobody to answer.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import subprocess
import threading
from urllib.parse import unquote, urlsplit

#: What ssh may take to get an answer at all. What waits for the engine waits a little longer, to hear ssh's reason.
CONNECT_SECONDS = 15
#: A machine that is not heard any more is given up after three of these.
_ALIVE_SECONDS = 15
_END_SECONDS = 5.0
#: ssh says why it failed just before it ends; who was connected learns of the end first.
_LAST_WORDS_SECONDS = 1.0
_MOST_WORDS = 500


class Line:
    """One connection: a process of ssh, and what it says when it fails."""

    def __init__(self, words: list[str], theirs: socket.socket) -> None:
        """Begin, with an end of a pair of sockets, which belongs to ssh from now on. Raise `OSError`."""
        self.said = b""
        # Askpass is what ssh, and each one that it starts for a jump, would ask by: whatever it is, it says no.
        env = {**os.environ, "SSH_ASKPASS": "false", "SSH_ASKPASS_REQUIRE": "force"}
        with theirs:
            end = theirs.fileno()
            # A group, so that Ctrl-C for the daemon is none for it, but our session: strangers of others are reaped.
            self._process = subprocess.Popen(
                words, stdin=end, stdout=end, stderr=subprocess.PIPE, env=env, process_group=0
            )
        self._thread = threading.Thread(target=self._listen, name="ssh", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether it is gone, and nothing is left of it."""
        return not self._thread.is_alive()

    def last_words(self) -> str:
        """Return why it failed, and nothing if it did not. Blocks for a moment."""
        self._thread.join(_LAST_WORDS_SECONDS)
        if not self.ended or self._process.returncode == 0:
            return ""
        return " ".join(self.said[-_MOST_WORDS:].decode(errors="replace").split())

    def terminate(self) -> None:
        """Begin to end it. Idempotent."""
        self._process.terminate()

    def close(self) -> None:
        """End it, and wait for that. Idempotent."""
        self._process.terminate()
        self._thread.join(_END_SECONDS)
        if not self.ended:
            self._process.kill()
            self._thread.join(_END_SECONDS)

    def _listen(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            while part := os.read(stderr.fileno(), 1 << 12):
                self.said = (self.said + part)[-2 * _MOST_WORDS :]
        self._process.wait()


class Bridge:
    """All connections to one engine at ``ssh://[user@]host[:port][/socket]``. Nothing of it is left between them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._command = command(url)
        self._lines: set[Line] = set()
        self._lock = threading.Lock()
        self._own = threading.local()

    def open(self) -> socket.socket:
        """Return a new connection to the engine. Raise `OSError` where there is no ssh."""
        ours, theirs = socket.socketpair()
        try:
            line = Line(self._command, theirs)
        except OSError:
            ours.close()
            raise
        self._own.line = line
        with self._lock:
            self._lines = {each for each in self._lines if not each.ended} | {line}
        return ours

    def begin(self) -> None:
        """Tell that this thread begins to ask something: what other connections said is of no interest to it."""
        self._own.line = None

    def give_up(self) -> str:
        """End the connection that this thread opened, if any; return why ssh failed, if it did. Blocks for a moment."""
        line: Line | None = getattr(self._own, "line", None)
        if line is None:
            return ""
        said = line.last_words()
        line.terminate()
        return said

    def close(self) -> None:
        """End every connection. Blocks for a moment. Idempotent."""
        with self._lock:
            lines, self._lines = self._lines, set()
        for line in lines:
            with contextlib.suppress(OSError):
                line.terminate()
        for line in lines:
            line.close()


def command(url: str) -> list[str]:
    """Return the command of ssh that speaks with the engine of another machine."""
    parts = urlsplit(url)
    words = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
    words += ["-o", f"ServerAliveInterval={_ALIVE_SECONDS}"]
    words += [*_whom(url), "--", _host(url), "docker"]
    if parts.path.strip("/"):
        # The shell over there takes what follows apart.
        words += ["--host", shlex.quote(f"unix://{unquote(parts.path)}")]
    return [*words, "system", "dial-stdio"]


def remedy(url: str, said: str) -> str:
    """Given what ssh said when it failed, return what to do about it."""
    by_hand = f"ssh {shlex.join([*_whom(url), '--', _host(url)])}"
    if "ost key verification failed" in said or "no matching host key" in said:
        return f"Compare the key of that machine, and take it, by hand: {by_hand}"
    if "ermission denied" in said and "docker" not in said:
        return (
            "ssh needs a key there that asks for no passphrase, or an agent that the daemon knows (SSH_AUTH_SOCK; name"
            f" it in ~/.ssh/config: IdentityAgent, IdentityFile). Try it: ssh -o BatchMode=yes {by_hand[4:]} true"
        )
    if re.search(r"docker.*not found|not found.*docker|No such file or directory.*docker", said):
        return f"Install the command docker on {_host(url)}: it passes on what is said to the engine there."
    return f"Try it: {shlex.join(command(url))}"


def _whom(url: str) -> list[str]:
    parts = urlsplit(url)
    user = ["-l", unquote(parts.username)] if parts.username else []
    return user + (["-p", str(parts.port)] if parts.port else [])


def _host(url: str) -> str:
    """Return the name as it is written: what ~/.ssh/config knows by a name may have capitals."""
    host = urlsplit(url).netloc.rpartition("@")[2]
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
