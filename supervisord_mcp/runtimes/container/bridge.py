"""An engine behind ssh as a socket of this machine: each connection to it is one of ssh's.

That is what the command ``docker`` does too, so what works for it works here: the person's own ssh with its settings,
keys and agent, and on the other side nothing but ``docker``. Nobody is asked anything: there is nobody to answer.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from urllib.parse import urlsplit

_CONNECT_SECONDS = 20
_END_SECONDS = 5.0
_MOST_WORDS = 500


class Bridge:
    """The socket, and the connections of ssh that belong to it."""

    def __init__(self, url: str) -> None:
        """Listen for an engine at ``ssh://[user@]host[:port]``. Raise `OSError` where there is no place for it."""
        self._command = command(url)
        self._directory = tempfile.mkdtemp(prefix="smcp-ssh-")
        self.path = os.path.join(self._directory, "socket")
        self._said = os.path.join(self._directory, "said")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(self.path)
        self._listener.listen(64)
        self._running: list[subprocess.Popen[bytes]] = []
        self._thread = threading.Thread(target=self._serve, name="ssh", daemon=True)
        self._thread.start()

    def last_words(self) -> str:
        """Return what ssh said the last time that it said anything."""
        try:
            with open(self._said, encoding="utf-8", errors="replace") as file:
                return " ".join(file.read()[-_MOST_WORDS:].split())
        except OSError:
            return ""

    def close(self) -> None:
        """End every connection. Blocks for a moment. Idempotent."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(_END_SECONDS)
        self._listener.close()
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._running = [process for process in self._running if process.poll() is None]
            with connection, open(self._said, "wb") as said, contextlib.suppress(OSError):
                ends = connection.fileno()
                self._running.append(subprocess.Popen(self._command, stdin=ends, stdout=ends, stderr=said))


def command(url: str) -> list[str]:
    """Return the command of ssh that speaks with the engine of another machine."""
    parts = urlsplit(url)
    words = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}"]
    if parts.username:
        words += ["-l", parts.username]
    if parts.port:
        words += ["-p", str(parts.port)]
    return [*words, "--", parts.hostname or "", "docker", "system", "dial-stdio"]
