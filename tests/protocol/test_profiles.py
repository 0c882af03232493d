"""What hosts of a shared child have in common."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.jsonrpc import parse, text_of, value_of
from supervisord_mcp.protocol.profiles import Profile, Root, roots_of, wants_roots, words_of

NEWEST = "2025-11-25"


@pytest.mark.parametrize(
    ("declared", "version", "words"),
    [
        ({}, NEWEST, ()),
        ({"tasks": {}, "experimental": {"x": {}}, "roots": {"listChanged": True}}, NEWEST, ()),
        ({"elicitation": {}}, NEWEST, ("elicitation.form",)),
        ({"elicitation": {"form": {}}}, NEWEST, ("elicitation.form",)),
        ({"elicitation": {"url": {}}}, NEWEST, ("elicitation.url",)),
        ({"elicitation": {"form": {}, "url": {}, "x": {}}}, "2025-06-18", ("elicitation.form", "elicitation.url")),
        ({"elicitation": {"form": 1}}, NEWEST, ("elicitation.form",)),
        ({"elicitation": {}}, "2025-03-26", ()),
        ({"elicitation": None, "sampling": True}, NEWEST, ()),
        ({"sampling": {"context": {}, "tools": {}}}, NEWEST, ("sampling", "sampling.context", "sampling.tools")),
        ({"sampling": {}}, "2024-11-05", ("sampling",)),
    ],
)
def test_capabilities_have_a_normal_form(declared: dict[str, Any], version: str, words: tuple[str, ...]) -> None:
    assert words_of(declared, version) == words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), {}),
        (("elicitation.form",), {"elicitation": {}}),
        (("elicitation.form", "elicitation.url"), {"elicitation": {"form": {}, "url": {}}}),
        (("sampling", "sampling.tools"), {"sampling": {"tools": {}}}),
    ],
)
def test_the_child_is_told_what_every_revision_understands(words: tuple[str, ...], told: Any) -> None:
    assert Profile(words).capabilities() == told
    assert Profile(words, ()).capabilities() == {**told, "roots": {}}


def test_the_text_tells_capabilities_and_directories_apart_and_nothing_else() -> None:
    assert Profile().text == ""
    assert not Profile()
    assert Profile((), ()).text != ""
    one = Profile(("sampling",), (Root("file:///a", "A"), Root("file:///b")))
    same = Profile(("sampling",), (Root("file:///b"), Root("file:///a", "other")))
    assert one.text == same.text
    texts = [one.text, Profile(("sampling",), ()).text, Profile(("sampling",)).text, Profile((), one.roots).text]
    assert len(set(texts)) == 4


def test_roots_are_compared_as_directories() -> None:
    profile = Profile((), (Root("file:///a"), Root("file:///b")))
    assert profile.same_roots((Root("file:///b"), Root("file:///a", "A")))
    assert not profile.same_roots((Root("file:///a"),))
    assert not Profile().same_roots(())


def test_roots_are_told_as_the_host_named_them() -> None:
    profile = Profile((), (Root("file:///a", "A"), Root("file:///b")))
    assert value_of(profile.roots_result()) == {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}
    assert value_of(Profile().roots_result()) == {"roots": []}


@pytest.mark.parametrize(
    ("value", "roots"),
    [
        ({"roots": []}, ()),
        (
            {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": 5}, 7, {"uri": "u", "name": 5}]},
            (Root("file:///a", "A"), Root("u")),
        ),
        ({"roots": {}}, None),
        ([], None),
    ],
)
def test_roots_are_read_from_an_answer(value: Any, roots: Any) -> None:
    line = b'{"jsonrpc":"2.0","id":1,"result":' + text_of(value) + b"}"
    assert roots_of(parse(line)) == roots


def test_an_error_names_no_roots() -> None:
    assert roots_of(parse(b'{"jsonrpc":"2.0","id":1,"error":{"code":1}}')) is None


@pytest.mark.parametrize(("declared", "wanted"), [({"roots": {}}, True), ({"roots": None}, False), ({}, False)])
def test_whether_a_host_has_roots(declared: dict[str, Any], wanted: bool) -> None:
    assert wants_roots(declared) is wanted
