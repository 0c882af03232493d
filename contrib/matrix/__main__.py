"""Install the SDKs, let every host meet every server through one daemon, print what works, write it to the README.

``python -m contrib.matrix`` does all of it; ``--hosts`` and ``--servers`` name some, and then the README is left alone.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from contrib.matrix import pairs, table
from contrib.matrix.peers import HOSTS, SERVERS, Host, Server
from contrib.matrix.world import World, running

#: Where the SDKs are installed unless told otherwise.
PLACE = Path.home() / ".cache" / "smcp-matrix"


async def meet(world: World, hosts: Sequence[Host], servers: Sequence[Server]) -> table.Found:
    """Let every host meet every server, one pair after the other, and say so on the way."""
    found = {}
    for host in hosts:
        for server in servers:
            direct = await pairs.direct(world, host, server)
            through = await pairs.through(world, host, server)
            found[host, server] = (through, direct)
            sys.stdout.write(table.report({(host, server): (through, direct)}))
            sys.stdout.flush()
    return found


def main(words: Sequence[str]) -> int:
    """Run the command and return its exit status: 1 if something works only without smcp."""
    parser = argparse.ArgumentParser(prog="python -m contrib.matrix", description=__doc__)
    parser.add_argument("--hosts", nargs="+", choices=[host.name for host in HOSTS], metavar="NAME")
    parser.add_argument("--servers", nargs="+", choices=[server.name for server in SERVERS], metavar="NAME")
    parser.add_argument("--place", type=Path, default=PLACE, help=f"where the SDKs are installed (default: {PLACE})")
    parser.add_argument("--no-readme", action="store_true", help="print only")
    parser.add_argument("--install", action="store_true", help="install the SDKs and do nothing more")
    options = parser.parse_args(words)
    hosts = [host for host in HOSTS if options.hosts is None or host.name in options.hosts]
    servers = [server for server in SERVERS if options.servers is None or server.name in options.servers]
    try:
        for kit in dict.fromkeys([*(host.kit for host in hosts), *(server.kit for server in servers)]):
            kit.install(options.place)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        sys.stderr.write(f"the SDKs cannot be installed: {said}\n")
        return 2
    if options.install:
        return 0
    with running(options.place, servers) as world:
        found = asyncio.run(meet(world, hosts, servers))
    text = table.table(found, hosts, servers)
    sys.stdout.write(f"\n{text}\n")
    if not options.no_readme and len(found) == len(HOSTS) * len(SERVERS):
        readme = table.README.read_text(encoding="utf-8")
        table.README.write_text(table.with_table(readme, text), encoding="utf-8")
    return int(any(table.missing(through, direct)[0] for through, direct in found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
