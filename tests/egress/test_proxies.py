"""The proxies of a person: which one serves a host, and what is reached without."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.egress.proxies import Proxies, Proxy, bypasses, parse_proxy


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.corp:3128", Proxy("proxy.corp", 3128)),
        ("http://proxy.corp:3128/", Proxy("proxy.corp", 3128)),
        ("proxy.corp:3128", Proxy("proxy.corp", 3128)),
        ("http://10.0.0.1", Proxy("10.0.0.1", 80)),
        ("http://[::1]:8080", Proxy("::1", 8080)),
        ("http://me:s%40e@p:1", Proxy("p", 1, f"Basic {base64.b64encode(b'me:s@e').decode()}")),
    ],
)
def test_a_proxy_is_a_host_with_a_port(url: str, proxy: Proxy) -> None:
    assert parse_proxy(url) == proxy
    assert "Basic" not in repr(parse_proxy(url))


@pytest.mark.parametrize("url", ["https://p:1", "socks5://p:1", "http://", "http://p:x", "http://[p", ""])
def test_what_is_no_proxy_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="proxy") as caught:
        parse_proxy(url.replace("//", "//me:s3cret@"))
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "host", "port", "found"),
    [
        ("", "a.b", 443, False),
        ("*", "a.b", 443, True),
        ("a.b", "a.b", 443, True),
        ("b", "a.b", 443, True),
        (".b", "a.b", 443, True),
        ("*.b", "a.b", 443, True),
        ("b", "ab", 443, False),
        ("x, a.b ,y", "A.B.", 443, True),
        ("a.b:443", "a.b", 443, True),
        ("a.b:80", "a.b", 443, False),
        ("10.0.0.0/8", "10.1.2.3", 443, True),
        ("10.0.0.0/8", "11.1.2.3", 443, False),
        ("::1", "::1", 443, True),
        ("[::1]:80", "::1", 443, False),
        ("[::1]:443", "::1", 443, True),
        (".", "a.b", 443, False),
    ],
)
def test_what_is_reached_without_a_proxy(text: str, host: str, port: int, found: bool) -> None:
    assert bypasses(text, host, port) is found


def test_a_proxy_serves_its_scheme() -> None:
    proxies = Proxies("http://one:1", "http://two:2", "direct.test")
    assert proxies.find("http", "a.test", 80) == Proxy("one", 1)
    assert proxies.find("https", "a.test", 443) == Proxy("two", 2)
    assert proxies.find("https", "x.direct.test", 443) is None
    assert Proxies().find("https", "a.test", 443) is None
    assert "one" not in repr(proxies), "it may hold a password"


@given(st.text(max_size=40), st.text(max_size=20), st.integers(1, 65535))
def test_any_text_is_judged(text: str, host: str, port: int) -> None:
    assert bypasses(text, host, port) in (True, False)
    with contextlib.suppress(ValueError):
        assert 0 < parse_proxy(text).port < 65536
