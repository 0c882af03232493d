"""Rules of egress, as people write them and as they judge."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.egress.rules import MOST_RULES, Egress, Kind, Rule, normal, parse_rule, parse_rules

LABEL = st.from_regex(r"[a-z][a-z0-9]{0,8}", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join).filter(lambda name: name != "localhost")
PORT = st.integers(1, 65535)


def egress(*texts: str, private: bool = False) -> Egress:
    return Egress(parse_rules(texts, private=private))


@given(NAME, PORT, NAME, PORT)
def test_a_name_allows_itself_and_nothing_else(name: str, port: int, other: str, another: int) -> None:
    rules = egress(f"{name}:{port}")
    assert rules.match(name, port).allowed
    assert rules.match(f"{name.upper()}.", port).allowed
    assert rules.match(other, another).allowed == ((other, another) == (name, port))
    assert not rules.match(f"x.{name}", port).allowed
    assert not rules.match(f"x{name}", port).allowed
    assert not rules.match(f"{name}.x", port).allowed


@given(NAME, PORT, NAME)
def test_a_wildcard_allows_what_is_below_it(domain: str, port: int, label: str) -> None:
    rules = egress(f"*.{domain}:{port}")
    assert rules.match(f"{label}.{domain}", port).allowed
    assert not rules.match(domain, port).allowed
    assert not rules.match(f"x{domain}", port).allowed
    assert not rules.match(f"{label}.{domain}", port % 65535 + 1).allowed


@given(st.text(max_size=40), st.integers(-5, 70000))
def test_any_text_has_a_verdict(host: str, port: int) -> None:
    verdict = egress("internet", "*.a:1", "b:2").match(host, port)
    assert verdict.allowed == (not verdict.reason)


@given(st.text(max_size=40))
def test_what_is_normal_stays_so(text: str) -> None:
    try:
        name = normal(text)
    except ValueError:
        return
    assert normal(name) == name
    assert name == name.lower()
    assert name.isascii()


@given(NAME, PORT)
def test_a_rule_reads_as_it_is_written(name: str, port: int) -> None:
    for text in (f"{name}:{port}", f"*.{name}:{port}", f"[2606::1]:{port}", f"8.8.8.8:{port}", f"host-loopback:{port}"):
        assert str(parse_rule(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a", "host:port"),
        ("a:0", "host:port"),
        ("a:65536", "host:port"),
        ("a:٣", "host:port"),
        ("a:", "host:port"),
        (":1", "no name"),
        ("*:1", "no name"),
        ("*.*.a:1", "no name"),
        ("a b:1", "no name"),
        ("http://a:1", "no name"),
        ("127.1:1", "neither a name nor an address"),
        ("0x7f000001:1", "neither a name nor an address"),
        ("::1:1", "brackets"),
        ("*.10.0.0.1:1", "nothing below"),
        ("10.0.0.1:1", "private = true"),
        ("127.0.0.1:8080", "host-loopback:8080"),
        ("localhost:8080", "host-loopback:8080"),
        ("169.254.169.254:80", "metadata"),
        ("@nobody", "no set of rules"),
    ],
)
def test_a_wrong_rule_says_so(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        parse_rules([text])
    assert text in str(caught.value)


def test_private_opens_private_networks_and_what_is_written_as_a_number() -> None:
    rules = parse_rules(["10.1.2.3:5432", "169.254.169.254:80", "db.corp:5432"], private=True)
    literal, metadata, name = rules
    assert literal.objection(ipaddress.ip_address("10.1.2.3")) == ""
    assert metadata.objection(ipaddress.ip_address("169.254.169.254")) == ""
    assert name.objection(ipaddress.ip_address("10.1.2.3")) == ""
    assert name.objection(ipaddress.ip_address("127.0.0.1")) == "a loopback address"
    assert name.objection(ipaddress.ip_address("169.254.169.254")) == "a metadata address"
    with pytest.raises(ValueError, match="host-loopback"):
        parse_rules(["127.0.0.1:80"], private=True)


def test_a_name_that_leads_to_this_machine_is_refused() -> None:
    rule = parse_rule("a.b:443")
    assert rule.objection(ipaddress.ip_address("127.0.0.1")) == "a loopback address"
    assert rule.objection(ipaddress.ip_address("10.0.0.1")) == "a private address"
    assert rule.objection(ipaddress.ip_address("8.8.8.8")) == ""


def test_the_loopback_of_the_machine_is_a_rule_of_its_own() -> None:
    rule = parse_rule("host-loopback:5432")
    assert rule.kind is Kind.LOOPBACK
    assert rule.objection(ipaddress.ip_address("127.0.0.1")) == ""
    assert rule.objection(ipaddress.ip_address("10.0.0.1")) != ""
    assert egress("host-loopback:5432").match("host-loopback", 5432).allowed
    assert not egress("host-loopback:5432").match("host-loopback", 5433).allowed
    assert not egress("internet").match("host-loopback", 5432).allowed


def test_internet_is_every_name_and_every_address_that_is_part_of_it() -> None:
    rules = egress("internet")
    for host in ("a.b", "8.8.8.8", "2606:4700::1111"):
        assert rules.match(host, 12345).allowed
    for host, reason in (
        ("127.0.0.1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("10.0.0.1", "private"),
        ("169.254.169.254", "metadata"),
        ("fe80::1", "link-local"),
    ):
        assert reason in rules.match(host, 80).reason


def test_the_reason_tells_a_wrong_port_from_a_wrong_host() -> None:
    rules = egress("a.b:443")
    assert "port 80 is not" in rules.match("a.b", 80).reason
    assert "not in the rules" in rules.match("c.d", 443).reason


def test_what_the_configuration_of_another_program_names_may_lead_anywhere_but_to_credentials() -> None:
    rule = Rule(Kind.NAME, "registry.example", 443, private=True, trusted=True)
    for address in ("10.0.0.1", "127.0.0.1", "203.0.113.80", "169.254.1.1", "::1", "fd00::1"):
        assert rule.objection(ipaddress.ip_address(address)) == ""
    assert "metadata" in rule.objection(ipaddress.ip_address("169.254.169.254"))
    assert "metadata" in rule.objection(ipaddress.ip_address("::ffff:169.254.169.254"))
    assert Egress((rule,)).match("registry.example", 443).rule == rule
    assert not Egress((rule,)).match("10.0.0.1", 443).allowed


def test_names_of_the_world_have_one_spelling() -> None:
    assert normal("Bücher.example") == normal("xn--bcher-kva.EXAMPLE.") == "xn--bcher-kva.example"
    assert normal("straße.de") == "xn--strae-oqa.de"
    with pytest.raises(ValueError, match="no name"):
        normal("a\u202e.b")


def test_a_list_without_end_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 200"):
        parse_rules([f"a{number}.b:1" for number in range(MOST_RULES + 1)])
