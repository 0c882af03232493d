"""Changes to a text: what is wanted happens, and every byte of the rest stays."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config import rewrite as module
from supervisord_mcp.config.rewrite import cut_server, put_pairs, put_server

FILE = """\
# head of the file

[daemon]   # about the daemon
idle_exit = "5m"

# about one
[servers.one]
command = "x"   # why x
env = { A = "1" }
# end of one

# about two
[servers.two] # two
command = [
    "y", # inner
]
# between
[servers.two.env]
B = "2"

# about three
[servers.three]
command = "z"
# last line"""


def test_a_new_server_is_appended() -> None:
    assert put_server(FILE, "new", {"command": ["a", "b c"], "env": {"X": "1", "Y Z": "2"}, "reload": True}) == FILE + (
        '\n\n[servers.new]\ncommand = ["a", "b c"]\nenv = {X = "1", "Y Z" = "2"}\nreload = true\n'
    )


def test_the_first_server_of_an_empty_file() -> None:
    assert put_server("", "a.b", {"command": ["x"]}) == '[servers."a.b"]\ncommand = ["x"]\n'
    assert put_server("# c\n\n", "a", {"command": ["x"]}) == '# c\n\n[servers.a]\ncommand = ["x"]\n'


def test_long_commands_are_broken() -> None:
    text = put_server("", "a", {"command": ["x" * 60, "y" * 60]})
    assert text == f'[servers.a]\ncommand = [\n    "{"x" * 60}",\n    "{"y" * 60}",\n]\n'


def test_a_server_is_cut() -> None:
    mine = '# about one\n[servers.one]\ncommand = "x"   # why x\nenv = { A = "1" }\n'
    assert cut_server(FILE, "one") == FILE.replace(mine, "")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_said_directly_above_a_server_goes_with_it(newline: str) -> None:
    kept = 'a = """\n# no comment"""\n[servers.a]\ncommand = \'x\'\n\n# of the file\n\n{}[servers.c]\ncommand = \'z\'\n'
    kept = kept.replace("\n", newline)
    mine = "# what b is for\n  # and more\n[servers.b] # b\ncommand = 'y'\n\n".replace("\n", newline)
    assert cut_server(kept.format(mine), "b") == kept.format("")
    assert cut_server(kept.format(""), "a").startswith(f'a = """{newline}# no comment"""{newline}')
    assert cut_server(mine, "b") == ""


def test_a_server_with_tables_of_its_own_is_cut() -> None:
    start, end = FILE.index("# about two"), FILE.index("\n# about three")
    assert cut_server(FILE, "two") == FILE[:start] + FILE[end:]


def test_blank_lines_do_not_pile_up() -> None:
    text = "a = 1\n\n[servers.x]\ncommand = 'x'\n\n[servers.y]\ncommand = 'y'\n"
    assert cut_server(text, "x") == "a = 1\n\n[servers.y]\ncommand = 'y'\n"
    assert cut_server(text, "y") == "a = 1\n\n[servers.x]\ncommand = 'x'\n"


def test_only_what_differs_is_changed() -> None:
    entry = {"command": "x", "env": {"A": "2"}, "cwd": "/"}
    assert put_server(FILE, "one", entry) == FILE.replace('{ A = "1" }', '{A = "2"}\ncwd = "/"')
    assert put_server(FILE, "one", {"command": "x", "env": {"A": "1"}}) == FILE
    assert put_server(FILE, "one", {"command": "w"}) == FILE.replace('"x" ', '"w" ').replace('env = { A = "1" }\n', "")


def test_a_table_becomes_a_key() -> None:
    changed = put_server(FILE, "two", {"command": ["y"], "env": {"B": "3"}})
    assert changed == FILE.replace('[servers.two.env]\nB = "2"\n', "").replace(
        "]\n# between", ']\nenv = {B = "3"}\n# between'
    )


def test_a_header_without_newline() -> None:
    assert put_server("[servers.a]", "a", {"command": "x"}) == '[servers.a]\ncommand = "x"\n'


