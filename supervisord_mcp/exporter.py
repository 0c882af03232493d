"""Opens and closes the place where Prometheus fetches metrics, as the configuration says; by default there is none."""

from __future__ import annotations

import logging
import os
import socket
import stat
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from supervisord_mcp.config.daemon import Metrics
from supervisord_mcp.config.listening import Tcp, Unix, parse_address

if TYPE_CHECKING:
    from supervisord_mcp.metrics.exposition import Snapshot
    from supervisord_mcp.metrics.scraping import ScrapeServer

_log = logging.getLogger(__name__)


class Exporter:
    """The one place, or none. ``look`` returns what there is to be told."""

    def __init__(self, look: Callable[[], Awaitable[Snapshot]]) -> None:
        #: Why it is not where it is wanted, or the empty text.
        self.trouble = ""
        self._look = look
        self._wanted: str | None = None
        self._server: ScrapeServer | None = None
        self._node: tuple[str, int, int] | None = None

    def configure(self, metrics: Metrics) -> None:
        """Take a new configuration. What cannot be opened is logged and in ``trouble``; a reload tries again."""
        if metrics.listen == self._wanted and not self.trouble:
            return
        self.close()
        self._wanted = metrics.listen
        if metrics.listen is None:
            return
        from supervisord_mcp.metrics.scraping import ScrapeServer

        try:
            address = parse_address(metrics.listen)
            guarded = isinstance(address, Tcp) and address.is_loopback
            self._server = ScrapeServer(self._open(address), self._look, guarded=guarded)
        except OSError as error:
            self.trouble = (
                f"metrics are not to be had on {metrics.listen}: {error.strerror or error}; smcp reload tries again"
            )
            _log.error("%s", self.trouble)
        else:
            _log.info("metrics for Prometheus are on %s", metrics.listen)

    def close(self) -> None:
        """Close it; a socket file goes with it, if it is still our own."""
        self.trouble = ""
        self._wanted = None
        if self._server is not None:
            self._server.close()
            self._server = None
        node, self._node = self._node, None
        if node is not None and _identify(node[0]) == node[1:]:
            with suppress(OSError):
                os.unlink(node[0])

    def _open(self, address: Tcp | Unix) -> socket.socket:
        match address:
            case Tcp(host, port):
                family = socket.AF_INET6 if ":" in host else socket.AF_INET
                listening = socket.socket(family, socket.SOCK_STREAM)
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                return _listening(listening, (host, port))
            case Unix(path):
                _remove_stale(path)
                listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                # The node gets the mode of the descriptor less the umask, so there is no moment in which it is wider.
                os.fchmod(listening.fileno(), 0o600)
                listening = _listening(listening, path)
                if (found := _identify(path)) is not None:
                    self._node = (path, *found)
                return listening


def _listening(listening: socket.socket, address: tuple[str, int] | str) -> socket.socket:
    try:
        listening.bind(address)
        listening.listen(16)
        listening.setblocking(False)
    except OSError:
        listening.close()
        raise
    return listening


def _remove_stale(path: str) -> None:
    """Remove a socket on which nobody listens; raise `OSError` where something else is in its place."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise FileExistsError(17, "something that is no socket is there")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                os.unlink(path)


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
