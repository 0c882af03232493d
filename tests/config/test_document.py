"""One TOML file: what it says and where, and that whatever it holds is either a document or a fault."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.document import parse_document, read_document
from supervisord_mcp.errors import ConfigError, Problem


def test_a_document_places_its_faults() -> None:
    document = parse_document(Path("/f"), b"# head\n[a]\nb = [1,\n 2]\n")
    assert document.problem(("a", "b", 1), "wrong") == Problem("/f", 4, "a.b[1]", "wrong")
    assert document.problem(("a", "missing"), "wrong") == Problem("/f", 2, "a.missing", "wrong")
    assert document.problem((), "wrong") == Problem("/f", None, "", "wrong")
    assert document.servers == ()


def test_what_is_not_there_is_no_fault_and_what_cannot_be_read_is_one(tmp_path: Path) -> None:
    problems: list[Problem] = []
    assert read_document(tmp_path / "none.toml", None, problems) is None
    assert problems == []
    assert read_document(tmp_path, None, problems) is None
    assert problems == [Problem(str(tmp_path), None, "", "cannot be read: not a regular file")]


def test_given_content_counts_instead_of_the_file(tmp_path: Path) -> None:
    problems: list[Problem] = []
    document = read_document(tmp_path / "none.toml", b"a = 1", problems)
    assert document is not None
    assert document.data == {"a": 1}
    assert read_document(tmp_path / "none.toml", b"a = ", problems) is None
    assert len(problems) == 1


def test_a_document_is_utf8() -> None:
    with pytest.raises(ConfigError, match="UTF-16"):
        parse_document(Path("/f"), "a = 1".encode("utf-16"))


@given(st.binary(max_size=60) | st.text("[]{}=\"'servers.a\ncommand daemon#1,", max_size=60).map(str.encode))
def test_any_content_is_a_document_or_a_fault(content: bytes) -> None:
    with suppress(ConfigError):
        assert parse_document(Path("/f"), content).file == Path("/f")
