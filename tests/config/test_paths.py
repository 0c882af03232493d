"""Where files are, and that a directory somebody else could use is refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.config.paths import Paths, create_directories, data_directory, find_paths
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.shim import runtime_directory
from tests.config.places import paths_in

UID = os.geteuid()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_one_variable_moves_everything() -> None:
    paths = find_paths({"SMCP_HOME": "/x", "XDG_CONFIG_HOME": "/y", "HOME": "/h"}, UID)
    assert paths == Paths(Path("/x/config"), Path("/x/state"), Path("/x/run"), Path("/x/cache"))
    assert paths.config_file == Path("/x/config/config.toml")
    assert paths.wrapped_file == Path("/x/config/conf.d/wrapped.toml")
    assert paths.profiles_dir == Path("/x/config/profiles")
    assert (paths.socket, paths.lock) == (Path("/x/run/daemon.sock"), Path("/x/run/daemon.lock"))
    assert paths.sessions_dir == Path("/x/run/sessions")
    assert (paths.log_dir, paths.catalogue_dir) == (Path("/x/state/logs"), Path("/x/state/catalogue"))


def test_a_relative_home_is_the_one_that_the_shim_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    paths = find_paths({"SMCP_HOME": "here"}, UID)
    assert paths.config_dir == tmp_path / "here" / "config"
    assert paths.runtime_dir == tmp_path / "here" / "run"


def test_directories_of_xdg() -> None:
    variables = {"XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "/k", "HOME": "/h", "SMCP_HOME": ""}
    paths = find_paths(variables, UID)
    assert (paths.config_dir, paths.state_dir, paths.cache_dir) == (Path("/c/smcp"), Path("/s/smcp"), Path("/k/smcp"))
    assert paths.runtime_dir == Path(runtime_directory(variables, UID))


def test_directories_below_home() -> None:
    paths = find_paths({"HOME": "/h", "XDG_CONFIG_HOME": "relative", "XDG_CACHE_HOME": ""}, UID)
    assert paths.config_dir == Path("/h/.config/smcp")
    assert paths.state_dir == Path("/h/.local/state/smcp")
    assert paths.cache_dir == Path("/h/.cache/smcp")


def test_everything_is_created_private(tmp_path: Path, open_umask: None) -> None:
    paths = paths_in(tmp_path / "deep" / "home")
    create_directories(paths, UID)
    create_directories(paths, UID)
    made = (paths.runtime_dir, paths.sessions_dir, paths.state_dir, paths.log_dir, paths.catalogue_dir, paths.cache_dir)
    for directory in (*made, tmp_path / "deep"):
        assert mode(directory) == 0o700
    assert not paths.config_dir.exists()


def test_a_runtime_directory_that_others_can_read_becomes_private(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.runtime_dir.mkdir(mode=0o755)
    create_directories(paths, UID)
    assert mode(paths.runtime_dir) == 0o700


@pytest.mark.parametrize("bits", [0o770, 0o702, 0o777])
def test_a_runtime_directory_that_others_can_write_is_refused(tmp_path: Path, bits: int) -> None:
    paths = paths_in(tmp_path)
    paths.runtime_dir.mkdir()
    paths.runtime_dir.chmod(bits)
    with pytest.raises(SmcpError, match=f"can be written by others .mode {bits:04o}"):
        create_directories(paths, UID)


def test_a_linked_runtime_directory_is_refused(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    paths.runtime_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SmcpError, match="is a symbolic link"):
        create_directories(paths, UID)


def test_a_runtime_directory_that_cannot_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(SmcpError, match=r"cannot be opened: Permission denied"):
        create_directories(paths_in(tmp_path), UID)


@pytest.mark.parametrize("place", ["runtime_dir", "state_dir", "cache_dir"])
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path, place: str) -> None:
    paths = paths_in(tmp_path)
    create_directories(paths, UID)
    if UID == 0:
        os.chown(getattr(paths, place), 12345, -1)
        user, owner = 0, 12345
    else:
        user, owner = UID + 1, UID
    with pytest.raises(SmcpError, match=f"belongs to user {owner}, not to {user}"):
        create_directories(paths, user)


def test_a_parent_that_all_may_change_is_refused(tmp_path: Path) -> None:
    paths = paths_in(tmp_path / "open")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(SmcpError, match="anybody can replace"):
        create_directories(paths, UID)
    (tmp_path / "open").chmod(0o1777)
    create_directories(paths, UID)


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(SmcpError, match=r"cannot create the directory .*run: Not a directory"):
        create_directories(paths_in(tmp_path / "home"), UID)


def test_a_dead_link_in_the_way_is_named(tmp_path: Path) -> None:
    paths = paths_in(tmp_path)
    paths.state_dir.symlink_to("nowhere")
    with pytest.raises(SmcpError, match=r"cannot create the directory .*state: not a directory"):
        create_directories(paths, UID)


def test_what_servers_keep_is_among_the_data_of_the_person() -> None:
    assert data_directory({"HOME": "/h"}, UID) == Path("/h/.local/share/smcp")
    assert data_directory({"HOME": "/h", "XDG_DATA_HOME": "/d"}, UID) == Path("/d/smcp")
    assert data_directory({"HOME": "/h", "SMCP_HOME": "/x"}, UID) == Path("/x/data")
