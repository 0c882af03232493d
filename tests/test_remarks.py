"""Remarks on the messages of a server: all of them counted, the first of each run logged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.logs import ServerLog
from supervisord_mcp.remarks import LOGGED, Remarks


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServerLog]:
    one = ServerLog(tmp_path / "one.log", max_size=1 << 20, keep=1)
    yield one
    one.close()


def said(log: ServerLog) -> list[str]:
    return [line.split(" ", 2)[2] for line in log.last(10_000)]


def test_what_reached_nobody_is_counted_by_its_kind(log: ServerLog) -> None:
    remarks = Remarks(log)
    for kind in ("noise", "late", "noise", "catalogue", "unknown"):
        remarks.take(kind, "x")
    assert remarks.dropped == {"noise": 2, "late": 1, "unknown": 1}
    assert said(log) == ["noise: x", "late: x", "noise: x", "catalogue: x", "unknown: x"]


def test_noise_of_a_run_is_told_with_its_first_line(log: ServerLog) -> None:
    remarks = Remarks(log)
    remarks.take("late", "no noise")
    assert remarks.noise == ""
    remarks.take("noise", "Hello\n  there " + "x" * 200)
    assert remarks.noise == "it wrote a line that is not MCP to stdout, first: Hello there " + "x" * 106
    remarks.take("noise", "second")
    assert remarks.noise.startswith("it wrote 2 lines that are not MCP to stdout, first: Hello there xx")
    remarks.end_run()
    remarks.take("noise", "of the next run")
    assert remarks.noise == "it wrote a line that is not MCP to stdout, first: of the next run"


def test_only_the_first_of_each_run_is_logged(log: ServerLog) -> None:
    remarks = Remarks(log)
    for number in range(LOGGED + 7):
        remarks.take("noise", str(number))
    remarks.end_run()
    remarks.take("late", "again")
    remarks.end_run()
    assert remarks.dropped == {"noise": LOGGED + 7, "late": 1}
    assert said(log)[-3:] == [
        f"noise: {LOGGED - 1}",
        "and 7 more lines of noise that are not shown",
        "late: again",
    ]


def test_noise_shows_no_secret_and_no_part_of_one(log: ServerLog) -> None:
    masker.learn("s3cret-value-of-a-server", "vault:mine")
    remarks = Remarks(log)
    remarks.take("noise", "I have s3cret-value-of-a-server and s3cret-value-of")
    assert remarks.noise.endswith("first: I have *** and ***")
    assert said(log) == ["noise: I have *** and ***"]
