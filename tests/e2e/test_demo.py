"""README's first command shows what it promises: the part after the set-up, played as a person sees it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.daemon import ROOT
from tests.kit.required import need

pytestmark = [pytest.mark.slow, pytest.mark.bwrap, pytest.mark.npm]


def test_thirty_clients_share_three_processes_and_one_of_them_may_die(tmp_path: Path) -> None:
    need((Path(sys.executable).parent / "smcp").exists(), "smcp, installed beside this Python")
    need(shutil.which("npx"), "Node")
    need(shutil.which("bwrap"), "bubblewrap")
    environ = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    del environ["SMCP_HOME"]
    done = subprocess.run(
        [sys.executable, "-m", "contrib.demo"],
        cwd=ROOT, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=170, check=False,
    )  # fmt: skip
    said = done.stdout
    assert done.returncode == 0, said + done.stderr
    assert "without a sandbox" not in said.lower()
    assert "30 sessions, 30 different questions, 30 right answers" in said
    for name in ("time", "git", "files"):
        assert re.search(rf"^\W*{name}\W+10\W", said, re.MULTILINE), said
    assert re.search(r"the next call was answered after .* generation [23]", said), said
    assert re.search(r"none of the \d+ processes of this demo is left", said), said
    assert said.rstrip().endswith("or: uv tool install ."), "what comes next"
    assert list(tmp_path.iterdir()) == [], "no file is left"
