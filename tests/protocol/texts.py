"""JSON texts as peers write them: with blanks, escapes, duplicate keys and numbers that no decoder keeps."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = st.sampled_from(
    ["0", "-0", "1.0", "1.50", "1e400", "-1E-7", "9007199254740993", "123456789012345678901234567890", "5e-324"]
)
STRINGS = st.sampled_from(
    [
        '""',
        '"a"',
        '"\\u0041\\/"',
        '"\\ud83d\\ude00"',
        '"\u2028\u2029"',
        '"é"',
        '"\\"{}[],:"',
        '"\\u0000"',
        '"\x7f"',
        '"id"',
    ]
)
BLANKS = st.sampled_from(["", "", "", " ", "\t", "\r", "  "])


@st.composite
def _object(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    members = draw(st.lists(st.tuples(BLANKS, STRINGS, BLANKS, values), max_size=4))
    return "{" + ",".join(f"{blank}{key}{other}:{value}" for blank, key, other, value in members) + draw(BLANKS) + "}"


@st.composite
def _array(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    items = draw(st.lists(st.tuples(BLANKS, values), max_size=4))
    return "[" + ",".join(blank + value for blank, value in items) + draw(BLANKS) + "]"


VALUES = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["true", "false", "null"])),
    lambda inner: st.one_of(_object(inner), _array(inner)),
    max_leaves=12,
)
#: Texts of JSON values; keys repeat often.
OBJECTS = _object(VALUES)
