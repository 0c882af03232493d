"""JSON with comments: what it means, where it is wrong, and edits that keep every other character."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.hosts import jsonc as module
from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.syntax import CannotEditError, SyntaxFaultError, same, with_value, without_value

JSON = Json()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        (" [1, -2, 0.5, 1e2, -0] // end", [1, -2, 0.5, 100.0, 0]),
        ('{"a": {"b": [true, false, null,],},}', {"a": {"b": [True, False, None]}}),
        ('/* a */ {/**/"a"/* : */: // b\n "x" /*,*/, }', {"a": "x"}),
        (r'"\u00e9\ud83d\ude00\/\n\"\\"', 'é😀/\n"\\'),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ('"// no comment /* none */"', "// no comment /* none */"),
        ("[" + "1" * 2000 + "]", [float("inf")]),
    ],
)
def test_what_a_text_means(text: str, value: Any) -> None:
    assert same(JSON.load(text), value)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "a value expected at the end"),
        ("{\n  a: 1}", 2, 3, 'a key in double quotes or "}" expected'),
        ('{"a" 1}', 1, 6, '":" expected'),
        ('{"a": }', 1, 7, "a value expected"),
        ('{"a": yes}', 1, 7, "a value expected; a text needs double quotes"),
        ('{"a": 1\n "b": 2}', 2, 2, '"," or "}" expected'),
        ('["a" "b"]', 1, 6, '"," or "]" expected'),
        ("[1, ,]", 1, 5, "a value expected"),
        ("[01]", 1, 3, '"," or "]" expected'),
        ("{} {}", 1, 4, "more text after the end of the value"),
        ('{"a": "b\n"}', 1, 7, "a text that never ends in its line"),
        ('{"a": "\t"}', 1, 8, "a control character in a text; write it as an escape sequence"),
        ('{"a": "C:\\dir\\u12"}', 1, 10, "not an escape sequence; a backslash is written twice"),
        ('{"a": "b\\', 1, 9, "not an escape sequence; a backslash is written twice"),
        ('{"a": "ok\\n', 1, 7, "a text that never ends in its line"),
        ("{ /* x", 1, 3, 'a comment that "*/" never ends'),
        ("[" * 300, 1, 202, "values are nested too deeply"),
        ("NaN", 1, 1, "a value expected; a text needs double quotes"),
        ("-", 1, 1, "a value expected"),
    ],
)
def test_where_a_text_is_wrong(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SyntaxFaultError) as caught:
        JSON.load(text)
    assert (caught.value.line, caught.value.column, caught.value.message) == (line, column, message)


@pytest.mark.parametrize(
    ("before", "path", "value", "after"),
    [
        ('{"a": 1}', ("a",), "x", '{"a": "x"}'),
        ('{"a": 1, "a": 2}', ("a",), 3, '{"a": 1, "a": 3}'),
        ('{"a": ["x"]}', ("a",), ["y", "z"], '{"a": ["y", "z"]}'),
        ('{\n  "a": [\n    "x"\n  ]\n}', ("a",), ["y", "z"], '{\n  "a": [\n    "y",\n    "z"\n  ]\n}'),
        (
            '{\r\n\t"a": [\r\n\t\t"x"\r\n\t]\r\n}',
            ("a",),
            ["y", "z"],
            '{\r\n\t"a": [\r\n\t\t"y",\r\n\t\t"z"\r\n\t]\r\n}',
        ),
        ('{\n  "a": [\n  ]\n}', ("a",), ["y"], '{\n  "a": [\n    "y"\n  ]\n}'),
        ('{\n  "a": [\n    "x"\n  ]\n}', ("a",), [], '{\n  "a": []\n}'),
        ('{\n  "a": [\n    "x"\n  ]\n}', ("a",), "s", '{\n  "a": "s"\n}'),
        ('{"k": 1}', ("a",), "é", '{"k": 1, "a": "é"}'),
        ('{"k": 1,}', ("a",), 2, '{"k": 1, "a": 2,}'),
        ('{\n  "k": 1\n}', ("a",), 2, '{\n  "k": 1,\n  "a": 2\n}'),
        ('{\n  "k": 1, // why\n  "z": 2\n}', ("a",), 2, '{\n  "k": 1, // why\n  "a": 2,\n  "z": 2\n}'),
        ('{\r\n  "k": 1,\r\n  "z": 2\r\n}', ("a",), 2, '{\r\n  "k": 1,\r\n  "a": 2,\r\n  "z": 2\r\n}'),
        ('{\r\n "k": 1, // why\r\n "z": 2\r\n}', ("a",), 2, '{\r\n "k": 1, // why\r\n "a": 2,\r\n "z": 2\r\n}'),
        ('{\r\n "k": 1, /* x */ \r\n "z": 2\r\n}', ("a",), 2, '{\r\n "k": 1, /* x */ \r\n "a": 2,\r\n "z": 2\r\n}'),
        ('{\n  "k": 1, "z": 2\n}', ("a",), 2, '{\n  "k": 1,\n  "a": 2, "z": 2\n}'),
        ('{\n  "k": 1 // why\n}', ("a",), 2, '{\n  "k": 1,\n  "a": 2 // why\n}'),
        (
            '{\n  "k": 1,\n  "b": {\n    "c": 1\n  }\n}',
            ("a",),
            {"x": "1", "y": "2"},
            '{\n  "k": 1,\n  "a": {\n    "x": "1",\n    "y": "2"\n  },\n  "b": {\n    "c": 1\n  }\n}',
        ),
    ],
)
def test_a_value_is_put(before: str, path: KeyPath, value: Any, after: str) -> None:
    assert JSON.put(before, path, value, ("k",)) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('{"a": 1}', "{}"),
        ('{ "a": 1 }', "{ }"),
        ('{"a": 1, "b": 2}', '{"b": 2}'),
        ('{"b": 2, "a": 1}', '{"b": 2}'),
        ('{ "b": 2 , "a": 1 }', '{ "b": 2  }'),
        ('{"b": 2, "a": 1,}', '{"b": 2, }'),
        ('{"x": 1, "a": 1, "y": 2}', '{"x": 1, "y": 2}'),
        ('{\n  "x": 1,\n  "a": 1, // gone\n  // stays\n  "y": 2\n}', '{\n  "x": 1,\n  // stays\n  "y": 2\n}'),
        ('{\n  "x": 1, // stays\n  "a": {\n    "b": 1\n  }\n}\n', '{\n  "x": 1 // stays\n}\n'),
        ('{\r\n  "x": 1,\r\n  "a": 1\r\n}', '{\r\n  "x": 1\r\n}'),
        ('{\r\n  "x": 1,\r\n  "a": 1, // gone\r\n  "y": 2\r\n}', '{\r\n  "x": 1,\r\n  "y": 2\r\n}'),
        ('{\n  "x": 1,\n  "a": 1,\n}', '{\n  "x": 1,\n}'),
        ('{ "x": 1\n, "a": 1\n}', '{ "x": 1\n\n}'),
        ('{"x": 1,\n "a": 1}', '{"x": 1\n}'),
        ('{\n  "a": 1, /* b */\n  "y": 2 }', '{\n  "y": 2 }'),
        ('{\n  "a": 1 /* gone */, "y": 2\n}', '{\n  "y": 2\n}'),
        ('{"a": 1, "b": 2, "a": 3}', '{"a": 1, "b": 2}'),
    ],
)
def test_a_key_is_cut(before: str, after: str) -> None:
    assert JSON.cut(before, ("a",)) == after
    JSON.load(after)


def test_what_cannot_be_edited_is_refused() -> None:
    wrong: Callable[[], object]
    for wrong in (
        lambda: JSON.cut('{"b": 1}', ("a",)),
        lambda: JSON.cut("[1]", ("a",)),
        lambda: JSON.put('{"b": 1}', ("a",), 1, ("c",)),
        lambda: JSON.put('{"b": 1}', ("x", "a"), 1, ("x", "c")),
        lambda: JSON.put('{"b": {}, "c": 1}', ("b", "a"), 1, ("c",)),
        lambda: JSON.extract("{}", ("a",)),
    ):
        with pytest.raises(CannotEditError):
            wrong()


def test_where_things_are() -> None:
    text = '// x\n{"a": {\n"b": [1,\n"c"]},\n"d": true}'
    assert JSON.lines(text) == {
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "b", 0): 3,
        ("a", "b", 1): 4,
        ("d",): 5,
    }
    assert [(leaf.path, text[leaf.start : leaf.end], leaf.value) for leaf in JSON.leaves(text)] == [
        (("a", "b", 0), "1", 1),
        (("a", "b", 1), '"c"', "c"),
        (("d",), "true", True),
    ]
    assert JSON.source(text, ("a", "b")) == '[1,\n"c"]'
    assert JSON.source(text, ("a", "b", 1)) == '"c"'
    assert JSON.source(text, ("a", "x")) is None
    assert JSON.source(text, ("a", "b", 2)) is None
    extract = JSON.extract(text, ("a",))
    assert (text[extract.start : extract.end], extract.path) == ('{\n"b": [1,\n"c"]}', ())


#: Texts with many parts take their time to be made.
_BOUNDED = settings(max_examples=min(settings().max_examples, 1500))
_KEYS = st.sampled_from(["a", "b", "command", "é", 'q"', "", "//", "\\"])
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"))
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=15,
)
_FILLER = st.sampled_from(["", "", " ", "\n", "\r\n", "\t", " // c {\n", "/* , */", "\n\n  "])


@st.composite
def _texts(draw: st.DrawFn, value: Any) -> str:
    """Return a text for a value, with comments, odd blanks and trailing commas."""

    def written(value: Any) -> str:
        fill = draw(_FILLER)
        if isinstance(value, dict) and value:
            parts = [f"{draw(_FILLER)}{_text(key)}{draw(_FILLER)}:{written(inner)}" for key, inner in value.items()]
            return f"{fill}{{{','.join(parts)}{draw(st.sampled_from(['', ',']))}{draw(_FILLER)}}}{draw(_FILLER)}"
        if isinstance(value, list) and value:
            parts = [written(inner) for inner in value]
            return f"{fill}[{','.join(parts)}{draw(st.sampled_from(['', ',']))}{draw(_FILLER)}]{draw(_FILLER)}"
        return f"{fill}{_text(value)}{draw(_FILLER)}"

    def _text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=draw(st.booleans()))

    return written(value)


@_BOUNDED
@given(_VALUES, st.data())
def test_any_formatting_means_the_same(value: Any, data: st.DataObject) -> None:
    text = data.draw(_texts(value))
    assert same(JSON.load(text), json.loads(json.dumps(value)))
    for leaf in JSON.leaves(text):
        assert same(JSON.load(text[leaf.start : leaf.end]), leaf.value)


@given(st.text(alphabet='{}[]",:\\u0-1.e+ntrfals/*\n ', max_size=20))
def test_what_python_reads_is_read_as_it_does(text: str) -> None:
    try:
        value = json.loads(text)
    except ValueError:
        return
    assert same(JSON.load(text), value)


@_BOUNDED
@given(st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=5), _VALUES, st.data())
def test_edits_change_one_key_and_keep_the_rest(entry: dict[str, Any], value: Any, data: st.DataObject) -> None:
    whole = {"before": [1], "entry": json.loads(json.dumps(entry)), "after": {"x": None}}
    text = data.draw(_texts(whole))
    key = data.draw(st.sampled_from(sorted(entry)))
    value = json.loads(json.dumps(value))
    place = JSON.extract(text, ("entry",))
    for name in {key, "new"}:
        put = JSON.put(text, ("entry", name), value, ("entry", key))
        assert same(JSON.load(put), with_value(whole, ("entry", name), value))
        assert put.startswith(text[: place.start])
        assert put.endswith(text[place.end :])
        assert _lone_newlines(put) <= _lone_newlines(text) or not text.partition("\n")[0].endswith("\r")
    cut = JSON.cut(text, ("entry", key))
    assert _lone_newlines(cut) <= _lone_newlines(text)
    assert same(JSON.load(cut), without_value(whole, ("entry", key)))
    assert cut.startswith(text[: place.start])
    assert cut.endswith(text[place.end :])


def _lone_newlines(text: str) -> int:
    return text.count("\n") - text.count("\r\n")


def test_a_text_is_read_once_for_several_questions() -> None:
    module._parse.cache_clear()
    text = '{"a": {"b": 1}}'
    JSON.load(text)
    JSON.lines(text)
    JSON.cut(text, ("a", "b"))
    assert module._parse.cache_info().misses == 1
