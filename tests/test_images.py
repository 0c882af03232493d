"""The recipes of the base images, and the images that are built from them without a registry."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from contrib.images import __main__ as command
from contrib.images.debian import Package, PackageError, Packages
from contrib.images.layers import Builder
from contrib.images.recipe import RecipeError, read_recipe
from tests.kit.required import need

BASE = command.HERE


@pytest.fixture(autouse=True)
def _debian() -> None:
    need(shutil.which("dpkg-deb") and shutil.which("apt-cache"), "a machine with packages of Debian")


def recipe(place: Path, name: str, text: str) -> Path:
    folder = place / "recipes" / name
    folder.mkdir(parents=True)
    (folder / "Containerfile").write_text(text)
    return folder


def names(archive: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(archive) as files:
        return {info.name: info for info in files}


@pytest.mark.parametrize("name", ["minimal", "node", "python"])
def test_the_base_images_begin_with_nothing_and_run_as_nobody(name: str) -> None:
    read = read_recipe(BASE / name)
    assert read.base == "debian:bookworm-slim"
    assert "dash" in read.packages
    assert "USER 65534:65534" in read.changes


def test_what_has_to_be_run_is_refused(tmp_path: Path) -> None:
    folder = recipe(tmp_path, "odd", "FROM debian:bookworm-slim\nRUN make\n")
    with pytest.raises(RecipeError, match="'RUN make' cannot be done without running a container"):
        read_recipe(folder)


def test_an_image_has_its_packages_whatever_they_need_and_the_files_of_its_recipes(tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("own")
    recipe(tmp_path, "first", 'FROM debian:bookworm-slim\nARG PACKAGES="coreutils dash"\nUSER 7:7\n')
    recipe(tmp_path, "second", 'FROM smcp/first\nCOPY own.txt /srv/own.txt\nENTRYPOINT ["/bin/sh"]\n')
    builder = Builder(tmp_path / "cache", tmp_path / "recipes")
    image = builder.build("second")
    assert image.changes == ("USER 7:7", 'ENTRYPOINT ["/bin/sh"]')
    found = names(image.archive)
    assert found["usr/bin/sleep"].mode & 0o111
    assert found["bin"].linkname == "usr/bin"
    assert any(name.endswith("/libc.so.6") for name in found)
    assert not any(name.startswith(("usr/share/doc", "usr/share/man")) for name in found)
    assert {(info.uid, info.gid) for info in found.values()} == {(0, 0)}
    assert found["srv/own.txt"].size == 3
    # What is the same is not built again; what changed is.
    before = image.archive.stat().st_ino
    assert Builder(tmp_path / "cache", tmp_path / "recipes").build("second").archive.stat().st_ino == before
    (tmp_path / "own.txt").write_text("changed")
    assert builder.build("second").archive != image.archive
    assert builder.names() == ("first", "second")


def test_recipes_that_lead_nowhere_are_named(tmp_path: Path) -> None:
    recipe(tmp_path, "round", "FROM smcp/round\n")
    recipe(tmp_path, "foreign", "FROM example.com/other\n")
    builder = Builder(tmp_path / "cache", tmp_path / "recipes")
    for name, said in (
        ("round", "FROM smcp/round"),
        ("foreign", "FROM example.com/other"),
        ("none", "no recipe 'none'"),
    ):
        with pytest.raises(RecipeError, match=said):
            builder.build(name)


def test_a_package_that_is_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="no package no-such-package-at-all"):
        Packages(tmp_path).closure(["no-such-package-at-all"])


def test_what_is_not_installed_is_taken_from_the_archive_of_its_package(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for path, content in (("DEBIAN/control", _CONTROL), ("bin/tool", "#!/bin/sh\n"), ("usr/share/man/x", "no")):
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(content)
    (tree / "bin/other").hardlink_to(tree / "bin/tool")
    file = tmp_path / "tool_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", str(tree), str(file)], check=True, capture_output=True)
    package = Package("tool", "1.0", installed=False, needs=(), provides=frozenset())
    archive, seen = io.BytesIO(), {"/usr/bin"}
    with tarfile.open(fileobj=archive, mode="w") as into:
        Packages(tmp_path).copy(package, into, seen)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as files:
        kinds = {info.name: info.type for info in files if not info.isdir()}
    assert sorted(kinds) == ["usr/bin/other", "usr/bin/tool"]
    assert sorted(kinds.values()) == [tarfile.REGTYPE, tarfile.SYMTYPE]


_CONTROL = (
    "Package: tool\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: a tool\n"
)


def test_the_command_writes_archives_and_names_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.argv", ["images", "minimal", "--to", str(tmp_path / "out")])
    assert command.main() == 0
    assert "usr/bin/sleep" in names(Path(capsys.readouterr().out.strip()))
    monkeypatch.setattr("sys.argv", ["images", "nothing", "--to", str(tmp_path / "out")])
    assert command.main() == 1
    assert "there are minimal, node, python" in capsys.readouterr().err
