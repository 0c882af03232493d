"""Changes to the text of a TOML file that leave every other byte as its owner wrote it.

Removing a table with the TOML library removes the comments after it as well, which a person wrote for the next table,
so the text is cut at the offsets that the scanner gives and the library only writes the new values. What goes are the
lines from the header to the last key of a server and the comments directly above a header, which would else stand above
the next one; other comments stay. Every result is read again and compared with what
was wanted.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from tomlkit.items import Item

from supervisord_mcp.config.source import Entry, Form, KeyPath, quoted, scan

#: An array that would make its line longer than this is written with one element a line.
_LONGEST_LINE = 100


def put_server(text: str, name: str, entry: Mapping[str, Any]) -> str:
    """Given a valid file, return it with a server added, or changed key by key where it is there already.

    Raise `ValueError` if the file defines its servers in a way that cannot be changed safely.
    """
    data = tomllib.loads(text)
    servers = _servers(data)
    old, entry = servers.get(name), _plain(entry)
    wanted = {**data, "servers": {**servers, name: entry}}
    if old is None:
        changed = _append(text, name, entry)
    elif isinstance(old, dict) and _section(text, name) is not None:
        changed = text
        for key in (*(key for key in old if key not in entry), *entry):
            if key not in entry:
                changed = cut_path(changed, ("servers", name, key))
            elif key not in old or old[key] != entry[key] or type(old[key]) is not type(entry[key]):
                changed = _put_key(changed, name, key, entry[key])
    else:
        changed = _append(cut_path(text, ("servers", name)), name, entry)
    return _verified(changed, wanted)


def put_pairs(text: str, name: str, key: str, pairs: Mapping[str, str | None]) -> str:
    """Given a valid file, return it with pairs of one table of a server changed, and removed where they are None.

    Raise `ValueError` if that cannot be done safely.
    """
    data = tomllib.loads(text)
    servers = _servers(data)
    server = servers.get(name)
    if not isinstance(server, dict) or not isinstance(before := server.get(key, {}), dict):
        raise ValueError(f"'{name}' and its {key} are not both tables; edit the file by hand")  # noqa: TRY004 - as above
    table = {**before, **pairs}
    kept = {inner: value for inner, value in table.items() if value is not None}
    entry = {**server, key: kept} if kept else {k: v for k, v in server.items() if k != key}
    path: KeyPath = ("servers", name, key)
    if not kept or not any(e.form is Form.HEADER and e.path == path for e in scan(text)):
        return put_server(text, name, entry)
    # A table of its own may have comments, which stay.
    for inner, value in pairs.items():
        found = next((e for e in scan(text) if e.path == (*path, inner) and e.form is Form.STATEMENT), None)
        if value is None:
            text = cut_path(text, (*path, inner))
        elif found is not None:
            text = text[: found.value] + written_value(value) + text[found.end :]
        else:
            text = _add_statement(text, path, inner, value)
    return _verified(text, {**data, "servers": {**servers, name: entry}})


def cut_server(text: str, name: str) -> str:
    """Given a valid file, return it without a server. Raise `ValueError` if that cannot be done safely."""
    data = tomllib.loads(text)
    servers = {key: value for key, value in _servers(data).items() if key != name}
    return _verified(cut_path(text, ("servers", name), comments=True), {**data, "servers": servers})


def _servers(data: Mapping[str, Any]) -> Mapping[str, Any]:
    servers = data.get("servers", {})
    if not isinstance(servers, dict):
        raise ValueError("'servers' is not a table")  # noqa: TRY004 - callers expect one kind of error
    return servers


def _verified(text: str, wanted: Mapping[str, Any]) -> str:
    try:
        found = tomllib.loads(text)
    except ValueError:
        found = None
    if found is None or {**found, "servers": found.get("servers", {})} != wanted:
        raise ValueError("the file cannot be changed without touching other parts of it; edit it by hand")
    return text


def _section(text: str, name: str) -> Entry | None:
    """Return the header ``[servers.NAME]``, or None where the server is written in another way."""
    return next((e for e in scan(text) if e.form is Form.HEADER and e.path == ("servers", name)), None)


def _append(text: str, name: str, entry: Mapping[str, Any]) -> str:
    whole = next((e for e in scan(text) if e.form is Form.STATEMENT and e.path == ("servers",)), None)
    if whole is not None:
        return _insert_inline(text, whole, f"{quoted(name)} = {written_value(entry)}")
    newline = _newline(text)
    lines = [f"[servers.{quoted(name)}]", *(_statement(key, value, newline) for key, value in entry.items())]
    gap = "" if not text.strip() or text.endswith(newline * 2) else newline
    start = text if not text or text.endswith("\n") else text + newline
    return f"{start}{gap}{newline.join(lines)}{newline}"


def _insert_inline(text: str, table: Entry, pair: str) -> str:
    inside = text[table.value + 1 : table.end - 1]
    kept = inside.rstrip()
    separator = "" if not kept else ", "
    head, tail = text[: table.value + 1], text[table.end - 1 :]
    return f"{head}{kept}{separator}{' ' if not kept else ''}{pair} {tail}"


def _put_key(text: str, name: str, key: str, value: Any) -> str:
    """Return the text with one key of ``[servers.NAME]`` set: in place where it is one statement, else at its end."""
    path: KeyPath = ("servers", name, key)
    found = [e for e in scan(text) if e.path[: len(path)] == path and e.form in (Form.HEADER, Form.STATEMENT)]
    newline = _newline(text)
    if len(found) == 1 and found[0].path == path and found[0].form is Form.STATEMENT:
        return text[: found[0].value] + written_value(value, key).replace("\n", newline) + text[found[0].end :]
    return _add_statement(cut_path(text, path), ("servers", name), key, value)


def _add_statement(text: str, path: KeyPath, key: str, value: Any) -> str:
    """Return the text with a statement added at the end of the table that has a header of its own."""
    newline = _newline(text)
    at = _end_of_line(text, _own_end(text, path))
    gap = "" if text[:at].endswith("\n") else newline
    return f"{text[:at]}{gap}{_statement(key, value, newline)}{newline}{text[at:]}"


def _own_end(text: str, path: KeyPath) -> int:
    """Return the end of the last statement directly under the header of a table, or of the header if it has none."""
    end = 0
    inside = False
    for entry in scan(text):
        if entry.form is Form.HEADER:
            inside = entry.path == path
        if inside and entry.form in (Form.HEADER, Form.STATEMENT):
            end = entry.end
    return end


def cut_path(text: str, path: KeyPath, *, comments: bool = False) -> str:
    """Given a valid text, return it without anything that defines a key or something below it.

    With ``comments``, those directly above a header go with it.
    """
    entries = scan(text)
    spans = [_pair_span(text, entry, entries) for entry in entries if entry.form is Form.INLINE and entry.path == path]
    spans += _line_spans(text, path, entries, comments=comments)
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + text[end:]
    newline = _newline(text)
    at_end = any(end >= entries[-1].end for _, end in spans) and text.endswith(newline * 2)
    return text.removesuffix(newline) if at_end else text


def _line_spans(text: str, path: KeyPath, entries: Sequence[Entry], *, comments: bool) -> list[tuple[int, int]]:
    """Return the runs of whole lines that define a path: sections from header to last statement, and statements."""
    spans: list[tuple[int, int]] = []
    in_section, before = False, 0
    for entry in entries:
        if entry.form not in (Form.HEADER, Form.STATEMENT):
            continue
        hit = entry.path[: len(path)] == path
        start, end = text.rfind("\n", 0, entry.start) + 1, _end_of_line(text, entry.end)
        if comments and entry.form is Form.HEADER:
            start = _with_comments(text, start, before)
        before = entry.end
        if entry.form is Form.STATEMENT and hit and in_section:
            spans[-1] = (spans[-1][0], end)
        elif hit:
            spans.append((start, end))
        if entry.form is Form.HEADER:
            in_section = hit
    return [(start, _with_blank(text, start, end)) for start, end in spans]


def _with_comments(text: str, start: int, before: int) -> int:
    """Return the start of a cut, moved over the lines of comments above it, but not into what ends at ``before``."""
    while (above := text.rfind("\n", 0, max(start - 1, 0)) + 1) >= before and above < start:
        if not text[above:start].lstrip(" \t").startswith("#"):
            break
        start = above
    return start


def _with_blank(text: str, start: int, end: int) -> int:
    """Return the end of a cut, moved over the blank lines behind it if there are blank lines (or nothing) before it."""
    if text[:start].strip("\r\n \t") and not text[:start].replace("\r", "").endswith("\n\n"):
        return end
    while end < len(text) and not text[end : (after := _end_of_line(text, end))].strip():
        end = after
    return end


def _pair_span(text: str, entry: Entry, entries: Sequence[Entry]) -> tuple[int, int]:
    """Return the span of one pair inside of an inline table, with the one comma that goes with it."""
    siblings = [
        e
        for e in entries
        if e.form is Form.INLINE and len(e.path) == len(entry.path) and e.path[:-1] == entry.path[:-1]
    ]
    later = next((e for e in siblings if e.start > entry.start), None)
    if later is not None:
        return entry.start, later.start
    earlier = next((e for e in reversed(siblings) if e.start < entry.start), None)
    return (earlier.end, entry.end) if earlier is not None else (entry.start, entry.end)


def _end_of_line(text: str, offset: int) -> int:
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def _newline(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _statement(key: str, value: Any, newline: str) -> str:
    return f"{quoted(key)} = {written_value(value, key)}".replace("\n", newline)


def written_value(value: Any, key: str = "") -> str:
    """Return a value as TOML, a long array with one element a line; ``key`` is what it will stand behind."""
    text = _item(value).as_string()
    if isinstance(value, list | tuple) and len(text) + len(key) + 3 > _LONGEST_LINE:
        return "[\n" + "".join(f"    {_item(element).as_string()},\n" for element in value) + "]"
    return text


def _plain(value: Any) -> Any:
    """Return a value as the TOML library gives it when it reads."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _item(value: Any) -> Item:
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        for key, inner in value.items():
            table.append(tomlkit.key(key), _item(inner))
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        for inner in value:
            array.append(_item(inner))
        return array
    item: Item = tomlkit.item(value)
    return item
