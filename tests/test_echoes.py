"""Secrets that a server sends to a host."""

from __future__ import annotations

import json

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.echoes import Echoes
from supervisord_mcp.observer import Event, Observers
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.framing import Oversized

TOKEN = 'the "secret"/value'


class Listener:
    """Keeps what is told, and the lines that went on."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.events: list[Event] = []
        self.taken: list[bytes | Oversized] = []
        observers = Observers()
        observers.add(self.events.append)
        self.watch = Echoes(InstanceKey("s", "0" * 16), self, observers).watching(self.taken.append)

    def write(self, source: str, text: str, *, session: int = 0) -> None:
        self.lines.append(f"{source} {text}")


def test_a_secret_in_a_message_is_told_and_the_message_goes_on_as_it_is() -> None:
    masker.learn(TOKEN, "vault:mine")
    heard = Listener()
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"text": TOKEN}}).encode()
    heard.watch(line)
    assert heard.taken == [line]
    assert heard.lines == ["smcp echo: it sent a secret in a message to a host: vault:mine"]
    [event] = heard.events
    assert (event.kind, event.server) == ("echo", "s")
    assert (event.data["secrets"], event.data["count"]) == (["vault:mine"], 1)
    assert TOKEN not in str(heard.events)


def test_it_is_told_less_and_less_often() -> None:
    masker.learn(TOKEN, "vault:mine")
    masker.learn("another value", "env:OTHER")
    heard = Listener()
    for _ in range(120):
        heard.watch(json.dumps([TOKEN]).encode())
    assert [event.data["count"] for event in heard.events] == [1, 10, 100]
    assert heard.lines[-1].endswith("vault:mine (100 times by now)")
    heard.watch(json.dumps([TOKEN, "another value"]).encode())
    assert heard.events[-1].data["secrets"] == ["env:OTHER"]
    assert len(heard.taken) == 121


def test_what_reaches_no_host_is_not_told() -> None:
    masker.learn(TOKEN, "vault:mine")
    heard = Listener()
    lines: list[bytes | Oversized] = [
        f"noise {TOKEN}".encode(),
        b'{"a": 1}',
        Oversized(f'{{"{TOKEN}'.encode(), b"", 1 << 30),
    ]
    for line in lines:
        heard.watch(line)
    assert heard.taken == lines
    assert heard.lines == []
    assert heard.events == []
