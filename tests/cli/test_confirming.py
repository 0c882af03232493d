"""Nothing of a person's is changed unless they said so."""

from __future__ import annotations

import io
import sys

import pytest

from supervisord_mcp.cli.confirming import confirm
from supervisord_mcp.errors import SmcpError, UsageError


class Terminal(io.StringIO):
    """Somebody sits there."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y\n", "YES\n", " y \n"])
def test_yes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    confirm("Adopt 2 files?\x1b[2J", yes=False)
    assert capsys.readouterr().err == "Adopt 2 files?\\x1b[2J [y/N] "


@pytest.mark.parametrize("answer", ["", "\n", "no\n", "yesterday\n"])
def test_no(monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with pytest.raises(SmcpError, match="nothing was changed"):
        confirm("Adopt?", yes=False)


def test_nobody_is_asked_who_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(UsageError, match="nobody can be asked") as raised:
        confirm("Adopt?", yes=False)
    assert raised.value.remedy == "look with --dry-run, then give --yes"
    with pytest.raises(UsageError) as raised:
        confirm("Trust?", yes=False, look="read above what they start")
    assert raised.value.remedy == "read above what they start, then give --yes"
    confirm("Adopt?", yes=True)
