"""What a sandbox gets for its rules, and the names that have addresses in it."""

from __future__ import annotations

import ipaddress

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.runtimes.egress import plan as plans
from supervisord_mcp.runtimes.egress.plan import (
    POOL,
    Listener,
    Names,
    hosts_file,
    plan,
    proxy_environment,
    resolver_file,
)

ALWAYS = {
    Listener("127.0.0.1", 53),
    Listener("127.0.0.1", 53, datagrams=True),
    Listener("127.0.0.1", 1080),
    Listener("127.0.0.1", 3128),
}


def egress(*texts: str, private: bool = False) -> Egress:
    return Egress(parse_rules(texts, private=private))


def test_names_have_listeners_of_their_own() -> None:
    made = plan(egress("b.test:443", "a.test:80", "b.test:80"))
    assert made.hosts == (("a.test", "198.18.0.2"), ("b.test", "198.18.0.3"))
    own = {Listener("198.18.0.2", 80), Listener("198.18.0.3", 80), Listener("198.18.0.3", 443)}
    assert set(made.listeners) == ALWAYS | own
    assert made.routes == ("198.18.0.0/15",)


def test_a_wildcard_takes_its_port_everywhere() -> None:
    made = plan(egress("a.test:443", "a.test:80", "*.b.test:443", "*.b.test:53"))
    assert set(made.listeners) == (ALWAYS - {Listener("127.0.0.1", 53)}) | {
        Listener("198.18.0.2", 80),
        Listener("0.0.0.0", 443),
        Listener("0.0.0.0", 53),
    }


def test_addresses_are_made_local() -> None:
    made = plan(egress("8.8.8.8:53", "[2606::1]:443", "10.0.0.1:5432", private=True))
    assert made.routes == ("10.0.0.1/32", "198.18.0.0/15", "2606::1/128", "8.8.8.8/32")
    assert {Listener("8.8.8.8", 53), Listener("2606::1", 443), Listener("10.0.0.1", 5432)} <= set(made.listeners)


def test_the_loopback_of_the_machine_is_also_where_programs_expect_it() -> None:
    made = plan(egress("host-loopback:5432"))
    assert set(made.listeners) == ALWAYS | {Listener("127.0.0.1", 5432), Listener("198.18.0.2", 5432)}
    names = Names(egress("host-loopback:5432"))
    assert names.name("127.0.0.1") == names.name("198.18.0.2") == "host-loopback"


def test_the_internet_is_local() -> None:
    made = plan(egress("internet", "a.test:443"))
    assert {"0.0.0.0/0", "::/0"} < set(made.routes)
    assert Listener("::", 443) in made.listeners
    assert Listener("198.18.0.2", 443) not in made.listeners


@given(st.lists(st.sampled_from(["a", "b", "c.w", "d.w", "e.x.w", "w", "z"]), max_size=30))
def test_an_address_means_the_name_it_was_given_for(asked: list[str]) -> None:
    names = Names(egress("a:1", "b:2", "*.w:3"))
    for name in asked:
        address = names.address(name)
        assert (address is None) == (name in ("w", "z"))
        if address is not None:
            assert names.name(address) == name
            assert ipaddress.ip_address(address) in POOL
            assert names.address(name) == address


def test_names_below_a_wildcard_do_not_fill_the_memory() -> None:
    names = Names(egress("*.w:1"))
    first = names.address("first.w")
    assert first is not None
    last = [names.address(f"a{number}.w") for number in range(plans.MOST_NAMES)]
    assert names.name(first) is None
    assert len(set(last)) == plans.MOST_NAMES
    assert first not in last
    assert names.address("first.w") not in (first, None)


def test_an_address_that_stands_for_nothing_is_nothing() -> None:
    names = Names(egress("a:1"))
    assert names.name("198.18.77.7") is None
    assert names.name("8.8.8.8") == "8.8.8.8"
    assert names.name("nonsense") is None


def test_files_of_the_sandbox() -> None:
    assert hosts_file(egress("a.test:1"), "127.0.0.1 localhost\n") == "127.0.0.1 localhost\n198.18.0.2 a.test\n"
    assert "nameserver 127.0.0.1\n" in resolver_file()


def test_programs_are_pointed_to_the_proxy_and_may_have_their_own() -> None:
    env = dict(proxy_environment([("PATH", "/bin"), ("HTTPS_PROXY", "mine")]))
    assert env["HTTPS_PROXY"] == "mine"
    assert env["https_proxy"] == env["npm_config_https_proxy"] == "http://127.0.0.1:3128"
    assert env["PATH"] == "/bin"
    assert env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert env["NODE_USE_ENV_PROXY"] == "1"