@pytest.mark.parametrize(
    "text",
    [
        "servers = { a = { command = 'x' }, b = { command = 'y' }, c.command = 'z' } # c\n",
        "servers = {}\n",
        "[servers]\na = { command = 'x' }\nb.command = 'y'\n",
        "servers.a.command = 'x'\nservers.b.command = 'y'\nservers.b.env.A = 'b'\n",
        "[servers.a]\ncommand = 'x'\n[servers.b.env]\nA='b'\n[other]\n[servers.b]\ncommand = 'y'\n",
        '["servers"."a"]\n[[servers.b.mounts]]\npath = "/"\n[[servers.b.mounts]]\npath = "/y"\n',
    ],
)
def test_every_way_to_write_servers(text: str) -> None:
    data = tomllib.loads(text)
    entry = {"command": ["new"], "env": {"K": "v"}}
    for name in ("a", "b", "new"):
        if name == "new" or "servers = {" not in text:
            changed = tomllib.loads(put_server(text, name, entry))
            assert changed == {**data, "servers": {**data["servers"], name: entry}}
        if name in data["servers"]:
            rest = {key: value for key, value in data["servers"].items() if key != name}
            assert tomllib.loads(cut_server(text, name)).get("servers", {}) == rest


SECTION = """\
[servers.a]
command = 'x'
[servers.a.credentials]  # c
# of one
ONE = 'env:X'  # one
TWO = 'env:Y'
# end
[b]
"""
PAIRS: dict[str, tuple[str, dict[str, str | None], str]] = {
    "a table of its own": (
        SECTION,
        {"ONE": "vault:x", "NEW": "vault:n"},
        SECTION.replace("'env:X'", '"vault:x"').replace("# end", 'NEW = "vault:n"\n# end'),
    ),
    "taken out of a table": (SECTION, {"TWO": None, "NONE": None}, SECTION.replace("TWO = 'env:Y'\n", "")),
    "the last ones": (
        SECTION,
        {"ONE": None, "TWO": None},
        "[servers.a]\ncommand = 'x'\n# end\n[b]\n",
    ),
    "in braces": (
        "[servers.a]\ncommand = 'x'\ncredentials = { ONE = 'env:X' } # c\n",
        {"TWO": "vault:y"},
        '[servers.a]\ncommand = \'x\'\ncredentials = {ONE = "env:X", TWO = "vault:y"} # c\n',
    ),
    "with dots": (
        "[servers.a]\ncommand = 'x'\ncredentials.ONE = 'env:X'\ncwd = '/'\n",
        {"ONE": None, "TWO": "vault:y"},
        "[servers.a]\ncommand = 'x'\ncwd = '/'\ncredentials = {TWO = \"vault:y\"}\n",
    ),
    "none before": (
        "[servers.a] # a\ncommand = 'x'\n# end",
        {"ONE": "env:X"},
        "[servers.a] # a\ncommand = 'x'\ncredentials = {ONE = \"env:X\"}\n# end",
    ),
    "nothing to do": (SECTION, {"ONE": "env:X"}, SECTION.replace("'env:X'", '"env:X"')),
}


@pytest.mark.parametrize("case", PAIRS)
def test_pairs_of_one_table(case: str) -> None:
    text, pairs, wanted = PAIRS[case]
    assert put_pairs(text, "a", "credentials", pairs) == wanted
    crlf = put_pairs(text.replace("\n", "\r\n"), "a", "credentials", pairs)
    assert crlf == wanted.replace("\n", "\r\n")


def test_pairs_of_what_is_no_table() -> None:
    for text in ("servers.a = 5\n", "[servers.a]\ncredentials = 5\n", "[servers.b]\n"):
        with pytest.raises(ValueError, match="not both tables"):
            put_pairs(text, "a", "credentials", {"ONE": "env:X"})


def test_inline_tables_keep_their_neighbours() -> None:
    text = "servers = { a = { command = 'x' }, b = { command = 'y' } } # c\n"
    assert cut_server(text, "a") == "servers = { b = { command = 'y' } } # c\n"
    assert cut_server(text, "b") == "servers = { a = { command = 'x' } } # c\n"
    assert put_server("servers = {}", "a", {"command": "x"}) == 'servers = { a = {command = "x"} }'
    assert put_server(text, "c", {"command": "z"}) == text.replace("} } #", '}, c = {command = "z"} } #')
    assert put_server(text, "a", {"command": "z"}) == "servers = { b = { command = 'y' }, a = {command = \"z\"} } # c\n"


