"""What clients say to a proxy, and what it answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.runtimes.egress import heads
from supervisord_mcp.runtimes.egress.heads import HeadError, Target


@pytest.mark.parametrize(
    ("where", "host", "port"),
    [("a.test:443", "a.test", 443), ("[2606::1]:443", "[2606::1]", 443), ("1.2.3.4:5", "1.2.3.4", 5)],
)
def test_a_tunnel(where: str, host: str, port: int) -> None:
    assert heads.http_target(f"CONNECT {where} HTTP/1.1\r\nHost: x".encode()) == Target(host, port)


def test_a_request_for_a_url_is_made_one_for_its_server() -> None:
    target = heads.http_target(
        b"POST http://a.test:8080/x%20y?q=1#part HTTP/1.1\r\nHost: other.test\r\nProxy-Authorization: Basic eA==\r\n"
        b"Connection: keep-alive\r\nContent-Length: 3"
    )
    assert (target.host, target.port, target.tunnel) == ("a.test", 8080, False)
    assert target.first == (
        b"POST /x%20y?q=1 HTTP/1.1\r\nHost: a.test:8080\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"
    )
    assert heads.http_target(b"GET http://a.test HTTP/1.1").first.startswith(b"GET / HTTP/1.1\r\nHost: a.test\r\n")
    assert heads.http_target(b"GET http://a.test?b HTTP/1.1").first.startswith(b"GET /?b HTTP/1.1\r\n")


def test_who_is_asked_is_who_is_named() -> None:
    target = heads.http_target(b"GET http://ok.test@evil.test/ HTTP/1.1")
    assert target.host == "evil.test"
    assert b"Host: evil.test\r\n" in target.first


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"GET / HTTP/1.1",
        b"GET https://a.test/ HTTP/1.1",
        b"GET ftp://a.test/ HTTP/1.1",
        b"CONNECT a.test HTTP/1.1",
        b"CONNECT a.test:x HTTP/1.1",
        b"CONNECT http://a.test:80 HTTP/1.1",
        b"GET http:///x HTTP/1.1",
        b"GET http://a.test:99999/ HTTP/1.1",
        b"GET http://[::1/ HTTP/1.1",
        b"GET http://a.test/ HTTP/2",
        b"GET  http://a.test/ HTTP/1.1",
        b"GET http://a.test/\x00 HTTP/1.1",
        b"GET http://a.test/ HTTP/1.1\r\nno field",
        b"GET http://a.test/ HTTP/1.1\r\nX : y",
        b"GET http://a.test/ HTTP/1.1\r\n folded: y",
        b"GET http://a.test/ HTTP/1.1\r\nX: y\nHost: z",
    ],
)
def test_what_no_proxy_is_asked(head: bytes) -> None:
    with pytest.raises(HeadError):
        heads.http_target(head)


@given(st.binary(max_size=200), st.sampled_from([b"CONNECT ", b"GET http://", b"GET http://a.test/ HTTP/1.1\r\n", b""]))
def test_any_head_is_a_target_or_a_fault(head: bytes, start: bytes) -> None:
    try:
        target = heads.http_target(start + head)
    except HeadError:
        return
    assert target.host
    assert b"\r\n\r\n" not in target.first[:-4]


def test_a_refusal_names_its_reason_twice_and_is_one_line() -> None:
    said = heads.http_answer(403, "not\r\nin the rules")
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 Forbidden (smcp: not??in the rules)\r\n")
    assert body == b"smcp: not??in the rules\n"


def test_requests_of_socks() -> None:
    name = b"\x05\x01\x00\x03\x06a.test\x01\xbb"
    four = b"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50"
    six = b"\x05\x01\x00\x04" + bytes(15) + b"\x01\x00\x50"
    assert heads.socks_target(name) == Target("a.test", 443)
    assert heads.socks_target(four) == Target("1.2.3.4", 80)
    assert heads.socks_target(six) == Target("::1", 80)
    for request in (name, four, six):
        assert heads.socks_size(request) == len(request)
        assert heads.socks_size(request[:3]) > 3


@pytest.mark.parametrize(
    ("request_", "code"),
    [(b"\x05\x02\x00\x01" + bytes(6), 7), (b"\x05\x01\x00\x09" + bytes(6), 8), (b"\x04\x01\x00\x01" + bytes(6), 1)],
)
def test_what_else_socks_may_be_asked(request_: bytes, code: int) -> None:
    with pytest.raises(HeadError) as caught:
        heads.socks_target(request_)
    assert caught.value.status == code
