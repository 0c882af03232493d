"""The registries that configuration files of npm, pip and uv name, and the rules for them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.egress.proxies import Proxies, Proxy
from supervisord_mcp.egress.registries import (
    npm_registries,
    pip_registries,
    registry_rules,
    shown,
    uv_registries,
)
from supervisord_mcp.egress.rules import Kind, Rule

NPMRC = """
; a comment
# registry=https://not.test
registry = "https://one.test/npm/"
@scope:registry=https://${HOST}/npm/
//one.test/npm/:_authToken=${TOKEN}
cafile=/etc/ca.pem
ignored
[section]
registry=https://section.test
"""
PIP = """
[global]
index-url = https://me:s3cret@one.test/simple
extra-index-url =
    https://two.test/simple
    file:///opt/index/simple
[install]
find_links = /opt/wheels https://three.test/wheels
trusted-host = two.test
cert = /etc/ca.pem
[list]
index-url = https://list.test/simple
"""
UV = """
find-links = ["/opt/wheels"]
[[index]]
name = "one"
url = "https://one.test/simple"
[[index]]
url = "https://two.test/simple"
default = true
[pip]
extra-index-url = ["https://three.test/simple"]
"""


def test_npm_has_a_registry_and_others_for_scopes() -> None:
    found = npm_registries(["registry=https://zero.test", NPMRC], {"HOST": "two.test"})
    assert found.urls == ("https://one.test/npm/", "https://two.test/npm/")
    assert not found.default
    assert found.certificates == "/etc/ca.pem"
    assert npm_registries([], {}).default


def test_variables_win_over_files_of_npm() -> None:
    environ = {"NPM_CONFIG_REGISTRY": "https://env.test", "npm_config_@own:registry": "https://own.test"}
    assert npm_registries([NPMRC], environ).urls == ("https://env.test", "https://own.test")
    assert npm_registries([NPMRC], {"npm_config_registry": ""}).urls[0] == "https://one.test/npm/"


@pytest.mark.parametrize(
    ("text", "environ", "proxies"),
    [
        ("", {}, Proxies()),
        (
            "",
            {"https_proxy": "http://a:1", "HTTP_PROXY": "http://b:1", "NO_PROXY": "c"},
            ("http://b:1", "http://a:1", "c"),
        ),
        (
            "proxy=http://p:1\nnoproxy=x",
            {"https_proxy": "http://a:1", "NO_PROXY": "c"},
            ("http://p:1", "http://p:1", "x"),
        ),
        ("https-proxy=http://s:1", {"HTTP_PROXY": "http://b:1"}, ("http://b:1", "http://s:1", "")),
        ("https-proxy=http://s:1", {"npm_config_https_proxy": "http://e:1"}, ("", "http://e:1", "")),
        ("", {"PROXY": "http://p:1"}, ("http://p:1", "http://p:1", "")),
    ],
)
def test_proxies_of_npm(text: str, environ: Mapping[str, str], proxies: Proxies | tuple[str, str, str]) -> None:
    wanted = proxies if isinstance(proxies, Proxies) else Proxies(*proxies)
    assert npm_registries([text], environ).proxies == wanted


def test_pip_has_indexes_and_places_of_files() -> None:
    found = pip_registries(["[global]\nindex-url=https://zero.test\nproxy=http://p:1", PIP], {})
    assert found.urls == (
        *("https://me:s3cret@one.test/simple", "https://two.test/simple", "file:///opt/index/simple"),
        *("/opt/wheels", "https://three.test/wheels"),
    )
    assert (found.default, found.insecure, found.certificates) == (False, ("two.test",), "/etc/ca.pem")
    assert found.proxies == Proxies("http://p:1", "http://p:1", "")
    assert "s3cret" not in repr(found)
    environ = {"PIP_INDEX_URL": "https://env.test", "PIP_EXTRA_INDEX_URL": "", "REQUESTS_CA_BUNDLE": "/x"}
    assert pip_registries([PIP], environ).urls[:2] == ("https://env.test", "/opt/wheels")
    alone = pip_registries([PIP], {"PIP_NO_INDEX": "1"})
    assert (alone.urls, alone.default) == (("/opt/wheels", "https://three.test/wheels"), False)
    assert pip_registries(["nonsense ["], {}).default


def test_uv_has_indexes_with_names_and_a_default() -> None:
    found = uv_registries([UV], {})
    assert found.urls == (
        *("https://two.test/simple", "https://one.test/simple", "https://three.test/simple"),
        "/opt/wheels",
    )
    assert not found.default
    environ = {"UV_DEFAULT_INDEX": "own=https://env.test/?a=b", "UV_INDEX": "x=https://x.test https://y.test"}
    assert uv_registries([UV], environ).urls[:3] == ("https://env.test/?a=b", "https://x.test", "https://y.test")
    assert uv_registries([UV], {"UV_NO_INDEX": "true"}).urls == ("/opt/wheels",)
    assert uv_registries(['index-url = "https://a.test"'], {}).urls == ("https://a.test",)
    assert uv_registries(["nonsense ["], {"UV_INSECURE_HOST": "a.test b.test"}).insecure == ("a.test", "b.test")
    assert uv_registries([], {"all_proxy": "http://p:1"}).proxies.https == "http://p:1"


def test_rules_open_the_hosts_and_nothing_else() -> None:
    urls = [
        "https://me:s@One.test/npm",
        "http://two.test:81/",
        "https://one.test/other",
        "file:///x",
        "/wheels",
        "wheels",
    ]
    assert registry_rules(urls, Proxies()) == (
        Rule(Kind.NAME, "one.test", 443, private=True, trusted=True),
        Rule(Kind.NAME, "two.test", 81, private=True, trusted=True),
    )
    assert registry_rules(["http://10.0.0.1:81/"], Proxies()) == (
        Rule(Kind.ADDRESS, "10.0.0.1", 81, private=True, trusted=True),
    )


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.2", "[::1]", "npm.localhost"])
def test_a_registry_on_this_machine(host: str) -> None:
    assert registry_rules([f"http://{host}:4873/"], Proxies()) == (Rule(Kind.LOOPBACK, "host-loopback", 4873),)


def test_a_rule_goes_through_the_proxy_of_the_person() -> None:
    proxies = Proxies("http://p:1", "http://p:1", "direct.test")
    through, direct = registry_rules(["https://a.test", "https://direct.test"], proxies)
    assert (through.via, direct.via) == (Proxy("p", 1), None)


@pytest.mark.parametrize(
    "url", ["ssh://me:s3cret@a.test", "https://", "https://${HOST}/", "https://a.test:x/", "https://[a"]
)
def test_what_nothing_can_be_fetched_from_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|host|name") as caught:
        registry_rules([url], Proxies())
    assert "s3cret" not in str(caught.value)


def test_a_url_is_shown_without_secrets() -> None:
    assert shown("https://me:s3cret@a.test:1/x?token=s3cret#s3cret") == "https://a.test:1/x"
    assert shown("/opt/x") == "/opt/x"


NAMES = st.sampled_from(["npm_config_registry", "PIP_INDEX_URL", "UV_INDEX", "UV_DEFAULT_INDEX", "https_proxy", "X"])


@given(st.lists(st.text(max_size=80), max_size=3), st.dictionaries(NAMES, st.text(max_size=30)))
def test_any_text_is_read(texts: list[str], environ: dict[str, str]) -> None:
    for read in (npm_registries, pip_registries, uv_registries):
        found = read(texts, environ)
        try:
            rules = registry_rules(found.urls, found.proxies)
        except ValueError:
            continue
        assert all(rule.port for rule in rules)


HOST = st.from_regex(r"[a-z][a-z0-9]{0,8}\.test", fullmatch=True)


@given(HOST, st.integers(1, 65535), st.sampled_from(["http", "https"]), st.text("abc/", max_size=5))
def test_every_program_opens_the_host_that_it_was_told(host: str, port: int, scheme: str, path: str) -> None:
    url = f"{scheme}://{host}:{port}/{path}"
    wanted = (Rule(Kind.NAME, host, port, private=True, trusted=True),)
    for found in (
        npm_registries([f"registry={url}"], {}),
        pip_registries([f"[global]\nindex-url={url}"], {}),
        uv_registries([f'index-url = "{url}"'], {}),
    ):
        assert registry_rules(found.urls, found.proxies) == wanted
