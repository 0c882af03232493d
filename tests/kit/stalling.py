"""A registry of images that never gets anywhere: it takes connections, and says nothing, or a byte a second."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_TRICKLE_SECONDS = 1.0
_TLS = 0x16
#: What leads an engine on: it is no registry with a certificate, it is one without, and here comes the image.
_NO_TLS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_REGISTRY = b"HTTP/1.1 200 OK\r\nDocker-Distribution-Api-Version: registry/2.0\r\nContent-Length: 2\r\n\r\n{}"
_MANIFEST = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.distribution.manifest.v2+json\r\n"
    b"Content-Length: 100000\r\n\r\n"
)


class StallingRegistry:
    """One on a port of this machine, until the end of a block. Engines trust those on 127.0.0.1 without certificates.

    ``trickle`` is whether it says something at all. ``asked`` is set once it has been asked for the image, ``left``
    once whoever did hung up.
    """

    def __init__(self, *, trickle: bool = False) -> None:
        self._trickle = trickle
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.asked, self.left = threading.Event(), threading.Event()
        self._ending = threading.Event()
        self._threads: list[threading.Thread] = []

    def name(self, image: str) -> str:
        """Return the name of an image that it is asked for."""
        return f"127.0.0.1:{self._listener.getsockname()[1]}/{image}"

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in list(self._threads):
            thread.join(10)

    def _begin(self, action: object, *arguments: object) -> None:
        thread = threading.Thread(target=action, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                made, _ = self._listener.accept()
            except OSError:
                return
            made.settimeout(0.05)
            self._begin(self._serve, made)

    def _serve(self, made: socket.socket) -> None:
        with made, contextlib.suppress(OSError):
            if not self._trickle:
                self.asked.set()
                self._wait(made)
                self.left.set()
                return
            while request := self._received(made):
                if request[0] == _TLS:
                    made.sendall(_NO_TLS)
                    return
                if b"/manifests/" not in request:
                    made.sendall(_REGISTRY)
                    continue
                made.sendall(_MANIFEST)
                self.asked.set()
                with contextlib.suppress(OSError):
                    while not self._ending.wait(_TRICKLE_SECONDS):
                        made.sendall(b" ")
                self.left.set()
                return

    def _wait(self, made: socket.socket) -> None:
        """Wait until the other side hangs up."""
        while self._received(made):
            pass

    def _received(self, made: socket.socket) -> bytes:
        """Return what is said next, and nothing at the end."""
        while not self._ending.is_set():
            with contextlib.suppress(TimeoutError):
                return made.recv(1 << 16)
        return b""
