"""The system calls of Landlock, on the kernel of this machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.landlock import ruleset
from supervisord_mcp.runtimes.landlock.abi import READ, WRITE, Coverage, coverage


def _in_a_thread(action: Callable[[], object]) -> object:
    """Return what an action gives, or the error it ends with, in a thread that is gone afterwards."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(action())
        except OSError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(20)
    return found[0]


def _coverage() -> Coverage:
    return coverage(ruleset.version(), network=False)


def test_this_kernel_has_landlock() -> None:
    assert ruleset.version() >= 1


def test_a_restricted_thread_keeps_only_what_is_allowed(tmp_path: Path) -> None:
    for name in ("read", "written", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)

    def act() -> dict[str, object]:
        with ruleset.made(_coverage(), [(str(tmp_path / "read"), READ), (str(tmp_path / "written"), WRITE)]) as rules:
            ruleset.restrict_this_thread(rules)
        outcomes: dict[str, object] = {}
        for name in ("read", "written", "other"):
            for what, action in (("reads", Path.read_text), ("writes", lambda path: path.write_text("new"))):
                try:
                    action(tmp_path / name / "file")
                except PermissionError:
                    outcomes[f"{name} {what}"] = False
                else:
                    outcomes[f"{name} {what}"] = True
        return outcomes

    assert _in_a_thread(act) == {
        "read reads": True,
        "read writes": False,
        "written reads": True,
        "written writes": True,
        "other reads": False,
        "other writes": False,
    }
    # The thread that was restricted is gone, and nothing of it stuck to this one.
    assert (tmp_path / "other" / "file").read_text() == "other"


def test_a_rule_for_a_file_leaves_rights_of_directories_away(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")

    def act() -> tuple[str, bool]:
        with ruleset.made(_coverage(), [(str(tmp_path / "a"), WRITE)]) as rules:
            ruleset.restrict_this_thread(rules)
        try:
            (tmp_path / "b").read_text()
        except PermissionError:
            return (tmp_path / "a").read_text(), True
        return "", False

    assert _in_a_thread(act) == ("a", True)


def test_a_path_that_is_not_there_is_named_and_no_descriptor_is_left(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError, match="missing"), ruleset.made(_coverage(), [(f"{tmp_path}/missing", READ)]):
        pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_kernel_refuses_what_it_does_not_know() -> None:
    with pytest.raises(OSError, match="Invalid argument"), ruleset.made(Coverage(READ, 0, 1 << 40), []):
        pass


def test_what_is_no_set_of_rules_is_refused() -> None:
    def act() -> object:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        try:
            ruleset.restrict_this_thread(descriptor)
        finally:
            os.close(descriptor)
        return None

    assert isinstance(_in_a_thread(act), OSError)
