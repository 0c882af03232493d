"""The language of variables: what is expanded, what is reported, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.variables import Variables, escape, expand, names, parse

HERE = Variables({"A": "one", "EMPTY": "", "DOLLAR": "${A} ~ $$"}, project="/p", home="/home/me")


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("", ""),
        ("plain", "plain"),
        ("${A}", "one"),
        ("<${A}${A}>", "<oneone>"),
        ("${EMPTY}", ""),
        ("${EMPTY:-x}", ""),
        ("${UNSET:-x}", "x"),
        ("${UNSET:-}", ""),
        ("${UNSET:-${A}}", "one"),
        ("${UNSET:-${ALSO:-${A}-$$}}", "one-$"),
        ("${UNSET:-{$}}", "{}"),
        ("${A:-${UNSET}}", "one"),
        ("${DOLLAR}", "${A} ~ $$"),
        ("${project}/x", "/p/x"),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$$$$", "$$"),
        ("~", "/home/me"),
        ("~/x", "/home/me/x"),
        ("~other/x", "~other/x"),
        ("a~/x", "a~/x"),
        ("--dir=~/x", "--dir=~/x"),
        ("$~/x", "~/x"),
        ("x$~$}", "x~}"),
        ("${UNSET:-~}", "/home/me"),
        ("${UNSET:-~/x}", "/home/me/x"),
        ("--dir=${UNSET:-~/x}", "--dir=/home/me/x"),
        ("${UNSET:-$~}", "~"),
        ("${HOME}", "/home/me"),
        ("}{", "}{"),
    ],
)
def test_expand(text: str, expanded: str) -> None:
    expansion = expand(text, HERE)
    assert expansion.text == expanded
    assert expansion.missing == ()


def test_names_that_were_looked_up_are_reported() -> None:
    assert expand("~/${A}/${project}/${UNSET:-${EMPTY}}", HERE).used == {"HOME", "A", "project", "UNSET", "EMPTY"}
    assert expand("${A:-${EMPTY}}", HERE).used == {"A"}
    assert expand("$${A}", HERE).used == frozenset()


def test_names_of_a_text_are_those_of_defaults_too() -> None:
    assert names("~${A:-${project}}") == {"A", "project"}
    assert names("~/x") == {"HOME"}


@pytest.mark.parametrize("text", ["${UNSET}", "${A}${UNSET}", "${ALSO:-${UNSET}}"])
def test_what_stands_for_nothing_is_missing(text: str) -> None:
    [reference] = expand(text, HERE).missing
    assert str(reference) == "${UNSET}"


def test_neither_project_nor_home_is_taken_for_granted() -> None:
    nothing = Variables({"project": "/not/the/project"})
    assert [str(reference) for reference in expand("~/${project}", nothing).missing] == ["~", "${project}"]
    assert expand("~", Variables({"HOME": "/h"})).text == "/h"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("$", 'a lone "." at character 1'),
        ("a $HOME", 'a lone "." at character 3'),
        ("x$y", 'a lone "." at character 2'),
        ("$ {A}", 'a lone "." at character 1'),
        ("${", "no name of a variable"),
        ("${}", "no name of a variable"),
        ("${1}", "no name of a variable"),
        ("${A", "never closed"),
        ("${A:-x", "never closed"),
        ("${A-x}", "is not"),
        ("${A:x}", "is not"),
        ("${env:A}", "is not"),
        ("${A }", "is not"),
        ("${ä}", "no name of a variable"),
        ("${workspaceFolder}", "write \\${project}"),
        ("${A:-" * 20 + "}" * 20, "nested too deeply"),
    ],
)
def test_not_of_the_language(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_an_error_does_not_repeat_the_text() -> None:
    with pytest.raises(ValueError, match="lone") as caught:
        parse("pa$sw0rd")
    assert "sw0rd" not in str(caught.value)


TEXTS = st.text(st.sampled_from("$${}~/:-A \n\0ü") | st.characters())


@given(TEXTS)
def test_what_is_escaped_expands_to_itself(text: str) -> None:
    expansion = expand(escape(text), HERE)
    assert (expansion.text, expansion.used, expansion.missing) == (text, frozenset(), ())


@given(TEXTS, TEXTS)
def test_values_are_never_expanded_again(value: str, around: str) -> None:
    variables = Variables({"V": value})
    assert expand(f"x{escape(around)}${{V}}", variables).text == f"x{around}{value}"


@given(TEXTS)
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        template = parse(text)
    except ValueError:
        return
    assert all(part != "" for part in template)
    expand(text, HERE)
