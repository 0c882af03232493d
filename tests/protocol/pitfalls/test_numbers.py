"""Every pitfall of protocol.md 7 is found by its number, wherever its test is."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[2]
ALL = range(1, 68)
#: They are about HTTP, where nobody is served yet.
HTTP = {13, 50, 51, 52, 53, 54}


def test_every_pitfall_has_a_test_of_its_number() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    found = {int(number) for number in re.findall(r"^(?:async )?def test_pitfall_(\d\d)_", text, re.MULTILINE)}
    assert set(ALL) - HTTP - found == set()
    assert found - set(ALL) == set()
