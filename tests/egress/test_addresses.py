"""Which addresses a name may lead to, however they are written."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.egress.addresses import is_number_like, is_own, literal, objection, plain

PUBLIC = ("8.8.8.8", "93.184.216.34", "2606:4700::1111", "64:ff9b::808:808", "::ffff:8.8.8.8")
PRIVATE = ("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "198.18.0.1", "fec0::1")
NEVER = (
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "64:ff9b::7f00:1"),
    *("169.254.169.254", "169.254.1.1", "fe80::1", "fd00:ec2::254", "168.63.129.16", "100.100.100.200"),
    *("224.0.0.1", "ff02::1", "255.255.255.255", "240.0.0.1"),
    *("2002:7f00:1::", "2002:808:808::", "::7f00:1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "64:ff9b:1::1"),
)


@pytest.mark.parametrize("text", PUBLIC)
def test_the_internet_is_reached(text: str) -> None:
    assert objection(ipaddress.ip_address(text)) == ""


@pytest.mark.parametrize("text", PRIVATE)
def test_a_private_network_needs_its_word(text: str) -> None:
    assert objection(ipaddress.ip_address(text)) != ""
    assert objection(ipaddress.ip_address(text), private=True) == ""


@pytest.mark.parametrize("text", NEVER)
def test_the_machine_and_its_links_are_never_where_a_name_leads(text: str) -> None:
    assert objection(ipaddress.ip_address(text)) != ""
    assert objection(ipaddress.ip_address(text), private=True) != ""


@given(st.ip_addresses())
def test_nothing_that_is_not_global_goes_through(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not objection(address):
        inner = plain(address)
        if inner in ipaddress.ip_network("64:ff9b::/96"):
            inner = ipaddress.IPv4Address(int(inner) & 0xFFFFFFFF)
        assert inner.is_global
        assert not inner.is_multicast
        assert not is_own(inner)


@given(st.ip_addresses(v=4))
def test_an_address_inside_of_another_is_judged_as_itself(address: ipaddress.IPv4Address) -> None:
    for carrier in ("::ffff:0:0", "64:ff9b::"):
        inside = ipaddress.IPv6Address(int(ipaddress.IPv6Address(carrier)) | int(address))
        assert objection(inside) == objection(address)
        assert objection(inside, private=True) == objection(address, private=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.2.3.4", "1.2.3.4"),
        ("[2001:DB8::1]", "2001:db8::1"),
        ("::ffff:1.2.3.4", "1.2.3.4"),
        ("[1.2.3.4]", None),
        ("fe80::1%eth0", None),
        ("127.1", None),
        ("01.2.3.4", None),
        ("name", None),
        ("", None),
    ],
)
def test_literals(text: str, expected: str | None) -> None:
    found = literal(text)
    assert (None if found is None else str(found)) == expected


@pytest.mark.parametrize("name", ["127.1", "0x7f.0.0.0x1", "2130706433", "0177.0.0.01", "a.1", "0x", "1.2.3.4."])
def test_what_a_resolver_takes_for_a_number(name: str) -> None:
    assert is_number_like(name)


@pytest.mark.parametrize("name", ["a.b1", "1.a", "x0x1", "1-1", "3com.com"])
def test_what_is_a_name_for_everybody(name: str) -> None:
    assert not is_number_like(name)
