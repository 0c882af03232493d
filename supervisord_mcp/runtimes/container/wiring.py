"""The connections of the library to an engine: made by us where it is behind ssh, and noted where they may be cut.

It is imported when there is an engine to talk to, for it needs the library.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING, Any

from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

from supervisord_mcp.runtimes.container.bridge import Bridge

if TYPE_CHECKING:
    import docker


def through(client: docker.APIClient, bridge: Bridge) -> docker.APIClient:
    """Let every connection of a client be one of ssh's; return the client."""
    client.mount(client.base_url, _BridgeAdapter(bridge, client.timeout))
    return client


class _BridgeConnection(UnixHTTPConnection):
    """A connection over ssh."""

    def __init__(self, bridge: Bridge, timeout: Any) -> None:
        super().__init__("", "", timeout)
        self._bridge = bridge

    def connect(self) -> None:
        """Connect. Raise `OSError` where there is no ssh."""
        self.sock = self._bridge.open()
        self.sock.settimeout(self.timeout)


class _BridgePool(UnixHTTPConnectionPool):
    """Connections over ssh, each for one request."""

    def __init__(self, bridge: Bridge, timeout: Any) -> None:
        super().__init__("", "", timeout)
        self._bridge = bridge

    def _new_conn(self) -> Any:
        return _BridgeConnection(self._bridge, self.timeout)


class _BridgeAdapter(UnixHTTPAdapter):
    """What the library asks for connections."""

    def __init__(self, bridge: Bridge, timeout: Any) -> None:
        super().__init__("")
        self._pool = _BridgePool(bridge, timeout)

    def get_connection(self, url: str | bytes, proxies: object = None) -> _BridgePool:
        """Return where connections come from."""
        return self._pool

    def close(self) -> None:
        """Close what is open and used by nobody."""
        self._pool.close()
        super().close()


class Cut:
    """Ends from outside what a client does, also while it waits for the first byte of an answer."""

    def __init__(self, client: docker.APIClient) -> None:
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self._done = False
        adapter: Any = client.get_adapter(client.base_url)
        find = adapter.get_connection_with_tls_context

        def found(*arguments: Any, **named: Any) -> Any:
            return self._watched(find(*arguments, **named))

        adapter.get_connection_with_tls_context = found

    @property
    def done(self) -> bool:
        """Whether it was cut."""
        return self._done

    def now(self) -> None:
        """End it, now and from now on. Idempotent."""
        with self._lock:
            self._done = True
            for each in self._sockets:
                _end(each)

    def _watched(self, pool: Any) -> Any:
        make = pool._new_conn  # noqa: SLF001 (there is no other way to know a connection before its answer)

        def made() -> Any:
            connection = make()
            connect = connection.connect

            def connected() -> None:
                connect()
                with self._lock:
                    self._sockets.append(connection.sock)
                    if self._done:
                        _end(connection.sock)

            connection.connect = connected
            return connection

        pool._new_conn = made  # noqa: SLF001
        return pool


def _end(channel: socket.socket) -> None:
    with contextlib.suppress(OSError, ValueError):
        # Not in the way of TLS, which would talk about it.
        socket.socket.shutdown(channel, socket.SHUT_RDWR)
