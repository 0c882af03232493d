"""The headline table in the README: between two markers, with the date, the versions and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from contrib.bench.field.results import from_plain, tables

BEGIN, END = "<!-- field -->", "<!-- end of field -->"


def described(content: Mapping[str, Any]) -> str:
    """Return what was measured, when and on what, as one sentence."""
    machine = ", ".join(f"{name} {value}" for name, value in content["machine"].items())
    rounds, minutes = content["rounds"], content["seconds"] / 60
    many = "one round" if rounds == 1 else f"medians of {rounds} rounds in turns"
    return f"{content['date']}, version {content['version']}, {machine}; {many}, {minutes:.0f} minutes"


def with_table(text: str, content: Mapping[str, Any]) -> str:
    """Return the README with the table of this run between its markers. Raise `ValueError` where they are not."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the README has no markers {BEGIN} and {END}")
    rows = [row for row in from_plain(content["rows"]) if row.server == "tiny"]
    return f"{before}{BEGIN}\n{described(content)}.\n\n{tables(rows, headline=True)}\n{END}{after}"


def fill(path: Path, content: Mapping[str, Any]) -> None:
    """Write the table of this run into the README at this path. Raise `ValueError` where it has no markers."""
    path.write_text(with_table(path.read_text(encoding="utf-8"), content), encoding="utf-8")
