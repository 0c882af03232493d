"""A server of a daemon run by root works on files of root and of others, and is never root itself."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes import lending
from supervisord_mcp.runtimes.base import Access, LaunchSpec, Mount, Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.descriptors import Descriptors
from supervisord_mcp.runtimes.identity import Identity
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.lending import as_borrower, lend
from supervisord_mcp.runtimes.seccomp import Policy
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.runtimes.conformance import ended, exists, read, running, shell
from tests.runtimes.test_bwrap import as_person

pytestmark = [as_root, pytest.mark.bwrap, pytest.mark.usefixtures("subreaper")]

PERSON, THIRD = 4242, 4243
SOMEBODY = Identity(60706, 60706)
#: What each file says to who can read it, and whether it can be written.
LOOK = """
cd "$1"; for name in closed open third; do cat $name 2>/dev/null || echo no; done
for name in closed third; do (: >> $name) 2>/dev/null && echo writes || echo no; done
(echo x > new) 2>/dev/null && echo new || echo no; umask
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that is closed to others, with files of its owner and one of somebody else."""
    folder = Path(tempfile.mkdtemp(prefix="smcp-test-", dir="/var/tmp"))
    granted = folder / "granted"
    granted.mkdir(mode=0o700)
    for name, mode in (("closed", 0o600), ("open", 0o644), ("third", 0o600)):
        (granted / name).write_text(f"{name}\n")
        (granted / name).chmod(mode)
    os.chown(granted / "third", THIRD, THIRD)
    yield granted
    shutil.rmtree(folder)


def _spec(place: Path, access: str = "rw", script: str = LOOK) -> LaunchSpec:
    spec = shell(script)
    mount = Mount(str(place), "rw" if access == "rw" else "ro")
    return replace(spec, argv=(*spec.argv, "sh", str(place)), mounts=(mount,))


async def _words(runtime: Runtime, spec: LaunchSpec) -> list[str]:
    async with running(runtime, spec) as child:
        assert int(child.user) > 0
        assert _users(child.pid) == {child.user}
        return (await read(child.stdout)).decode().split()


def _users(pid: int) -> set[str]:
    return set(Path(f"/proc/{pid}/status").read_text().partition("Uid:")[2].split()[:4])


def _give(place: Path, uid: int) -> None:
    for path in (place, place / "closed", place / "open"):
        os.chown(path, uid, uid)


def _owners(place: Path) -> set[tuple[int, int]]:
    return {(status.st_uid, status.st_gid) for status in map(os.stat, (place / "closed", place / "new"))}


@pytest.mark.parametrize("owner", [0, PERSON])
@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
@bounded(60)
async def test_it_works_on_files_of_others_and_they_stay_theirs(
    place: Path, tmp_path: Path, owner: int, kind: str
) -> None:
    _give(place, owner)
    runtime = BwrapRuntime() if kind == "bwrap" else LandlockRuntime(str(tmp_path))
    assert await _words(runtime, _spec(place)) == ["closed", "open", "no", "writes", "no", "new", "0022"]
    assert _owners(place) == {(owner, owner)}
    assert os.stat(place / "third").st_uid == THIRD


@bounded(60)
async def test_what_is_read_only_stays_so(place: Path) -> None:
    os.chmod(place, 0o755)
    assert await _words(BwrapRuntime(), _spec(place, "ro")) == ["closed", "open", "no", "no", "no", "no", "0022"]
    assert not exists(place / "new")


@bounded(60)
async def test_a_part_that_is_protected_stays_so(place: Path) -> None:
    (place / ".git/hooks").mkdir(parents=True)
    spec = _spec(place, script='cd "$1/.git" && touch file && { touch hooks/x 2>/dev/null || echo protected; }')
    spec = replace(spec, mounts=(Mount(str(place), "rw", None, (".git/hooks",)),))
    assert await _words(BwrapRuntime(), spec) == ["protected"]
    assert exists(place / ".git/file")


@pytest.mark.parametrize("outer", ["ro", "rw"])
@pytest.mark.parametrize("inner", ["ro", "rw"])
@bounded(60)
async def test_each_part_has_its_own_access_whoever_owns_it(place: Path, outer: Access, inner: Access) -> None:
    part = place / "part"
    part.mkdir(mode=0o700)
    os.chown(part, PERSON, PERSON)
    script = f"touch {place}/x 2>/dev/null && echo outer; touch {part}/x 2>/dev/null && echo inner; echo ."
    spec = replace(shell(script), mounts=(Mount(str(part), inner), Mount(str(place), outer)))
    expected = [name for name, access in (("outer", outer), ("inner", inner)) if access == "rw"]
    assert await _words(BwrapRuntime(), spec) == [*expected, "."]


@bounded(60)
async def test_a_program_that_is_closed_to_others_runs(place: Path) -> None:
    program = place / "server"
    program.write_text("#!/bin/sh\nid -u; cat $(dirname $0)/closed\n")
    program.chmod(0o700)
    spec = replace(shell(":"), argv=(str(program),), read_only=(str(place),))
    assert await _words(BwrapRuntime(), spec) == ["1000", "closed"]


def test_nothing_is_left_of_a_loan(place: Path) -> None:
    before = _traces()
    with Descriptors() as descriptors:
        loans = lend(_spec(place), SOMEBODY, descriptors)
        assert list(loans) == [str(place)]
        assert os.stat(loans[str(place)]).st_uid == SOMEBODY.uid
        assert os.stat(place).st_uid == 0
        assert lend(_spec(place), None, descriptors) == {}
        # What is of the same owner comes with that.
        part = replace(_spec(place), read_only=(str(place / "closed"), str(place / "third")))
        assert list(lend(part, SOMEBODY, descriptors)) == [str(place), str(place / "third")]
    assert _traces() == before


def _traces() -> list[object]:
    """Return the mounts and the children of this process, and how many files it has open."""
    texts = (Path(f"/proc/thread-self/{name}").read_text() for name in ("mountinfo", "children"))
    return [*texts, len(os.listdir("/proc/self/fd"))]


def test_what_may_be_used_anyway_is_not_lent(place: Path) -> None:
    with Descriptors() as descriptors:
        for owner, mode in ((PERSON, 0o777), (SOMEBODY.uid, 0o700)):
            _give(place, owner)
            place.chmod(mode)
            assert lend(_spec(place), SOMEBODY, descriptors) == {}


@pytest.mark.parametrize("call", ["_OPEN_TREE", "_MOUNT_SETATTR"])
@bounded(60)
async def test_where_nothing_can_be_lent_what_is_closed_stays_closed(
    place: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A number that no kernel has: it answers as one that is older than idmapped mounts.
    monkeypatch.setattr(lending, call, 100_000)
    spec = _spec(place)
    with pytest.raises(LaunchError, match=r"who may not write /.*cannot be lent: Function not implemented") as caught:
        await BwrapRuntime().launch(spec)
    assert "setfacl -R -m u:" in caught.value.remedy
    assert not caught.value.retryable
    assert not exists(place / "new")
    os.chmod(place, 0o755)
    assert await _words(BwrapRuntime(), _spec(place, "ro")) == ["no", "open", "no", "no", "no", "no", "0022"]


LEAVE = """cd "$1"; cp /bin/true mine; for mode in 4755 2755; do chmod $mode mine 2>/dev/null && echo $mode; done
    python3 -c 'import os
