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
from supervisord_mcp.protocol.usage import ServerUsage
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


def named(count: int) -> tuple[ServerUsage, ...]:
    """Return so many servers that ran, with the longest names that there may be."""
    return tuple(msgspec.structs.replace(GIT, name=f"{'n' * 61}-{number:02}") for number in range(count))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [1, 30])
def test_many_names_leave_room_for_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    from matplotlib.figure import Figure

    made: list[Figure] = []
    real = Figure.savefig

    def noted(self: Figure, *args: Any, **more: Any) -> None:
        made.append(self)
        real(self, *args, **more)

    monkeypatch.setattr(Figure, "savefig", noted)
    draw(msgspec.structs.replace(RESULT, servers=named(count)), tmp_path / "usage.png")
    [figure] = made
    whole, (legend,) = figure.bbox, figure.legends
    box = legend.get_window_extent()
    assert (box.x0 >= 0, box.x1 <= whole.x1, box.y0 >= 0, box.y1 <= whole.y1) == (True,) * 4
    above, below = (axes.get_window_extent() for axes in figure.axes)
    for one in (above, below):
        assert one.width > 0.4 * whole.width
        assert one.height > 0.3 * whole.height
        assert one.x1 < box.x0
    looks = {(line.get_color(), line.get_linestyle()) for line in legend.get_lines()}
    assert len(looks) == count


@pytest.mark.filterwarnings("error")
def test_one_moment_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    drawn: list[tuple[Axes, Any, Any]] = []
    real = Axes.plot

    def noted(self: Axes, *args: Any, **more: Any) -> Any:
        drawn.append((self, args, more.get("marker")))
        return real(self, *args, **more)

    monkeypatch.setattr(Axes, "plot", noted)
    [point] = [msgspec.structs.replace(point, starts=0) for point in GIT.history[1:2]]
    one = msgspec.structs.replace(GIT, history=(point,))
    draw(msgspec.structs.replace(RESULT, servers=(one,)), tmp_path / "usage.svg")
    assert [marker for _, _, marker in drawn] == [None, ".", None, "."]
    first, last = drawn[0][0].get_xlim()
    assert (last - first) * 86400 == pytest.approx(60.0)
    assert len(drawn[1][1][0]) == 1


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
