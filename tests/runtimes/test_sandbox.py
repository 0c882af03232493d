"""The steps that build a sandbox."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from supervisord_mcp.runtimes.sandbox import HOME, Bound, Data, Features, Step, steps
from supervisord_mcp.runtimes.seccomp import Policy

ALL = Features(disable_userns=True, size=True)


def _steps(*mounts: Mount, read_only: tuple[str, ...] = (), cwd: str | None = None) -> list[Step]:
    return steps(LaunchSpec("x", ("/bin/true",), cwd=cwd, mounts=mounts, read_only=read_only), ALL, as_root=False)


def _binds(built: list[Step], below: str) -> list[tuple[str, str, str]]:
    words = [step.words if isinstance(step, Bound) else step for step in built if not isinstance(step, Data)]
    binds = [step for step in words if step[0] in ("--bind", "--ro-bind", "--symlink")]
    return [(kind, source, target) for kind, source, target in binds if target.startswith(below)]


def test_parents_come_before_children_and_the_root_is_closed_last(tmp_path: Path) -> None:
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a-z").mkdir()
    top = str(tmp_path)
    built = _steps(Mount(f"{top}/a/b/c", "rw"), Mount(f"{top}/a-z"), Mount(f"{top}/a/b"), Mount(f"{top}/a", "rw"))
    assert _binds(built, top) == [
        ("--bind", f"{top}/a", f"{top}/a"),
        ("--ro-bind", f"{top}/a/b", f"{top}/a/b"),
        ("--bind", f"{top}/a/b/c", f"{top}/a/b/c"),
        ("--ro-bind", f"{top}/a-z", f"{top}/a-z"),
    ]
    assert built[-2:] == [("--remount-ro", "/"), ("--chdir", HOME)]
    home = next(n for n, step in enumerate(built) if isinstance(step, tuple) and step[-2:] == ("--tmpfs", HOME))
    assert home < built.index(Bound(f"{top}/a", f"{top}/a", "rw", granted=True))


def test_what_is_visible_already_is_not_bound_again(tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    top = str(tmp_path)
    built = _steps(
        Mount(top, "rw"), Mount(f"{top}/venv", "rw"), Mount("/usr/lib"), read_only=(f"{top}/venv/bin", "/usr/bin")
    )
    assert _binds(built, top) == [("--bind", top, top)]
    assert [bind for bind in _binds(built, "/usr") if bind[0] != "--symlink"] == [("--ro-bind", "/usr", "/usr")]


def test_a_grant_wins_over_what_the_command_needs(tmp_path: Path) -> None:
    assert _binds(_steps(Mount(str(tmp_path), "rw"), read_only=(str(tmp_path),)), str(tmp_path)) == [
        ("--bind", str(tmp_path), str(tmp_path))
    ]


def test_a_network_with_rules_has_names_and_no_way_out() -> None:
    network = Egress(parse_rules(["a.test:443"]))
    built = steps(LaunchSpec("x", ("/bin/true",), network=network), ALL, as_root=False)
    files = {step.path: step.text for step in built if isinstance(step, Data)}
    assert ("--unshare-net",) in built
    assert files["/etc/hosts"].endswith("198.18.0.2 a.test\n")
    assert "nameserver 127.0.0.1" in files["/etc/resolv.conf"]
    alone = LaunchSpec("x", ("/bin/true",), network="loopback")
    assert ("--unshare-net",) in steps(alone, ALL, as_root=False)


def test_links_are_made_again(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    link, real = str(tmp_path / "link"), str(tmp_path / "real")
    assert _binds(_steps(read_only=(link, real)), str(tmp_path)) == [
        ("--symlink", "real", link),
        ("--ro-bind", real, real),
    ]


def test_a_mount_may_have_another_place(tmp_path: Path) -> None:
    built = _steps(Mount(str(tmp_path), "ro", "/data/here"), cwd="/data/here")
    assert Bound(str(tmp_path), "/data/here", "ro", granted=True) in built
    assert built[-1] == ("--chdir", "/data/here")
    assert _steps(Mount(str(tmp_path), "ro", "/data/here"), cwd="/data")[-1] == ("--chdir", "/data")


@pytest.mark.parametrize("place", ["evil/x", "evil", "dir/evil"])
def test_no_mount_point_is_reached_through_a_link_in_a_mount(tmp_path: Path, place: str) -> None:
    (tmp_path / "dir").mkdir()
    for link in ("evil", "dir/evil"):
        (tmp_path / link).symlink_to("/etc")
    for access in ("rw", "ro"):
        top = Mount(str(tmp_path), "rw" if access == "rw" else "ro")
        with pytest.raises(LaunchError, match="symbolic link") as caught:
            _steps(top, Mount("/usr/share", "ro", str(tmp_path / place)))
        assert not caught.value.retryable


def test_no_mount_point_is_made_in_a_mount(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match="nothing is created inside a mount"):
        _steps(Mount(str(tmp_path), "rw"), Mount("/usr/share", "ro", str(tmp_path / "new")))


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        (Mount("/"), "open the sandbox"),
        (Mount("//"), "open the sandbox"),
        (Mount("/usr", "ro", "/"), "open the sandbox"),
        (Mount("/usr", "ro", "/proc/1"), "open the sandbox"),
        (Mount("/dev"), "open the sandbox"),
        (Mount("/sys"), "open the sandbox"),
        (Mount("/home"), "private home"),
        (Mount("/nowhere/at/all"), "no such file"),
        (Mount("relative"), "absolute"),
    ],
)
def test_mounts_that_cannot_be_had(mount: Mount, why: str) -> None:
    with pytest.raises(LaunchError, match=why) as caught:
        _steps(mount)
    assert not caught.value.retryable


@pytest.mark.parametrize("cwd", ["/nowhere", "/root/x", "/usr/nowhere", "/usr/bin/env"])
def test_the_working_directory_must_be_visible(cwd: str) -> None:
    with pytest.raises(LaunchError, match=f"working directory {cwd}"):
        _steps(cwd=cwd)


def test_network_namespace_and_files_go_together() -> None:
    files = {step.path: step.text for step in _steps() if isinstance(step, Data)}
    assert set(files) == {"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"}
    assert ("--unshare-net",) in _steps()
    spec = LaunchSpec("x", ("/bin/true",), network="host")
    granted = steps(spec, ALL, as_root=False)
    assert ("--unshare-net",) not in granted
    assert ("--ro-bind", "/etc/hosts", "/etc/hosts") in granted


def test_root_gets_no_writable_kernel_settings() -> None:
    spec = LaunchSpec("x", ("/bin/true",))
    assert ("--ro-bind", "/proc/sys", "/proc/sys") in steps(spec, ALL, as_root=True)
    assert ("--ro-bind", "/proc/sys", "/proc/sys") not in steps(spec, ALL, as_root=False)


def test_an_older_bubblewrap_gets_only_what_it_knows() -> None:
    built = steps(LaunchSpec("x", ("/bin/true",)), Features(disable_userns=False, size=False), as_root=False)
    words = {word for step in built if isinstance(step, tuple) for word in step}
    assert not words & {"--size", "--disable-userns"}


def test_nothing_of_the_persons_is_visible_by_itself() -> None:
    sources = [step[1] for step in _steps() if isinstance(step, tuple) and step[0] in ("--bind", "--ro-bind")]
    assert all(source.startswith(("/usr", "/etc/", "/nix/", "/gnu/", "/lib", "/bin", "/sbin")) for source in sources)
    assert not [source for source in sources if stat.S_ISSOCK(os.stat(source).st_mode)]


def test_a_server_that_makes_sandboxes_may_have_namespaces() -> None:
    assert ("--disable-userns",) in _steps()
    spec = LaunchSpec("x", ("/bin/true",), seccomp=Policy(userns=True))
    assert ("--disable-userns",) not in steps(spec, ALL, as_root=False)
