"""The place where Prometheus fetches its metrics: a small HTTP server on a loopback address or a unix socket.

It is accepted in the event loop and answered in a thread, which waits for the loop to say what there is to be told.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from supervisord_mcp.metrics.exposition import Snapshot, families
from supervisord_mcp.metrics.pace import FRESH

#: How many may fetch at the same time, and how long one may take for it, in seconds.
MOST, PATIENCE = 4, 10.0
#: How long nobody is accepted where the process has no descriptor left, in seconds.
PAUSE = 1.0
#: What an answer depends on.
_ASKED = ("REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_ACCEPT", "HTTP_ACCEPT_ENCODING")


class ScrapeServer(ThreadingMixIn, WSGIServer):
    """Serves what ``look`` returns on a socket that listens; made and closed in the event loop."""

    daemon_threads = True
    timeout = 0

    def __init__(
        self, listening: socket.socket, look: Callable[[], Awaitable[Snapshot]], *, guarded: bool = False
    ) -> None:
        """With ``guarded`` only those are served who ask for an address, or for localhost."""
        super().__init__(("", 0), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.server_name, self.server_port = "smcp", 0
        self.setup_environ()
        self._loop = asyncio.get_running_loop()
        self._free = threading.BoundedSemaphore(MOST)
        application = _Remembering(make_wsgi_app(_Fetched(partial(_fetch, self._loop, look))))
        self.set_app(partial(_guarded, application) if guarded else application)
        self._accept()

    def close(self) -> None:
        """Serve nobody any more."""
        self._loop.remove_reader(self.socket)
        self.server_close()

    def _accept(self) -> None:
        if self.socket.fileno() >= 0:
            self._loop.add_reader(self.socket, self.handle_request)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept; without a descriptor for it, try again in a while."""
        try:
            connection, _ = self.socket.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._loop.remove_reader(self.socket)
                self._loop.call_later(PAUSE, self._accept)
            raise
        # The peer of a unix socket has no name; a handler expects one.
        return connection, ("local", 0)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether there is a thread for one more."""
        return self._free.acquire(blocking=False)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; who takes too long for it, however busily, is hung up on."""
        self._loop.call_later(PATIENCE, _hang_up, request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, in a thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asks and leaves before the answer is nobody's fault."""


class _Handler(WSGIRequestHandler):
    timeout = PATIENCE

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: one comes every few seconds."""


class _Remembering:
    """One answer at a time, and the last one again to who asks the same a moment later.

    To make it of many servers takes a fifth of a second of the processor, which a daemon has for its hosts.
    """

    def __init__(self, application: Any) -> None:
        self._application = application
        self._one = threading.Lock()
        self._last: tuple[tuple[str, ...], float, str, list[tuple[str, str]], bytes] | None = None

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        asked = tuple(str(environ.get(key, "")) for key in _ASKED)
        with self._one:
            last = self._last
            if last is None or last[0] != asked or time.monotonic() - last[1] >= FRESH:
                last = self._made(asked, environ)
        _, _, status, headers, body = last
        start_response(status, headers)
        return [body]

    def _made(
        self, asked: tuple[str, ...], environ: dict[str, Any]
    ) -> tuple[tuple[str, ...], float, str, list[tuple[str, str]], bytes]:
        said: list[tuple[str, list[tuple[str, str]]]] = []

        def note(status: str, headers: list[tuple[str, str]], *_rest: Any) -> None:
            said.append((status, headers))

        body = b"".join(self._application(environ, note))
        made = (asked, time.monotonic(), *said[-1], body)
        self._last = made if said[-1][0].startswith("200") else None
        return made


class _Fetched(Collector):
    def __init__(self, fetch: Callable[[], Snapshot], names: frozenset[str] | None = None) -> None:
        self._fetch = fetch
        self._names = names

    def collect(self) -> Iterable[Metric]:
        """Return every metric as it is now, or the samples that were asked for."""
        for family in families(self._fetch()):
            if self._names is not None:
                family.samples = [sample for sample in family.samples if sample.name in self._names]
            if self._names is None or family.samples:
                yield family

    def restricted_registry(self, names: Iterable[str]) -> _Fetched:
        """Return only the samples with these names, as ``?name[]=`` asks for them."""
        return _Fetched(self._fetch, frozenset(names))


def _hang_up(request: socket.socket) -> None:
    with suppress(OSError):  # it is over, as it should be
        request.shutdown(socket.SHUT_RDWR)


def _fetch(loop: asyncio.AbstractEventLoop, look: Callable[[], Awaitable[Snapshot]]) -> Snapshot:
    async def fetch() -> Snapshot:
        return await look()

    return asyncio.run_coroutine_threadsafe(fetch(), loop).result(PATIENCE)


def _guarded(application: Any, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    """Answer only who asks for an address: a page in a browser has a name, and could let it lead here."""
    host = str(environ.get("HTTP_HOST", ""))
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name not in ("", "localhost") and not _is_address(name):
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return iter([b"ask for the address, not for a name\n"])
    return iter(application(environ, start_response))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
