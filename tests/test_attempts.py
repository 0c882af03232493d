"""The table of attempts in the README, and how it is made."""

from __future__ import annotations

import re

import pytest

from contrib.probes.__main__ import README
from contrib.probes.table import BEGIN, END, Column, table, with_table
from supervisord_mcp.probes import trial
from supervisord_mcp.probes.expected import Situation
from supervisord_mcp.probes.trial import Result

DENIED = {name: Result("denied", "EPERM") for name in trial.names()}


def _part(readme: str) -> str:
    return readme.partition(BEGIN)[2].partition(END)[0]


def test_the_table_of_the_readme_has_every_attempt() -> None:
    named = re.findall(r"^\| ([^|]+) \| (?:no|yes|either) \|", _part(README.read_text(encoding="utf-8")), re.MULTILINE)
    assert sorted(named) == sorted(trial.names())


def test_what_succeeded_is_counted_and_shown() -> None:
    one = "read a private key of ssh"
    columns = [
        Column("first", DENIED | {one: Result("open"), "pings": Result("absent")}, Situation()),
        Column("second", DENIED, None),
    ]
    text = table(columns, "today")
    (total,) = re.findall(r"^\| all \| (\d+) \| \*\*1\*\* \| \*\*0\*\* \|$", text, re.MULTILINE)
    assert int(total) > 150
    assert f"| {one} | no | **open** | · |" in text
    assert "| pings | either | - | · |" in text


def test_only_what_is_between_the_markers_is_replaced() -> None:
    made = with_table(f"above\n{BEGIN}old\n{END}\nbelow\n", [Column("x", DENIED, None)], "today")
    assert made.startswith(f"above\n{BEGIN}\nAttempts that")
    assert made.endswith(f"{END}\nbelow\n")
    assert "\nold\n" not in made
    with pytest.raises(ValueError, match="markers"):
        with_table("nothing", [], "today")
