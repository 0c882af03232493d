"""Looking at this machine, and at one whose programs are stand-ins."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from pathlib import Path

import pytest

from supervisord_mcp import examination
from supervisord_mcp.examination import Engine, Room, examine, room
from supervisord_mcp.runtimes.landlock import ruleset


def _program(directory: Path, name: str, script: str) -> None:
    path = directory / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.bwrap
def test_this_machine() -> None:
    machine = examine(os.environ, str(Path.home()))
    assert machine.sandbox == ()
    assert machine.kernel == platform.release()
    assert machine.root is (os.geteuid() == 0)
    assert machine.landlock == ruleset.version()
    assert machine.bwrap


def test_versions_are_those_that_programs_tell(tmp_path: Path) -> None:
    _program(tmp_path, "node", "echo v18.1.0")
    _program(tmp_path, "uv", "echo 'uv 0.9.1 (abc 2026-01-01)'")
    _program(tmp_path, "runc", "echo 'runc version 1.1.5+ds1'; echo 'spec: 1.0'")
    _program(tmp_path, "bwrap", "echo strange; exit 3")
    machine = examine({"PATH": str(tmp_path)}, str(tmp_path))
    assert (machine.node, machine.uv, machine.runc, machine.bwrap) == ("18.1.0", "0.9.1", "1.1.5+ds1", "")


def test_an_engine_that_is_refused_says_why_and_one_that_answers_is_well(tmp_path: Path) -> None:
    answer = 'case "$1" in --version) echo "Docker version 28.2.2, build x";; *) {} esac'
    _program(tmp_path, "docker", answer.format("echo 'permission denied' >&2; exit 1;;"))
    _program(tmp_path, "podman", answer.format("echo 4.3.1;;"))
    machine = examine({"PATH": str(tmp_path)}, str(tmp_path))
    assert machine.engines == (
        Engine("docker", "28.2.2", "permission denied"),
        Engine("podman", "28.2.2"),
    )


def test_an_engine_is_asked_for_what_it_can_say_when_it_is_closed(tmp_path: Path) -> None:
    answer = 'case "$1" in --version) echo 28.2.2;; info) echo "template: 1:2" >&2; exit 1;; *) {} esac'
    _program(tmp_path, "docker", answer.format("echo 'permission denied' >&2; exit 1;;"))
    found = examine({"PATH": str(tmp_path)}, str(tmp_path)).engines
    assert found[0] == Engine("docker", "28.2.2", "permission denied")


def test_an_engine_that_hangs_is_told_as_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "_PATIENCE", 0.5)
    _program(tmp_path, "docker", f'case "$1" in --version) echo 28.2.2;; *) exec {shutil.which("sleep")} 60;; esac')
    trouble = "it does not answer within 0.5 s"
    assert examine({"PATH": str(tmp_path)}, str(tmp_path)).engines[0] == Engine("docker", "28.2.2", trouble)


def test_room_is_that_of_the_disk_also_before_a_directory_is_there(tmp_path: Path) -> None:
    found = room(str(tmp_path / "not" / "yet"))
    assert found.directory == str(tmp_path / "not" / "yet")
    assert found.free > 0
    assert found.files is None or found.files > 0
    assert room("/proc/self/fd") == Room("/proc/self/fd", 0, None)
