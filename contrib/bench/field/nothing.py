"""An answer over HTTP with nothing behind it: what a raw client and HTTP itself cost, without any gateway.

Run as a script, without the project: ``nothing.py PORT``. It answers as the tiny server does, in the same process.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING or __name__ != "__main__":
    from contrib.bench.server import result
else:
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from server import result


def main() -> None:
    """Answer until the process is ended."""
    with socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()


def answer(connection: socket.socket) -> None:
    """Answer every request on a connection."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection, connection.makefile("rb", buffering=1 << 16) as stream:
        while stream.readline():
            length = 0
            while line := stream.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    length = int(value)
            message = json.loads(stream.read(length) or b"{}")
            body, status = b"", b"202 Accepted"
            if "id" in message:
                found = result(message["method"], message.get("params", {}))
                body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found}).encode()
                status = b"200 OK"
            head = b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
            connection.sendall(head + body)


if __name__ == "__main__":
    main()
