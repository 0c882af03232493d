"""A plot has a line for each server, gaps where nothing ran, and marks where it started."""

from __future__ import annotations

import builtins
import math
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from supervisord_mcp.cli.plot import check, draw
from supervisord_mcp.errors import SmcpError, UsageError
from tests.cli.figures import GIT, IDLE, RESULT

OTHER = msgspec.structs.replace(GIT, name="other")
BOTH = msgspec.structs.replace(RESULT, servers=(GIT, OTHER, IDLE))


def test_a_plot_names_its_servers(tmp_path: Path) -> None:
    file = tmp_path / "usage.svg"
    draw(BOTH, file)
    text = file.read_text()
    ElementTree.fromstring(text)
    for said in ("git", "other", "memory (PSS), MiB", "processors, % of one"):
        assert f"<!-- {said} -->" in text
    assert "<!-- idle -->" not in text


def test_a_plot_has_a_gap_where_nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    drawn: list[tuple[Any, ...]] = []
    real = Axes.plot

    def noted(self: Axes, *args: Any, **more: Any) -> Any:
        drawn.append(args)
        return real(self, *args, **more)

    monkeypatch.setattr(Axes, "plot", noted)
    draw(RESULT, tmp_path / "usage.svg")
    memory, starts, *_ = drawn
    assert sum(map(math.isnan, memory[1])) == 1
    assert len(memory[0]) == len(GIT.history) + 1
    assert len(starts[0]) == 2


def test_a_plot_may_be_an_image(tmp_path: Path) -> None:
    file = tmp_path / "usage.PNG"
    draw(BOTH, file)
    data = file.read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (1200, 720)


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(SmcpError, match="nothing to draw"):
        draw(msgspec.structs.replace(RESULT, servers=(IDLE,)), tmp_path / "usage.svg")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SmcpError, match=r"cannot be written: .*No such file"):
        draw(BOTH, tmp_path / "none" / "usage.svg")


def test_only_two_kinds_of_files() -> None:
    check(Path("a.svg"))
    check(Path("a.PNG"))
    with pytest.raises(UsageError, match=r"must end in \.svg or \.png"):
        check(Path("a.pdf"))


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SmcpError, match="needs matplotlib") as caught:
        check(Path("a.svg"))
    assert "mcp-supervisord[plot]" in caught.value.remedy
