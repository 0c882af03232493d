"""The command of a host for a server of ours is absolute, and recognised in every form that there was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from supervisord_mcp import shim
from supervisord_mcp.adoption.shims import Through, gone_program, shim_command, shim_environment, through
from supervisord_mcp.errors import SmcpError


def test_the_command_needs_no_path_and_takes_nothing_from_its_surroundings() -> None:
    argv = shim_command("time", None)
    assert argv == (sys.executable, "-I", "-S", os.path.abspath(shim.__file__), "time")
    assert all(map(os.path.isfile, (argv[0], argv[3])))
    assert shim_command("time", Path("/p"))[-2:] == ("--project", "/p")


def test_a_python_without_a_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(SmcpError, match="no absolute path"):
        shim_command("time", None)


def test_the_place_of_the_daemon_is_handed_on() -> None:
    assert shim_environment({"SMCP_HOME": "/x/../y", "PATH": "/bin"}) == {"SMCP_HOME": "/y"}
    assert shim_environment({"SMCP_HOME": ""}) == {}


@pytest.mark.parametrize(
    ("argv", "server"),
    [
        (shim_command("time", None), "time"),
        (("/old/python", "-I", "-S", "/gone/supervisord_mcp/shim.py", "time"), "time"),
        (("smcp", "connect", "time"), "time"),
        (("C:\\bin\\smcp.exe", "connect", "time"), "time"),
        (("python3", "-m", "supervisord_mcp", "connect", "time"), "time"),
        (("sh", "-c", "x", "smcp", "connect", "time"), "time"),
        (("smcp", "wrap", "--", "npx", "x"), ""),
        (("smcp", "connect"), ""),
    ],
)
def test_what_runs_through_smcp(argv: tuple[str, ...], server: str) -> None:
    assert through(argv) == Through(server)


def test_the_project_that_it_names() -> None:
    for words in (("time", "--project", "/p"), ("--project", "/p", "time"), ("--project=/p", "time")):
        assert through(("/usr/bin/smcp", "connect", *words)) == Through("time", "/p")
    assert through(("smcp", "connect", "time", "--project")) == Through("time")
    assert through(shim_command("time", Path("/p"))) == Through("time", "/p")


def test_what_is_gone_of_it(tmp_path: Path) -> None:
    argv = shim_command("/gone/time", Path("/gone"))
    assert gone_program(argv) == ""
    python, file = str(tmp_path / "bin/python"), str(tmp_path / "supervisord_mcp/shim.py")
    assert gone_program((python, *argv[1:])) == python
    assert gone_program((*argv[:3], file, "time")) == file
    assert gone_program((str(tmp_path / "smcp"), "connect", "time")) == str(tmp_path / "smcp")
    assert gone_program(("smcp", "connect", "time")) == ""
    # A link of a virtual environment whose Python was removed.
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(tmp_path / "python3.11")
    assert gone_program((python, *argv[1:])) == python


@pytest.mark.parametrize(
    "argv",
    [("npx", "smcp-server"), ("smcp", "status"), ("python", "shim.py", "x"), ("supervisord_mcp", "connect", "x"), ()],
)
def test_what_does_not(argv: tuple[str, ...]) -> None:
    assert through(argv) is None
