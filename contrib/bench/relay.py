"""A process between a host and a server that does nothing but move bytes: the least that anything in Python costs.

Run as a script, without the project: ``relay.py COMMAND WORD…``. ``relay.c`` is the same in C.
"""

from __future__ import annotations

import os
import select
import sys

_CHUNK = 1 << 16


def main() -> None:
    """Start the command, and move bytes both ways until one side ends."""
    theirs_in, to_server = os.pipe()
    from_server, theirs_out = os.pipe()
    files = [(os.POSIX_SPAWN_DUP2, theirs_in, 0), (os.POSIX_SPAWN_DUP2, theirs_out, 1)]
    os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=files)
    os.close(theirs_in)
    os.close(theirs_out)
    ways = {0: to_server, from_server: 1}
    poll = select.poll()
    for source in ways:
        poll.register(source, select.POLLIN)
    while True:
        for source, _ in poll.poll():
            data = os.read(source, _CHUNK)
            if not data:
                return
            while data:
                data = data[os.write(ways[source], data) :]


if __name__ == "__main__":
    main()
