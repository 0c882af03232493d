"""What stays read-only in a writable mount: in a real sandbox, against a server that would leave something behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.protected import ALWAYS, IF_THERE, remaining
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.protection import protected_mounts
from tests.kit.bounded import bounded
from tests.runtimes.conformance import ended, read, running, shell

GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")


def _git(directory: Path, *words: str) -> str:
    done = subprocess.run([*GIT, *words], cwd=directory, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def _repository(path: Path) -> Path:
    path.mkdir(parents=True)
    _git(path, "init", "-q", "-b", "main")
    (path / "file").write_text("x")
    _git(path, "add", "file")
    _git(path, "commit", "-q", "-m", "first")
    return path


def _mount(path: Path, *unprotected: str, access: str = "rw") -> Mount:
    names = remaining(ALWAYS, unprotected), remaining(IF_THERE, unprotected)
    return Mount(str(path), access, None, *names)  # type: ignore[arg-type]


def _guards(mount: Mount, filled: list[str] | None = None) -> dict[str, str]:
    """Return what protects a mount, relative to it, where everything can be filled."""

    def fill(path: str, text: bytes | None) -> bool:
        if filled is not None:
            filled.append(os.path.relpath(path, mount.path))
        return True

    guards = protected_mounts(mount, fill)
    assert all(guard.pinned for guard in guards)
    return {os.path.relpath(guard.path, mount.path): guard.access for guard in guards}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("[core]\n\thooksPath = .githooks\n", {".githooks": "ro"}),
        (
            '[core "x"]\nhookspath = a\n[user]\nhookspath=b\n[CORE] HooksPath="tools/my hooks" ; y',
            {"tools/my hooks": "ro"},
        ),
        ("[core]\nhooksPath = a\nbare = false\nhooksPath = {root}/b # last\n", {"b": "ro"}),
        ("[core]\nhooksPath = ../outside\n", {}),
        ("[core]\nhooksPath = .\n", {}),
        ("[core]\nhooksPath = .git/hooks\n", {}),
        ("[core]\nhooksPath =\n", {}),
    ],
)
def test_hooks_that_are_elsewhere(tmp_path: Path, settings: str, expected: dict[str, str]) -> None:
    project = _repository(tmp_path / "p")
    (project / "tools").mkdir()
    usual = _guards(_mount(project))
    (project / ".git/config").write_text(settings.replace("{root}", str(project)))
    found = _guards(_mount(project))
    assert {name: access for name, access in found.items() if name not in {*usual, "tools"}} == expected
    assert "hooks" not in str(_guards(_mount(project, ".git/hooks")))
    (project / ".git/config").unlink()
    assert set(_guards(_mount(project))) == set(usual)


def test_hooks_behind_a_link_are_refused(tmp_path: Path) -> None:
    project = _repository(tmp_path / "p")
    (project / ".git/config").write_text("[core]\nhooksPath = mine\n")
    (project / "mine").symlink_to(tmp_path)
    with pytest.raises(LaunchError, match="mine is a symbolic link") as caught:
        _guards(_mount(project))
    assert 'unprotected = [".git/hooks"]' in caught.value.remedy


def test_what_is_there_and_what_is_not(tmp_path: Path) -> None:
    _repository(tmp_path / "p")
    (tmp_path / "p/.github/actions").mkdir(parents=True)
    (tmp_path / "p/.vscode").mkdir()
    (tmp_path / "p/.gitlab-ci.yml").touch()
    filled: list[str] = []
    guards = _guards(_mount(tmp_path / "p"), filled)
    assert filled == [
        *(".envrc", ".idea", ".mcp.json", ".smcp.toml", ".claude", ".cursor"),
        *(".git/config.worktree", ".git/commondir", ".github/workflows"),
    ]
    assert {name for name, access in guards.items() if access == "rw"} == {".git", ".github"}
    assert {name for name, access in guards.items() if access == "ro"} == {
        *filled,
        *(".git/hooks", ".git/config", ".vscode", ".github/actions", ".gitlab-ci.yml"),
    }


def test_without_a_repository_none_can_be_made(tmp_path: Path) -> None:
    filled: list[str] = []
    guards = _guards(_mount(tmp_path), filled)
    assert guards[".git"] == "ro"
    assert ".github" in filled
    assert not [name for name in guards if name.startswith((".git/", ".github/"))]


def test_what_is_taken_back(tmp_path: Path) -> None:
    _repository(tmp_path / "p")
    guards = _guards(_mount(tmp_path / "p", ".git", ".vscode"))
    assert not [name for name in guards if name.startswith((".git/", ".vscode")) or name == ".git"]
    assert guards[".idea"] == "ro"
    assert ".git/config" not in _guards(_mount(tmp_path / "p", ".git/config"))


def test_only_directories_that_may_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert _guards(_mount(tmp_path / "file")) == {}
    assert _guards(_mount(tmp_path, access="ro")) == {}
    assert _guards(Mount(str(tmp_path), "rw")) == {}


def test_worktrees_submodules_and_bare_repositories(tmp_path: Path) -> None:
    main, other = _repository(tmp_path / "main"), _repository(tmp_path / "other")
    _git(main, "worktree", "add", "-q", str(tmp_path / "tree"))
    _git(main, "submodule", "add", "-q", str(other), "deep/sub")
    tree = _guards(_mount(tmp_path / "tree"))
    assert tree[".git"] == "ro", "the file says where the repository is"
    assert _guards(_mount(main / "deep/sub"))[".git"] == "ro"
    guards = _guards(_mount(main))
    for name in ("hooks", "config", "commondir", "config.worktree"):
        assert guards[f".git/modules/deep/sub/{name}"] == "ro"
    assert guards[".git/modules/deep/sub"] == guards[".git/modules/deep"] == guards[".git/modules"] == "rw"
    assert guards[".git/worktrees/tree/commondir"] == "ro"
    assert ".git/worktrees/tree/hooks" not in guards
    _git(tmp_path, "clone", "-q", "--bare", str(other), "bare")
    bare = _guards(_mount(tmp_path / "bare"))
    assert {bare[name] for name in ("hooks", "config", "commondir")} == {"ro"}


PARTS = st.sampled_from([*ALWAYS, *IF_THERE, ".git", ".github", "src/.git/config", ".git/modules/a/HEAD"])


@given(st.lists(st.tuples(PARTS, st.booleans()), max_size=8), st.lists(st.sampled_from(ALWAYS), max_size=2))
def test_whatever_there_is_nothing_protected_is_left_open(made: list[tuple[str, bool]], unprotected: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, directory in made:
            with contextlib.suppress(OSError):
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir() if directory else path.touch(exist_ok=False)
        guards = _guards(_mount(Path(folder), *unprotected))
        closed = {name for name, access in guards.items() if access == "ro"}
        for name in remaining(ALWAYS, unprotected):
            (guard,) = [path for path in closed if name == path or name.startswith(f"{path}/")]
            # All that is on the way to it is held in its place.
            above = [str(parent) for parent in Path(guard).parents if str(parent) != "."]
            assert all(guards[parent] == "rw" for parent in above)


@pytest.mark.parametrize("name", [".vscode", ".github", ".git/hooks"])
def test_a_link_cannot_be_protected(tmp_path: Path, name: str) -> None:
    project = _repository(tmp_path / "p")
    if name == ".git/hooks":
        subprocess.run(["rm", "-r", project / name], check=True)
    (project / name).symlink_to("/tmp")
    with pytest.raises(LaunchError, match="is a symbolic link") as caught:
        _guards(_mount(project))
    assert "unprotected" in caught.value.remedy
    assert not caught.value.retryable
    whole = ".github" if name == ".github" else name
    assert whole not in _guards(_mount(project, whole))


def _spec(script: str, *mounts: Mount) -> LaunchSpec:
    spec = shell(script)
    return LaunchSpec(spec.name, spec.argv, env=spec.env, marker=spec.marker, mounts=mounts, cwd=mounts[0].path)


#: Every line that is printed is a way to leave something behind.
EVIL = """
try() { name=$1; shift; if "$@" >/dev/null 2>&1; then echo "$name"; fi; }
for path in .envrc .mcp.json .smcp.toml .git/config.worktree .git/commondir; do
  try "write $path" sh -c "echo evil > $path"
  try "remove $path" sh -c "rmdir $path || rm $path"
  try "replace $path" sh -c "echo evil > new-file; mv -T new-file $path"
  rm -f new-file