def test_what_cannot_be_changed_safely_is_refused() -> None:
    with pytest.raises(ValueError, match="edit it by hand"):
        cut_server("servers = { c.command = 'z', d.x = 1 }", "c")
    with pytest.raises(ValueError, match="'servers' is not a table"):
        put_server("servers = 5", "a", {})


def test_what_would_be_no_toml_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "quoted", lambda key: key)
    with pytest.raises(ValueError, match="edit it by hand"):
        put_server("", "a b", {"command": "x"})


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_are_those_of_the_file(newline: str) -> None:
    text = FILE.replace("\n", newline)
    entry = {"command": ["x" * 60, "y" * 60], "env": {"A": "1\n2"}}
    for changed in (put_server(text, "new", entry), put_server(text, "one", entry), cut_server(text, "two")):
        assert changed.count("\n") == changed.count(newline)
    assert tomllib.loads(put_server(text, "new", entry))["servers"]["new"] == entry


PRINTABLE = st.text(st.characters(codec="utf-8"), max_size=8)
ENTRIES = st.fixed_dictionaries(
    {"command": st.lists(PRINTABLE, min_size=1, max_size=4).map(tuple)},
    optional={
        "cwd": PRINTABLE,
        "env": st.dictionaries(PRINTABLE, PRINTABLE, max_size=3),
        "mounts": st.lists(st.fixed_dictionaries({"path": PRINTABLE}, optional={"access": PRINTABLE}), max_size=2),
        "idle_timeout": st.integers(0, 99) | st.booleans() | st.floats(0, 9),
    },
)
OTHERS = st.lists(
    st.sampled_from(
        [
            "# a comment\n",
            "\n",
            "\n\n",
            "  # indented [servers.x]\n",
            '[daemon] # [servers.mine]\nidle_exit = "5m"\n',
            '[servers.a]\ncommand = "x" # why\n',
            '[servers."b c"]\ncommand = """\n[servers.mine]\n"""\n',
            "[servers.d]\ncommand = [ # one\n  'x',\n]\n[servers.d.env]\nA = 'b'\n",
            "[[servers.e.mounts]]\npath = 'x'\n[[servers.e.mounts]]\npath = 'y'\n",
        ]
    ),
    max_size=6,
    unique=True,
)
MINE = st.sampled_from(
    [
        "[servers.mine]\ncommand = 'x'\n",
        "  [ servers . 'mine' ] # m\n  command = 'x' # c\n  args = []\n",
        "[servers.mine]\n# inside\ncommand = [\n  'x',\n]\n\n[servers.mine.env]\n\nA = 'b'\n",
        "[servers.mine.env]\nA = 'b'\n[servers.mine]\ncommand = 'x'\n",
        "[[servers.mine.mounts]]\npath = 'x'\n",
    ]
)


def rest_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


@given(OTHERS, MINE, OTHERS)
def test_cutting_takes_the_lines_of_the_server_only(before: list[str], mine: str, after: list[str]) -> None:
    after = [part for part in after if part not in before]
    text = "".join([*before, mine, *after])
    changed = cut_server(text, "mine")
    kept = "".join(before).splitlines(keepends=True)
    while kept and kept[-1].lstrip().startswith("#"):
        kept.pop()
    assert rest_of(changed) == rest_of("".join([*kept, *after]))
    assert "\n\n\n\n\n" not in changed or "\n\n\n\n\n" in text


@given(OTHERS, MINE, OTHERS, ENTRIES)
def test_changing_keeps_everything_else(before: list[str], mine: str, after: list[str], entry: dict[str, Any]) -> None:
    after = [part for part in after if part not in before]
    text = "".join([*before, mine, *after])
    changed = put_server(text, "mine", entry)
    at = 0
    for part in (part for part in [*before, *after] if part.strip()):
        at = changed.index(part.strip("\n"), at)
    assert put_server(changed, "mine", entry) == changed


@given(OTHERS, ENTRIES, st.sampled_from(["\n", "\r\n"]))
def test_adding_only_appends_and_removing_undoes_it(parts: list[str], entry: dict[str, Any], newline: str) -> None:
    text = "".join(parts).replace("\n", newline)
    added = put_server(text, "mine", entry)
    assert added.startswith(text)
    assert cut_server(added, "mine").rstrip() == text.rstrip()
