"""Where something may listen, and what is refused with a reason."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from supervisord_mcp.config.daemon import Metrics
from supervisord_mcp.config.listening import Tcp, Unix, parse_address


@pytest.mark.parametrize(
    ("text", "address", "loopback"),
    [
        ("127.0.0.1:9464", Tcp("127.0.0.1", 9464), True),
        ("127.7.0.1:1", Tcp("127.7.0.1", 1), True),
        ("localhost:80", Tcp("127.0.0.1", 80), True),
        ("[::1]:65535", Tcp("::1", 65535), True),
        ("[0:0::1]:9", Tcp("::1", 9), True),
        ("192.0.2.7:9464", Tcp("192.0.2.7", 9464), False),
        ("0.0.0.0:9464", Tcp("0.0.0.0", 9464), False),
        ("[::]:9464", Tcp("::", 9464), False),
    ],
)
def test_addresses(text: str, address: Tcp, loopback: bool) -> None:
    found = parse_address(text)
    assert found == address
    assert isinstance(found, Tcp)
    assert found.is_loopback is loopback


def test_sockets() -> None:
    assert parse_address("unix:/run/x.sock") == Unix("/run/x.sock")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is no address; write"),
        ("9464", "is no address; write"),
        ("127.0.0.1", "is no address; write"),
        ("::1:9464", "is no address; write"),
        ("127.0.0.1:", "is no address; write"),
        ("http://127.0.0.1:9464", "is no address; write"),
        ("example.com:9464", "'example.com' is no address of IP"),
        ("[127.0.0.1.1]:9464", "'127.0.0.1.1' is no address of IP"),
        ("127.0.0.1:0", "a port is between 1 and 65535"),
        ("127.0.0.1:65536", "a port is between 1 and 65535"),
        ("unix:x.sock", "must be absolute"),
        ("unix:/run/", "must be absolute"),
        ("unix:/" + "x" * 107, "at most 107 bytes"),
    ],
)
def test_what_is_no_address(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse_address(text)


def test_other_machines_are_let_in_by_name_only() -> None:
    assert Metrics().listen is None
    assert Metrics.model_validate({"listen": "off"}).listen is None
    assert Metrics(listen="unix:/run/x").listen == "unix:/run/x"
    with pytest.raises(ValidationError, match=r'other machines reach 0.0.0.0.*exposed = \["0.0.0.0"\]'):
        Metrics(listen="0.0.0.0:9464")
    with pytest.raises(ValidationError, match=r"other machines reach 192\.0\.2\.7"):
        Metrics(listen="192.0.2.7:9464", exposed=("192.0.2.8",))
    assert Metrics(listen="[2001:db8::7]:9464", exposed=("2001:DB8:0::7",)).exposed == ("2001:db8::7",)
    with pytest.raises(ValidationError, match="'here' is no address of IP"):
        Metrics(exposed=("here",))


def test_it_is_written_as_it_is_read() -> None:
    assert Metrics().model_dump(mode="json")["listen"] == "off"
    assert Metrics(listen="127.0.0.1:1").model_dump(mode="json")["listen"] == "127.0.0.1:1"