for flags in (os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_TMPFILE):
    try: os.open("." if flags & os.O_TMPFILE == os.O_TMPFILE else "made", flags, 0o4755); print("made", flags)
    except PermissionError: pass'
    python3 -c 'import os; os.mknod("made", 0o104755)' 2>/dev/null && echo mknod; chmod 1755 mine && echo fine"""


async def _leaves_nothing_behind(runtime: Runtime, place: Path) -> None:
    async with running(runtime, _spec(place, script=LEAVE)) as child:
        assert await read(child.stdout) == b"fine\n"
        assert (await ended(child)).success
    assert stat.S_IMODE(os.stat(place / "mine").st_mode) == 0o1755
    assert not exists(place / "made")


@bounded(60)
async def test_no_program_is_left_behind_that_runs_as_root(place: Path) -> None:
    await _leaves_nothing_behind(BwrapRuntime(), place)


@pytest.mark.parametrize("kind", ["bwrap", "landlock"])
def test_no_program_is_left_behind_that_runs_as_the_person(place: Path, kind: str) -> None:
    _give(place, 1500)
    place.parent.chmod(0o755)
    base = place.parent / "base"
    base.mkdir()
    os.chown(base, 1500, 1500)

    async def leave() -> None:
        runtime = BwrapRuntime() if kind == "bwrap" else LandlockRuntime(str(base))
        await _leaves_nothing_behind(runtime, place)

    as_person(leave)


def test_what_may_write_nothing_of_others_may_set_any_mode() -> None:
    spec = LaunchSpec("test", ("/bin/true",), mounts=(Mount("/a"),))
    assert not as_borrower(spec, {}).seccomp.lent
    assert as_borrower(replace(spec, mounts=(Mount("/a"), Mount("/b", "rw"))), {}).seccomp.lent
    assert as_borrower(spec, {"/a": 5}).seccomp.lent


@bounded(60)
async def test_no_program_is_left_behind_that_has_rights_of_root(place: Path) -> None:
    # With a user namespace of its own, whose root is the user of the server, it may give a file rights in there. On
    # the disk that user is root, so the file would have them on the whole machine.
    script = """cd "$1"; cp /bin/true mine; unshare --user --map-root-user python3 -c 'import os
rights = bytes.fromhex("01000002" + "ff" * 4 + "00" * 4 + "ff010000" + "00" * 4)
mine = os.open("mine", os.O_RDONLY)
for name, target, links in (("path", "mine", True), ("link", "mine", False), ("open", mine, True)):
    try: os.setxattr(target, "security.capability", rights, follow_symlinks=links); print(name)
    except PermissionError: pass
print(os.getuid())'"""
    spec = _spec(place, script=script)
    async with running(BwrapRuntime(), replace(spec, seccomp=Policy(userns=True))) as child:
        assert await read(child.stdout) == b"0\n"
        assert (await ended(child)).success
    assert "security.capability" not in os.listxattr(place / "mine")
