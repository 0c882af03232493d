"""The forms in which a secret is looked for."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.credentials.forms import LONG_VALUE, MIN_LENGTH, forms, is_ordinary, weakness

values = st.text(st.characters(exclude_categories=["Cs"]), min_size=8, max_size=60).filter(
    lambda text: len(text.strip().encode()) >= MIN_LENGTH
)


@pytest.mark.parametrize("value", ["", "a", "12345", " hush \n", "äö1"])
def test_what_is_short_has_no_form(value: str) -> None:
    assert forms(value) == frozenset()


def test_what_is_just_long_enough_has_some() -> None:
    assert b"hushed" in forms("hushed")
    assert "äöü".encode() in forms("äöü")


@pytest.mark.parametrize(
    "value",
    ["postgres", " python3\n", "RUNNING", "Größe", "server-v2.1", "mcp/postgres:16", "12345678", "10.0.0.1:8080"],
)
def test_words_and_numbers_are_ordinary(value: str) -> None:
    assert is_ordinary(value)
    assert "ordinary word" in weakness(value)


@pytest.mark.parametrize(
    "value", ["hunter2!", "aBcDeFgH", "s3cret-value", "user2023", "correct horse battery", "p=ssword"]
)
def test_what_has_variety_or_length_is_not(value: str) -> None:
    assert not is_ordinary(value)
    assert weakness(value) == ""


def test_of_a_short_value_it_is_said_that_it_is_not_masked() -> None:
    assert "not masked" in weakness("a1!")


def test_blanks_around_a_value_are_none_of_it() -> None:
    assert forms(" s3cret-value\n") == forms("s3cret-value")


@given(values, st.binary(max_size=4), st.binary(max_size=4))
def test_base64_wherever_it_begins(value: str, before: bytes, after: bytes) -> None:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + value.strip().encode() + after)
        assert any(form in text for form in forms(value))


@given(values)
def test_every_way_to_write_it(value: str) -> None:
    found, value = forms(value), value.strip()
    for text in (
        value,
        quote(value),
        quote(value, safe=""),
        quote(value, safe="-_.!~*'()"),
        quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(json.dumps(value))[3:-3],
        repr(value)[1:-1],
        repr(value.encode())[2:-1],
    ):
        assert text.encode() in found


def test_letters_of_a_url_may_be_small() -> None:
    assert b"p%c3%a4ss%2fword" in forms("päss/word")
    assert b"P%c3%a4ss%2Fword" not in forms("Päss/word")


def test_lines_of_a_secret_of_several_lines() -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nshort\n-----END KEY-----"
    found = forms(key)
    assert b"MIIEvQIBADANBgkqhkiG9w0" in found
    assert key.replace("\n", "\r\n").encode() in found
    assert not {b"short", b"-----BEGIN KEY-----"} & found


def test_a_whole_file_is_looked_for_in_a_few_forms() -> None:
    value = "a line of a long secret\n" * (LONG_VALUE // 20)
    found, encoded = forms(value), base64.b64encode(value.strip().encode() + b"!").decode()
    assert {value.strip().encode(), json.dumps(value.strip())[1:-1].encode()} < found
    assert any(form.decode() in encoded for form in found)
    assert len(found) == 4
