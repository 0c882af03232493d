"""What a machine lacks skips a test for a person, and fails it where everything must be there."""

from __future__ import annotations

import pytest
from _pytest.outcomes import Failed, Skipped

from tests.kit.required import need


@pytest.mark.parametrize("word", ["true", "1", "yes"])
def test_continuous_integration_must_have_everything(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", word)
    need("something", "a compiler")
    with pytest.raises(Failed, match="needs a compiler, which continuous integration must have"):
        need(None, "a compiler")


@pytest.mark.parametrize("word", ["", "0", "false"])
def test_a_person_may_lack_something(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", word)
    with pytest.raises(Skipped, match="needs a compiler"):
        need(None, "a compiler")
