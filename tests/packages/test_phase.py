"""One command in the install sandbox: what goes in, what it reaches, and what comes out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisord_mcp.egress.registries import Registries
from supervisord_mcp.egress.rules import parse_rules
from supervisord_mcp.packages.phase import Ending, Task, carry_out
from supervisord_mcp.packages.settings import Settings
from tests.kit.bounded import bounded
from tests.packages.estate import sandboxed
from tests.runtimes.conformance import exists

pytestmark = [pytest.mark.usefixtures("subreaper"), pytest.mark.bwrap]
SETTINGS = Settings({"npm_config_x": "1", "HTTPS_PROXY": "http://me:s3cret@p:1"}, (), (), Registries())


async def _shell(home: Path, script: str, **more: object) -> tuple[Ending, list[str]]:
    said: list[str] = []
    task = Task(("/bin/sh", "-c", script), SETTINGS, **more)  # type: ignore[arg-type]
    async with sandboxed(home, {}) as around:
        return await carry_out(task, around, said.append), said


@bounded(60)
async def test_lines_and_the_end(tmp_path: Path) -> None:
    ending, said = await _shell(tmp_path, "printf 'one\\rtwo\\n\\nthree'; cat; exit 3", stdin=b"four\n" * 40000)
    assert str(ending.status) == "exit 3"
    assert said[:3] == ["one", "two", "threefour"]
    assert len(said) == 40002
    assert ending.lines == ("four",) * 40


@bounded(60)
async def test_what_it_sees_and_writes(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place").chmod(0o777)
    script = "env; pwd; touch made; ls -d /root /home/* $OUTSIDE; exit 0"
    env = {"OUTSIDE": str(tmp_path)}
    ending, said = await _shell(tmp_path, script, writable=(tmp_path / "place",), env=env)
    assert ending.status.success
    assert exists(tmp_path / "place/made")
    text = "\n".join(said)
    assert f"\n{tmp_path}/place\n" in text
    assert "npm_config_x=1" in said
    assert "s3cret" not in text, "the proxy of the person is the daemon's business"
    assert "cannot access '/root'" in text
    assert "/home/mcp" in said
    assert os.stat(tmp_path / "place/made").st_uid == os.geteuid()


@bounded(60)
async def test_it_reaches_only_its_rules(tmp_path: Path) -> None:
    ask = (
        "import urllib.request as r, sys\n"
        "try: r.urlopen('http://other.test:81/', timeout=20)\n"
        "except Exception as e: print(e)\n"
    )
    rules = parse_rules(["a.test:443"])
    ending, said = await _shell(tmp_path, f'/usr/bin/python3 -c "{ask}"', rules=rules)
    assert ending.refused == ("other.test:81",)
    assert "403" in said[-1]
    alone, _ = await _shell(tmp_path, "! grep -v lo: /proc/net/dev | grep :")
    assert alone.status.success
    assert alone.refused == ()
