"""What was said on several connections is judged as a whole."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.kit import traffic
from tests.kit.conversation import call, request, result
from tests.kit.traffic import Connection

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "h", "version": "1"}}
SAID = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}


def greeted(connection: Connection) -> Connection:
    say(connection, "client", request(0, "initialize", HELLO))
    say(connection, "server", result(0, SAID))
    return connection


def say(connection: Connection, side: Any, message: Any) -> None:
    connection.add(side, json.dumps(message).encode())


def test_smcp_is_to_blame_for_its_own() -> None:
    host, child = greeted(Connection("h", "server")), greeted(Connection("c", "client"))
    say(host, "client", call(1))
    say(host, "server", result(1, {"a": 1}))
    (fault,) = traffic.judge([host, child])
    assert fault.startswith("smcp said to h: CallToolResult: 'content' is a required property")


def test_a_peer_on_another_connection_may_be_to_blame() -> None:
    host, child = greeted(Connection("h", "server")), greeted(Connection("c", "client"))
    say(host, "client", call(1))
    say(child, "client", call(7))
    say(child, "server", result(7, {"a": 1}))
    say(host, "server", result(1, {"a": 1}))
    assert traffic.judge([host, child]) == []


def test_a_flood_is_judged_by_its_beginning() -> None:
    host = Connection("h", "server")
    for _ in range(traffic.LINES + 5):
        host.add("client", b"{}")
    assert len(host.lines) == traffic.LINES
    all_of_it = Connection("c", "client", limit=None)
    for size in (1, traffic.LENGTH, traffic.LENGTH + 1):
        all_of_it.add("client", b" " * size)
    assert len(all_of_it.lines) == 2


def test_a_tap_passes_everything_on_and_records_it(tmp_path: Path) -> None:
    words = ["sh", "-c", 'read a; printf "%s\\n" "$a"; echo "$1"; exec cat; exit 3', "sh", "\u00e9"]
    command = traffic.tapped(tmp_path, "x", words)
    done = subprocess.run(command, input=b"one\ntwo", capture_output=True, timeout=30, check=True)
    assert done.stdout == "one\n\u00e9\ntwo".encode()
    (connection,) = traffic.recorded(tmp_path, "server")
    assert connection.name.startswith("x-")
    assert sorted(connection.lines) == [("client", b"one"), ("server", b"one"), ("server", "\u00e9".encode())]


def test_a_tap_ends_as_its_command_does(tmp_path: Path) -> None:
    command = traffic.tapped(tmp_path, "x", ["sh", "-c", "exit 3"])
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.wait(30) == 3
    command = traffic.tapped(tmp_path, "x", ["sh", "-c", "echo ready; exec sleep 60"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.terminate()
        assert process.wait(30) == 256 - 15
