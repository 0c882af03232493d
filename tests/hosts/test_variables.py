"""The variables of every host, in our language (case 40)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.variables import Variables, expand, parse
from supervisord_mcp.hosts.variables import (
    Context,
    Input,
    Language,
    Translation,
    braces,
    curly,
    dollars,
    double_braces,
    editor,
    env,
    plain,
    plugin,
    shell,
)

LANGUAGES = [plain, braces, dollars, shell, editor, plugin, env, curly, double_braces]


@pytest.mark.parametrize(
    ("language", "text", "ours"),
    [
        (plain, "${A} $B ~/x %C%", "$${A} $$B ~/x %C%"),
        (plain, "~/x", "$~/x"),
        (plain, "", ""),
        (braces, "${A}", "${A}"),
        (braces, "x-${A}-${B}-$C", "x-${A}-${B}-$$C"),
        (braces, "${A:-}", "${A:-}"),
        (braces, "${A:-b c}", "${A:-b c}"),
        (braces, "${A:-~/x$y}", "${A:-$~/x$$y}"),
        (braces, "${}", "$${}"),
        (braces, "~${A}", "$~${A}"),
        (dollars, "$A/${B}/${C:-d}", "${A}/${B}/${C:-d}"),
        (dollars, "5$ $1 $$A", "5$$ $$1 $$${A}"),
        (shell, "$A", "${A}"),
        (editor, "${env:A}", "${A}"),
        (editor, "${workspaceFolder}/x", "${project}/x"),
        (editor, "${workspaceRoot}", "${project}"),
        (editor, "${userHome}${/}a${pathSeparator}b", "${HOME}/a/b"),
        (editor, "$A", "$$A"),
        (plugin, "${env:A}${userHome}", "${A}${HOME}"),
        (env, "${env:A} ${x} ${A}", "${A} $${x} $${A}"),
        (curly, "{env:A} {x} ${A}", "${A} {x} $${A}"),
        (double_braces, "${A} {{ secrets.A }}", "$${A} {{ secrets.A }}"),
    ],
)
def test_what_can_be_translated(language: Language, text: str, ours: str) -> None:
    translation = language(text, Context())
    assert (translation.text, translation.unknown) == (ours, ())
    parse(ours)


@pytest.mark.parametrize(
    ("language", "text", "written", "why"),
    [
        (braces, "${A:-${B}}", "${A:-${B}", "a reference inside of a default"),
        (braces, "${A-b}", "${A-b}", "'A-b' is not the name of a variable"),
        (braces, "${project}", "${project}", "a variable named 'project' cannot be referred to here"),
        (dollars, "${}", "${}", "'' is not the name of a variable"),
        (shell, "x$(pass show db)", "$(pass show db)", "the output of a command"),
        (shell, "`id`", "`id`", "the output of a command"),
        (editor, "${env:}", "${env:}", "'' is not the name of a variable"),
        (editor, "${env:ÄÖ}", "${env:ÄÖ}", "'ÄÖ' is not the name of a variable"),
        (editor, "${file}", "${file}", "only the host knows what it stands for"),
        (editor, "${workspaceFolder:api}", "${workspaceFolder:api}", "only the host knows its workspaceFolder 'api'"),
        (editor, "${command:x.y}", "${command:x.y}", "only the host knows its command 'x.y'"),
        (editor, "${input:other}", "${input:other}", "the host asks for it: other"),
        (env, "${env:a b}", "${env:a b}", "'a b' is not the name of a variable"),
        (curly, "{file:~/.key}", "{file:~/.key}", "the content of the file '~/.key'"),
        (double_braces, "${{ inputs.X }}", "${{ inputs.X }}", "only the host knows what it stands for"),
    ],
)
def test_what_cannot_be_translated_is_reported(language: Language, text: str, written: str, why: str) -> None:
    translation = language(text, Context())
    (unknown,) = translation.unknown
    assert (unknown.written, unknown.why) == (written, why)
    # What stands there then is the text of the host, without any meaning.
    assert expand(translation.text, Variables({})).text == text


def test_a_host_without_a_word_for_its_workspace_hands_on_what_is_written() -> None:
    for language in LANGUAGES:
        for word in ("${workspaceFolder}", "${workspaceRoot}"):
            translation = language(f"~/{word}/x", Context())
            if language.project:
                assert (language, translation) == (editor, Translation("$~/${project}/x"))
                continue
            (unknown,) = translation.unknown
            assert (unknown.written, unknown.verbatim) == (word, True)
            assert "has no word for the directory that it has open" in unknown.why
            assert expand(translation.text, Variables({})).text == f"~/{word}/x"
    assert editor.project == "${workspaceFolder}"


def test_what_the_host_asks_for_is_described() -> None:
    context = Context({"token": Input("API token", secret=True)})
    (unknown,) = editor("Bearer ${input:token}", context).unknown
    assert (unknown.why, unknown.secret) == ("the host asks for it: token (API token)", True)
    (secret,) = double_braces("${{ secrets.KEY }}", context).unknown
    assert (secret.why, secret.secret) == ("the host keeps the secret 'KEY'", True)


@given(st.sampled_from(LANGUAGES), st.text(alphabet="${}:-~/ABenvworkspaceFolder()`. x", max_size=30))
def test_every_text_becomes_one_of_ours(language: Language, text: str) -> None:
    translation = language(text, Context())
    parse(translation.text)
    if language is plain:
        assert expand(translation.text, Variables({})).text == text


@given(st.sampled_from(LANGUAGES), st.text(alphabet="xyz ~/.-", max_size=12))
def test_texts_without_references_stay_what_they_are(language: Language, text: str) -> None:
    assert expand(language(text, Context()).text, Variables({}, home="/never")).text == text
