"""A registry of images on this machine: real, so that a pull is one."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import docker

from tests.kit.required import need

_START_SECONDS = 20.0
_CONFIG = """version: 0.1
log: {{ level: error }}
storage: {{ filesystem: {{ rootdirectory: {place}/data }}, delete: {{ enabled: true }} }}
http: {{ addr: 127.0.0.1:{port} }}
"""


class Registry:
    """One registry with its data in a directory; engines trust those on 127.0.0.1 without certificates."""

    def __init__(self, place: Path) -> None:
        """Start it, and wait until it answers."""
        need(shutil.which("docker-registry"), "docker-registry (Debian: docker-registry)")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._place = place
        (place / "config.yml").write_text(_CONFIG.format(place=place, port=self.port))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with open(self._place / "log", "ab") as log:
            words = ["docker-registry", "serve", str(self._place / "config.yml")]
            self._process = subprocess.Popen(words, stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self._place / "log").read_text()[-2000:]
                time.sleep(0.02)

    def stop(self) -> None:
        """End it; what it has is there when it is started again."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    def signal(self, number: int) -> None:
        """Send it a signal: a stopped one takes connections and says nothing."""
        assert self._process is not None
        self._process.send_signal(number)

    def name(self, image: str) -> str:
        """Return the name under which engines know an image of this registry."""
        return f"127.0.0.1:{self.port}/{image}"

    def push(self, client: docker.APIClient, image: str, name: str) -> str:
        """Put an image of an engine into the registry, and take the name from the engine again; return the name."""
        whole = self.name(name)
        repository, _, tag = whole.rpartition(":")
        client.tag(image, repository, tag)
        for news in client.push(repository, tag, stream=True, decode=True):
            assert "error" not in news, news
        client.remove_image(whole)
        return whole