done
for path in .vscode .idea .claude .cursor .github/workflows .git/hooks; do
  try "write in $path" sh -c "echo evil > $path/evil"
  try "make $path" sh -c "mkdir -p $path/evil"
  try "move $path" mv $path moved
done
for path in .git .github; do
  try "move $path" mv $path moved
  try "exchange $path" sh -c "mkdir x; mv -T x $path"
  rmdir x 2>/dev/null
done
try "change settings" git config core.fsmonitor evil
try "commit hook" sh -c 'echo evil > .git/hooks/pre-commit'
rm -rf moved
try "mount over" mount -t tmpfs none .vscode
echo changed > file
git -c user.name=t -c user.email=t@example.org commit -qam second || echo "git does not work"
echo done
"""


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("repository", [True, False], ids=["repository", "none"])
@bounded(60)
async def test_a_server_leaves_nothing_behind(tmp_path: Path, repository: bool) -> None:
    project = _repository(tmp_path / "p") if repository else tmp_path
    before = _listing(project)
    script = EVIL if repository else EVIL.replace("git -c", "true -c").replace(".git/", ".git/x")
    async with running(BwrapRuntime(), _spec(script, _mount(project))) as child:
        said = (await read(child.stdout, b"done\n")).decode()
        await ended(child)
    assert said == "done\n"
    # Nothing of what stood for missing paths is left.
    assert _listing(project) == sorted({*before, "file"})
    if repository:
        assert "second" in _git(project, "log", "--oneline")


def _listing(project: Path) -> list[str]:
    found = {str(path.relative_to(project)) for path in project.rglob("*")}
    return sorted(name for name in found if not name.startswith((".git/objects", ".git/logs", ".git/COMMIT_EDITMSG")))


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_what_a_person_sees_meanwhile(tmp_path: Path) -> None:
    project = _repository(tmp_path / "p")
    inside = project / "inside"
    inside.mkdir()
    runtime = BwrapRuntime()
    async with running(runtime, _spec("echo on; read x", _mount(project), _mount(inside))) as child:
        assert await read(child.stdout, b"\n") == b"on\n"
        assert _git(project, "status", "--short") == "", "git sees nothing of it"
        assert "main" in _git(inside, "status", "--branch"), "an empty .git is no repository"
        _git(project, "worktree", "add", "-q", str(tmp_path / "tree"))
        _git(project, "commit", "-q", "--allow-empty", "-m", "meanwhile")
        assert _git(project, "fsck") == ""
        async with running(
            runtime,
            _spec("echo on; read x; echo evil > .envrc || mkdir -p .github/workflows/x || echo no", _mount(project)),
        ) as second:
            assert await read(second.stdout, b"\n") == b"on\n"
            child.close_stdin()
            await ended(child)
            # The first one has gone, what it stood on must not.
            os.write(second.stdin, b"x\n")
            assert await read(second.stdout, b"\n") == b"no\n"
            await ended(second)
    assert sorted(os.listdir(project)) == [".git", "file", "inside"]
    assert os.listdir(inside) == []


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_what_is_granted_by_name_can_be_written(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    mounts = (_mount(tmp_path), Mount(str(tmp_path / ".vscode"), "rw"))
    async with running(BwrapRuntime(), _spec("echo x > .vscode/x && echo x > .idea/x || echo no", *mounts)) as child:
        assert await read(child.stdout, b"\n") == b"no\n"
        await ended(child)
    assert sorted(os.listdir(tmp_path / ".vscode")) == ["x"]


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@bounded(60)
async def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    spec = LaunchSpec("x", ("/no/such/program",), mounts=(_mount(tmp_path),))
    with pytest.raises(LaunchError):
        await BwrapRuntime().launch(spec)
    (tmp_path / ".vscode").symlink_to("/tmp")
    with pytest.raises(LaunchError, match="symbolic link"):
        await BwrapRuntime().launch(_spec(":", _mount(tmp_path)))
    assert os.listdir(tmp_path) == [".vscode"]
