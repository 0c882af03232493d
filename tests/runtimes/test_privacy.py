"""What others can see of a process, and what is left of it after a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_SCRIPT = """
import ctypes, json, os, resource, subprocess, sys
from supervisord_mcp.runtimes.privacy import keep_memory_private
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
keep_memory_private(traceable={traceable})
limits = [sys.executable, "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_CORE))"]
child = subprocess.run(limits, capture_output=True, text=True, check=True).stdout.strip()
found = {{"core": resource.getrlimit(resource.RLIMIT_CORE), "child": child}}
print(json.dumps(found | {{"dumpable": ctypes.CDLL(None).prctl(3)}}), flush=True)
os.abort()
"""


@pytest.mark.parametrize("traceable", [False, True])
def test_memory_goes_into_no_file_and_is_nobodys_business(traceable: bool, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.format(traceable=traceable)],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=False,
    )
    found = json.loads(done.stdout)
    assert found == {"core": [0, 0], "child": "(0, 0)", "dumpable": int(traceable)}
    assert done.returncode == -6
    assert list(tmp_path.iterdir()) == []
