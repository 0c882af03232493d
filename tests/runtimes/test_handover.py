"""From a blocked sandbox to a running server: what happens when bubblewrap does not do its part."""

from __future__ import annotations

import os
import subprocess
import uuid
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError, SmcpError
from supervisord_mcp.runtimes import handover, seccomp, tree
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from tests.kit.bounded import bounded
from tests.runtimes.conformance import exists
from tests.runtimes.test_diagnosis import KNOWN

OPTIONS = "--perms --die-with-parent --info-fd --block-fd --args --new-session --size --seccomp "
#: Plays the first phase: reports a process, waits, then does what the test says with the gate and its words.
PLAY = """#!/usr/bin/python3
import os, sys
if "--help" in sys.argv: print({options!r}); sys.exit()
args = open(int(sys.argv[sys.argv.index("--args") + 1])).read().split("\\0")
info, block = (int(args[args.index(name) + 1]) for name in ("--info-fd", "--block-fd"))
command = sys.argv[sys.argv.index("--") + 1:]
{body}
"""
REPORT = "os.write(info, b'{\"child-pid\": %d}' % os.getpid()); os.close(info); os.read(block, 1)\n"


def _stub(folder: Path, body: str) -> BwrapRuntime:
    program = folder / "bwrap"
    program.write_text(PLAY.format(options=OPTIONS, body=body))
    program.chmod(0o755)
    return BwrapRuntime(path=str(folder))


async def _error(runtime: BwrapRuntime, canary: Path) -> SmcpError:
    spec = LaunchSpec("files", ("/usr/bin/touch", str(canary)), marker=f"t-{uuid.uuid4()}")
    with pytest.raises(SmcpError) as caught:
        await runtime.launch(spec)
    assert not exists(canary)
    assert tree.marked(spec.marker) == []
    return caught.value


@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize(("text", "cause", "remedy"), KNOWN)
@pytest.mark.parametrize("when", ["", REPORT])
@bounded(30)
async def test_a_failed_set_up_starts_nothing(tmp_path: Path, text: str, cause: str, remedy: str, when: str) -> None:
    runtime = _stub(tmp_path, f"{when}print({text!r}, file=sys.stderr); sys.exit(1)")
    error = await _error(runtime, tmp_path / "canary")
    assert isinstance(error, IsolationError)
    assert text in error.message
    assert cause in error.message
    assert remedy in error.remedy


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_sandbox_that_is_gone_before_it_is_limited_is_explained(tmp_path: Path) -> None:
    gone = "os.write(info, b'{\"child-pid\": 4194305}'); os.close(info)"
    said = "print('loopback: Failed RTM_NEWADDR', file=sys.stderr, flush=True)"
    error = await _error(_stub(tmp_path, f"{said}; {gone}"), tmp_path / "canary")
    assert isinstance(error, IsolationError)
    assert "AppArmor" in error.message


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_program_that_does_not_isolate_is_found_out(tmp_path: Path) -> None:
    error = await _error(_stub(tmp_path, f"{REPORT}os.execv(command[0], command)"), tmp_path / "canary")
    assert isinstance(error, IsolationError)
    assert "shared its user, mnt, pid, ipc, uts, net namespace" in error.message


#: Runs the real program, without the filter that it was told to use.
UNFILTERED = """
at = args.index("--seccomp")
words = args[:at] + args[at + 2:]
file = os.memfd_create("args", 0)
os.write(file, "\\0".join(words).encode())
os.lseek(file, 0, 0)
for word in words:
    if word.isdigit() and 2 < int(word) < 1000 and os.path.exists(f"/proc/self/fd/{word}"):
        os.set_inheritable(int(word), True)
os.execv("/usr/bin/bwrap", ["bwrap", "--args", str(file), "--", *command])
"""


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_sandbox_without_a_filter_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handover, "_FILTER_SECONDS", 0.2)
    error = await _error(_stub(tmp_path, UNFILTERED), tmp_path / "canary")
    assert isinstance(error, IsolationError)
    assert "did not filter the system calls" in error.message


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_machine_that_cannot_be_filtered_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "mcp", "6.18", "#1", "riscv64")))
    seccomp.program.cache_clear()
    runtime = BwrapRuntime()
    (lack,) = runtime.check()
    assert "riscv64" in lack.cause
    error = await _error(runtime, tmp_path / "canary")
    assert isinstance(error, IsolationError)
    assert "riscv64" in error.message


@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize(
    "body",
    [
        "sys.exit(0)",
        "os.write(info, b'{}'); os.close(info); input()",
        "os.write(info, b'nonsense'); os.close(info); input()",
        f"{REPORT}print('something else', flush=True); input()",
        f"{REPORT}sys.exit(3)",
    ],
)
@bounded(30)
async def test_nonsense_starts_nothing(tmp_path: Path, body: str) -> None:
    assert isinstance(await _error(_stub(tmp_path, body), tmp_path / "canary"), IsolationError)


@pytest.mark.usefixtures("subreaper")
@bounded(30)
async def test_a_sandbox_that_is_never_ready_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("supervisord_mcp.runtimes.bwrap._SETUP_SECONDS", 0.2)
    error = await _error(
        _stub(tmp_path, f"{REPORT}print('busy', file=sys.stderr, flush=True); input()"), tmp_path / "c"
    )
    assert isinstance(error, IsolationError)
    assert "no sandbox after" in error.message


def test_the_gate_needs_its_word() -> None:
    for sent, code, output in ((b"go\nrest", 0, b"ok\nrest"), (b"", 97, b"ok\n"), (b"no\n", 97, b"ok\n")):
        line = ["/bin/sh", "-c", handover.GATE, "smcp", "/bin/cat"]
        done = subprocess.run(line, input=sent, capture_output=True, check=False)
        assert (done.returncode, done.stdout) == (code, output)
    line = ["/bin/sh", "-c", handover.GATE, "smcp", "/nowhere"]
    assert subprocess.run(line, input=b"", capture_output=True, check=False).stdout == b"missing\n"
