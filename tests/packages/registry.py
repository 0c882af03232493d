"""A registry of npm and an index of Python on this machine, and a proxy that leads to it, with packages of ours."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

#: Says what it sees of the machine and of the environment.
SPY = "ls /root /home /srv /var/tmp > seen 2>&1; env >> seen"


class Place(http.server.ThreadingHTTPServer):
    """Serves pages by their path, and tunnels to itself for whoever takes it for a proxy."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages: dict[str, tuple[str, bytes]] = {}
        #: What was asked for: paths, and places of tunnels.
        self.asked: list[str] = []
        self.authorizations: list[str] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    def npm_package(self, name: str, files: str = "", *, code: str = "", **manifest: object) -> None:
        """Add a package of npm, version 1.0.0, with a script ``cli.js``; its files are said to be at another URL."""
        content = json.dumps({"name": name, "version": "1.0.0", "bin": "cli.js", **manifest})
        archive = _tar({"package/package.json": content, "package/cli.js": f"#!/usr/bin/env node\n{code}"})
        path = f"/{name}/-/file.tgz"
        self.pages[path] = ("application/octet-stream", archive)
        integrity = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
        dist = {"tarball": f"{files or self.url}{path}", "integrity": integrity}
        version = {**json.loads(content), "dist": dist, "hasInstallScript": "scripts" in manifest}
        about = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        self.pages[f"/{name}"] = ("application/json", json.dumps(about).encode())

    def wheel(self, name: str, files: str = "") -> None:
        """Add a package of Python, version 1.0, with a command of its name."""
        info = f"{name}-1.0.dist-info"
        self._python(
            f"{name}-1.0-py3-none-any.whl",
            _zip(
                {
                    f"{name}.py": "def main():\n    print('ok')\n",
                    f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
                    f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
                    f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
                    f"{info}/RECORD": "",
                }
            ),
            name,
            files,
        )

    def source(self, name: str) -> None:
        """Add a package of Python that is offered as source only; to build it is to run a program of its own."""
        backend = (
            "import os, zipfile\n"
            "def build_wheel(directory, settings=None, metadata=None):\n"
            f"    info, wheel = '{name}-1.0.dist-info', '{name}-1.0-py3-none-any.whl'\n"
            "    with zipfile.ZipFile(os.path.join(directory, wheel), 'w') as file:\n"
            f"        file.writestr('{name}.py', 'def main(): pass')\n"
            f"        file.writestr(info + '/METADATA', 'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')\n"
            "        file.writestr(info + '/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\n'\n"
            "            'Tag: py3-none-any\\n')\n"
            f"        file.writestr(info + '/entry_points.txt', '[console_scripts]\\n{name} = {name}:main\\n')\n"
            "        file.writestr(info + '/RECORD', '')\n"
            "    return wheel\n"
        )
        project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        top = f"{name}-1.0"
        about = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        archive = {f"{top}/pyproject.toml": project, f"{top}/backend.py": backend, f"{top}/PKG-INFO": about}
        self._python(f"{top}.tar.gz", _tar(archive), name, "")

    def _python(self, file: str, content: bytes, name: str, files: str) -> None:
        self.pages[f"/files/{file}"] = ("application/octet-stream", content)
        link = f"{files or self.url}/files/{file}#sha256={hashlib.sha256(content).hexdigest()}"
        self.pages[f"/simple/{name}/"] = ("text/html", f'<!DOCTYPE html><a href="{link}">{file}</a>'.encode())


@contextmanager
def place() -> Iterator[Place]:
    """Serve a place for a block."""
    made = Place()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Place

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorizations.append(self.headers.get("Authorization", ""))
        kind, content = self.server.pages.get(self.path.replace("%2f", "/"), ("text/plain", b""))
        self.send_response(HTTPStatus.OK if content else HTTPStatus.NOT_FOUND)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_CONNECT(self) -> None:
        self.server.asked.append(self.path)
        self.server.authorizations.append(self.headers.get("Proxy-Authorization", ""))
        with socket.create_connection(("127.0.0.1", self.server.port)) as other:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(other, self.connection))
            back.start()
            _copy(self.connection, other)
            back.join()

    def log_message(self, format: str, *words: object) -> None:
        """Say nothing."""


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text.encode()), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
