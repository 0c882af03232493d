"""One host of every official SDK with a server of another one through a daemon; what they say fits the schemas.

The whole matrix is `python -m contrib.matrix`; here every SDK is a host once and a server once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from contrib.matrix import pairs, table
from contrib.matrix.__main__ import PLACE
from contrib.matrix.peers import HOSTS, SERVERS
from contrib.matrix.world import running
from tests.kit.traffic import judge, recorded, tapped

pytestmark = [pytest.mark.slow, pytest.mark.npm]

PAIRS = [("py1", "ts1"), ("ts1", "py2"), ("py2-modern", "ts2"), ("ts2-modern", "py1"), ("py2-legacy", "everything")]


@pytest.mark.parametrize(("host_name", "server_name"), PAIRS)
def test_a_host_meets_a_server(host_name: str, server_name: str, tmp_path: Path) -> None:
    host = next(host for host in HOSTS if host.name == host_name)
    server = next(server for server in SERVERS if server.name == server_name)
    for kit in {host.kit, server.kit}:
        kit.install(PLACE)
    taps = {"server": tmp_path / "hosts", "client": tmp_path / "servers"}
    for folder in taps.values():
        folder.mkdir()
    with running(
        PLACE,
        [server],
        host=lambda name, command: tapped(taps["server"], name, command),
        server=lambda name, command: tapped(taps["client"], name, command),
    ) as world:
        outcome = asyncio.run(pairs.through(world, host, server))
    assert table.missing(outcome, pairs.Outcome()) == ([], []), outcome.checks
    connections = recorded(taps["server"], "server") + recorded(taps["client"], "client")
    assert len(connections) > pairs.EIGHT
    assert judge(connections) == []
