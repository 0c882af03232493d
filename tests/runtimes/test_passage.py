"""What is closed to the user of a server can be granted to it, and nothing beside it is."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes import passage
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import Identities, Identity
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import python, read, running

SOMEBODY = Identity(60706, 60706)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder like the home of root: closed to others, with a directory and a file in it that could be granted."""
    folder = Path(tempfile.mkdtemp(prefix="smcp-test-", dir="/var/tmp"))
    (folder / "deep/python").mkdir(parents=True)
    (folder / "deep/python/file").write_text("granted\n")
    (folder / "deep/python/inner").mkdir()
    (folder / "deep/secret").write_text("secret\n")
    (folder / "note").write_text("a note\n")
    yield folder
    shutil.rmtree(folder)


def test_closed_paths_are_told_by_what_closes_them(closed: Path) -> None:
    note, deep = str(closed / "note"), str(closed / "deep")
    assert passage.closed_paths(["/usr/bin", note, deep, note], SOMEBODY) == {str(closed): [note, deep]}
    closed.chmod(0o711)
    assert passage.closed_paths([str(closed / "note")], SOMEBODY) == {}


@as_root
@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_a_server_reaches_what_it_was_granted_and_nothing_else(closed: Path) -> None:
    script = (
        f"cd {closed}; cat deep/python/file note; ls -A . deep deep/python; touch deep/python/x 2>/dev/null || echo ro"
    )
    spec = LaunchSpec(
        "test",
        ("/bin/sh", "-c", script),
        env=(("PATH", "/usr/bin:/bin"),),
        marker=f"t-{uuid.uuid4()}",
        read_only=(str(closed / "deep/python"), str(closed / "deep/python/inner")),
        mounts=(Mount(str(closed / "note")),),
    )
    before = _mounts()
    async with running(BwrapRuntime(identities=Identities()), spec) as child:
        words = (await read(child.stdout)).split()
        assert words[:3] == [b"granted", b"a", b"note"]
        assert b"secret" not in words
        assert words[-1] == b"ro"
    assert (_mounts(), os.getcwd() != "/") == (before, True)


@as_root
@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_the_python_of_these_tests_runs() -> None:
    async with running(BwrapRuntime(identities=Identities()), python("import os; print(os.getuid())")) as child:
        assert await read(child.stdout) == b"1000\n"


@as_root
def test_a_machine_that_forbids_it_is_told_of(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = _mounts()
    note = str(closed / "note")
    with monkeypatch.context() as patch:
        patch.setattr(passage, "_mount", refuse)
        with (
            pytest.raises(IsolationError, match=r"no way can be made to .*note .*: Operation not permitted") as caught,
            passage.way([note], SOMEBODY, {}),
        ):
            raise AssertionError("there is a way")
    assert f"chmod o+x {closed}" in caught.value.remedy
    monkeypatch.setattr(passage, "closed_paths", lambda *_: {"/": ["/x"]})
    with pytest.raises(IsolationError, match="the root directory is closed"), passage.way(["/x"], SOMEBODY, {}):
        raise AssertionError("there is a way")
    assert _mounts() == before


def _mounts() -> str:
    return Path("/proc/thread-self/mountinfo").read_text()
