"""Files as people have them, changed at random: whatever a file looks like, nothing but ours is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.errors import HostFileError
from supervisord_mcp.hosts.edits import Replacement
from supervisord_mcp.hosts.entries import Found, find_entries, shape_of
from supervisord_mcp.hosts.files import Reading, change, preview, read_content, split_bom
from supervisord_mcp.hosts.jsonc import Json
from supervisord_mcp.hosts.syntax import same, value_at, with_value
from supervisord_mcp.hosts.undo import Undo, undo
from tests.hosts.corpus import SHIM, Sample, samples

#: The slow reader of YAML and the quick ones each get their share.
JSON_SAMPLES = [sample for sample in samples() if isinstance(sample.file.dialect.syntax, Json)]
OTHER_SAMPLES = [sample for sample in samples() if not isinstance(sample.file.dialect.syntax, Json)]

_PIECES = st.sampled_from(
    [
        *(
            b" ",
            b"\n",
            b"\r\n",
            b"\t",
            b"",
            b"//",
            b"/* x */",
            b"# x\n",
            b",",
            b":",
            b'"',
            b"'",
            b"{",
            b"}",
            b"[",
            b"]",
        ),
        *(
            b"\\",
            b"- ",
            b"*a",
            b"&a ",
            b"<<: ",
            b"---\n",
            b"null",
            b'"a": 1,',
            b"a: 1\n",
            b"a = 1\n",
            b"$",
            b"\xc3\xa9",
        ),
        *(b"\xef\xbb\xbf", b"\xff", b"|\n", b"\x00", b'"""', b"\xe2\x80\xa8"),
    ]
)


@st.composite
def _mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with pieces put in, cut out, doubled and moved."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        match draw(st.sampled_from(("put", "cut", "double", "lines"))):
            case "put":
                content = content[:start] + draw(_PIECES) + content[start:]
            case "cut":
                content = content[:start] + content[end:]
            case "double":
                content = content[:end] + content[start:end] + content[end:]
            case _:
                lines = content.splitlines(keepends=True)
                at = draw(st.integers(0, max(len(lines) - 1, 0)))
                content = b"".join(lines[:at] + lines[at : at + 1] * 2 + lines[at + 1 :])
    if draw(st.booleans()):
        content = content.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    return content


@given(st.sampled_from(JSON_SAMPLES), st.data())
def test_mutated_json(sample: Sample, data: st.DataObject) -> None:
    _holds(sample, data.draw(_mutated(sample.reading().content)))


# Reading YAML takes milliseconds, so that a deep search is less deep here.
@settings(max_examples=min(settings().max_examples, 500))
@given(st.sampled_from(OTHER_SAMPLES), st.data())
def test_mutated_toml_and_yaml(sample: Sample, data: st.DataObject) -> None:
    _holds(sample, data.draw(_mutated(sample.reading().content)))


@given(st.sampled_from(JSON_SAMPLES), st.data())
def test_undo_in_mutated_json(sample: Sample, data: st.DataObject) -> None:
    _is_given_back(sample, data)


@settings(max_examples=min(settings().max_examples, 500))
@given(st.sampled_from(OTHER_SAMPLES), st.data())
def test_undo_in_mutated_toml_and_yaml(sample: Sample, data: st.DataObject) -> None:
    _is_given_back(sample, data)


def _is_given_back(sample: Sample, data: st.DataObject) -> None:
    """Assert that a changed file that others changed at random has our entries again and all else, or is refused."""
    dialect, before = sample.file.dialect, sample.reading()
    new = change(before, {entry.path: Replacement(SHIM) for entry in before.entries if entry.stdio})
    now = data.draw(_mutated(new.after))
    try:
        back = undo(Undo(dialect, new.before, new.after, new.paths), now)
    except HostFileError:
        return
    if now in (new.after, new.before):
        assert back == new.before
        return
    was, is_now = (dialect.syntax.load(split_bom(content)[1]) for content in (now, back))
    ours = {entry.name: entry for entry in before.entries if entry.path in new.paths}
    there = [found for found in find_entries(dialect, is_now) if isinstance(found, Found)]
    for found in there:
        # The paths of a list are those of now.
        if found.name in ours and (found.path in new.paths or dialect.name):
            shape = shape_of(dialect, found.value)
            assert shape is None or SHIM[0] not in str(value_at(found.value, shape.command))
            was, is_now = (_emptied(side, found.path) for side in (was, is_now))
    assert same(was, is_now)


def _emptied(data: Any, path: KeyPath) -> Any:
    try:
        value_at(data, path)
    except KeyError:
        return data
    return with_value(data, path, None)


def _holds(sample: Sample, content: bytes) -> None:
    """Assert that a content is read without surprises, and changed and given back as it should be, or refused."""
    reading = read_content(sample.file, content)
    assert reading.content == content
    if reading.problems and not reading.entries:
        return
    changed = 0
    for entry in reading.entries:
        if not entry.stdio:
            continue
        try:
            new = change(reading, {entry.path: Replacement(SHIM)})
        except HostFileError:
            continue
        changed += 1
        assert undo(Undo(sample.file.dialect, new.before, new.after, new.paths), new.after) == content
        _differs_in_one(reading, read_content(sample.file, new.after), entry.path)
        preview(new)
    # Only what is tied to other parts of the file cannot be changed.
    tied = (b"<<", b"&", b"*", b"\n[", b".")
    assert changed or not any(e.stdio for e in reading.entries) or any(mark in content for mark in tied)


def _differs_in_one(before: Reading, after: Reading, path: tuple[str | int, ...]) -> None:
    assert [entry.path for entry in after.entries] == [entry.path for entry in before.entries]
    for old, new in zip(before.entries, after.entries, strict=True):
        if new.path == path:
            assert new.argv == SHIM
        else:
            assert (new.argv, new.env, new.cwd, new.url) == (old.argv, old.env, old.cwd, old.url)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("final", [True, False])
def test_newlines_and_marks_of_all_samples_stay(newline: bytes, bom: bytes, final: bool) -> None:
    for sample in (*JSON_SAMPLES[::6], *OTHER_SAMPLES[::3]):
        content = sample.reading().content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n")
        content = bom + (content + (b"\n" if final else b"")).replace(b"\n", newline)
        reading = read_content(sample.file, content)
        entries = [entry for entry in reading.entries if entry.stdio]
        new = change(reading, {entry.path: Replacement(SHIM) for entry in entries})
        assert new.after.startswith(bom)
        assert new.after.endswith(newline) == content.endswith(newline)
        assert new.after.count(b"\n") == new.after.count(newline)
        assert undo(Undo(sample.file.dialect, new.before, new.after, new.paths), new.after) == content
