"""Which hosts the pages of an index refer to."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.packages import links
from supervisord_mcp.packages.links import fetch, linked_hosts
from tests.packages.registry import place

PAGE = "https://index.test/simple/a/"


def test_pages_in_html_and_json() -> None:
    text = """<a href="https://files.test/a.whl#sha256=1">a</a> <A data-x='1' HREF='../../b.whl'>b</A>
    <a class=x href=https://three.test:81/c>c</a> <a href="https://amp.test/?a&amp;b">d</a> <link href="https://no.test/">
    <a href="ftp://no.test/">e</a> <a href="https://[bad">f</a> <a>g</a>"""
    assert linked_hosts(PAGE, "text/html", text) == {
        *("https://files.test", "https://index.test", "https://three.test:81", "https://amp.test")
    }
    files = [{"url": "https://files.test/a"}, {"url": "/b"}, {}, 5, {"url": None}]
    found = linked_hosts(PAGE, "application/vnd.pypi.simple.v1+json", json.dumps({"files": files}))
    assert found == {"https://files.test", "https://index.test"}
    assert linked_hosts(PAGE, "application/json", "[]") == set()
    assert linked_hosts(PAGE, "text/html", '<a href="https://[::1]:80/">x</a>') == {"https://[::1]:80"}


@given(st.text(max_size=200), st.sampled_from(["text/html", "application/json"]))
def test_any_page_is_read(text: str, kind: str) -> None:
    try:
        found = linked_hosts(PAGE, kind, text)
    except ValueError:
        return
    assert all(host.startswith(("http://", "https://")) for host in found)


def test_a_page_is_fetched_with_the_password_of_its_url() -> None:
    with place() as local:
        local.wheel("a", files="https://files.test")
        url = f"http://me:p%40ss@127.0.0.1:{local.port}/simple/a/"
        assert fetch(url, (), "") == {"https://files.test"}
        assert local.authorizations == ["Basic bWU6cEBzcw=="]
        with pytest.raises(OSError, match="404"):
            fetch(f"{local.url}/simple/b/", ("127.0.0.1",), "")


def test_an_answer_is_a_host_a_line(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    with place() as local:
        local.wheel("a", files="https://files.test")
        local.wheel("b", files="https://other.test")
        asked = {"urls": [f"{local.url}/simple/", "http://127.0.0.1:1"], "names": ["a", "b", "c"]}
        question = {**asked, "insecure": [], "certificates": ""}
        monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(question)))
        links.main()
    assert capfd.readouterr().out == "https://files.test\nhttps://other.test\n"
