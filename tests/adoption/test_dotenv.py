"""Files of variables as editors read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.adoption.dotenv import read_variables


def read(tmp_path: Path, text: str) -> dict[str, str]:
    file = tmp_path / ".env"
    file.write_bytes(text.encode())
    return dict(read_variables(file))


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("export A = 1 # one", "1"),
        ("A=", ""),
        ("A=#", ""),
        ("A=a#b", "a#b"),
        ("A='1 # $x' # c", "1 # $$x"),
        ('A="a\\"b\\n"', 'a"b\n'),
        ("A=$5", "$$5"),
        ("A=~/x", "$~/x"),
        ("A=a=b", "a=b"),
    ],
)
def test_one_line(tmp_path: Path, line: str, value: str) -> None:
    assert read(tmp_path, line) == {"A": value}


def test_a_file(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff# mine\r\n\r\nA=1\r\nB=2\r\nA=3\r\n") == {"A": "3", "B": "2"}


@pytest.mark.parametrize("line", ["A", "1A=x", "A='x", 'A="x', 'A="hunter2" x', "- x"])
def test_what_is_no_variable_is_told_without_its_value(tmp_path: Path, line: str) -> None:
    with pytest.raises(ValueError, match="line 2 is not NAME=value") as caught:
        read(tmp_path, f"\n{line}\n")
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_variables(tmp_path / ".env")
