"""The files of an image in one archive, as engines import it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from contrib.images.debian import Package, Packages
from contrib.images.recipe import Recipe, RecipeError, read_recipe

#: Where an image may begin: with nothing but packages.
_BEGINNING = "debian:bookworm-slim"
#: What packages of Debian leave to their set-up: links for the old places, users, empty directories.
_LINKS = {name: f"usr/{name}" for name in ("bin", "lib", "lib64", "sbin")}
_FOLDERS = {
    **dict.fromkeys(("usr", *_LINKS.values()), 0o755),
    **dict.fromkeys(("dev", "etc", "home", "home/mcp", "proc", "run", "srv", "sys", "var", "var/lib"), 0o755),
    **dict.fromkeys(("tmp", "var/tmp"), 0o1777),
    "root": 0o700,
}
_FILES = {
    "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/sh\n",
    "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": b"passwd: files\ngroup: files\nhosts: files dns\n",
}
#: Changes with the way in which images are put together.
_EDITION = "2"
_CERTIFICATES, _BUNDLE = "usr/share/ca-certificates/mozilla/", "etc/ssl/certs/ca-certificates.crt"
_BUNDLE_OF_OPENSSL = "usr/lib/ssl/cert.pem"


@dataclass(frozen=True, slots=True)
class Image:
    """An image on disk: the archive of its files, and the lines that an engine remembers of it."""

    archive: Path
    changes: tuple[str, ...]


class Builder:
    """Builds images from the recipes in some folders; ``folder`` keeps archives and fetched packages.

    A recipe begins with packages alone or with another recipe, named ``smcp/NAME``.
    """

    def __init__(self, folder: Path, *recipes: Path) -> None:
        self._folder = folder
        self._recipes = recipes
        self._packages = Packages(folder / "packages")

    def names(self) -> tuple[str, ...]:
        """Return the names of all recipes."""
        return tuple(sorted(file.parent.name for place in self._recipes for file in place.glob("*/Containerfile")))

    def build(self, name: str, added: Iterable[tuple[Path, str]] = ()) -> Image:
        """Return an image, built now unless nothing in it changed. Raise `RecipeError` or `PackageError`.

        ``added`` are files and directories beside those that the recipe copies, each with its path in the image.
        """
        recipes = self._chain(name)
        packages = self._packages.closure(name for recipe in recipes for name in recipe.packages)
        copies = [*(copy for recipe in recipes for copy in recipe.copies), *added]
        changes = tuple(change for recipe in recipes for change in recipe.changes)
        archive = self._folder / f"{name}-{_digest(packages, copies)}.tar"
        if not archive.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            unfinished = archive.with_suffix(f".{os.getpid()}")
            try:
                self._fill(unfinished, packages, copies)
                unfinished.replace(archive)
            finally:
                unfinished.unlink(missing_ok=True)
        return Image(archive, changes)

    def _chain(self, name: str) -> list[Recipe]:
        """Return a recipe after those that it begins with."""
        folder = next((place / name for place in self._recipes if (place / name).is_dir()), None)
        if folder is None:
            raise RecipeError(f"no recipe {name!r}; there are {', '.join(self.names())}")
        recipe = read_recipe(folder)
        if recipe.base == _BEGINNING:
            return [recipe]
        prefix, _, base = recipe.base.partition("/")
        if prefix != "smcp" or base == name:
            raise RecipeError(f"{folder}/Containerfile: FROM {recipe.base}: not made of packages, nor smcp/NAME")
        return [*self._chain(base), recipe]

    def _fill(self, archive: Path, packages: tuple[Package, ...], copies: list[tuple[Path, str]]) -> None:
        seen: set[str] = set()
        with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as into:
            for name, target in _LINKS.items():
                _add(into, seen, _entry(name, tarfile.SYMTYPE, 0o777, target))
            for name, mode in _FOLDERS.items():
                _add(into, seen, _entry(name, tarfile.DIRTYPE, mode))
            for name, content in _FILES.items():
                _add(into, seen, _entry(name, tarfile.REGTYPE, 0o644), content)
            for package in sorted(packages, key=lambda package: package.name):
                self._packages.copy(package, into, seen)
            for source, target in copies:
                into.add(source, target.lstrip("/"), filter=_owned_by_root)
        # What the set-up of ca-certificates would do.
        if bundle := _certificates(archive):
            with tarfile.open(archive, "a", format=tarfile.GNU_FORMAT) as into:
                _add(into, seen, _entry(_BUNDLE, tarfile.REGTYPE, 0o644), bundle)
                _add(into, seen, _entry(_BUNDLE_OF_OPENSSL, tarfile.SYMTYPE, 0o777, f"/{_BUNDLE}"))


def _certificates(archive: Path) -> bytes:
    with tarfile.open(archive) as written:
        parts = (written.extractfile(info) for info in written if info.name.startswith(_CERTIFICATES) and info.isreg())
        return b"".join(part.read() for part in parts if part is not None)


def _entry(name: str, kind: bytes, mode: int, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, target
    return info


def _add(into: tarfile.TarFile, seen: set[str], info: tarfile.TarInfo, content: bytes = b"") -> None:
    if f"/{info.name}" not in seen:
        seen.add(f"/{info.name}")
        info.size = len(content)
        into.addfile(info, io.BytesIO(content))


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mode |= 0o444 | (0o111 if info.isdir() else 0)
    return info


def _digest(packages: tuple[Package, ...], copies: list[tuple[Path, str]]) -> str:
    """Return the name for what is in an image: versions of packages, and the files that are copied with their dates."""
    parts = [_EDITION]
    parts += [f"{package.name}={package.version} {package.installed}" for package in packages]
    for source, target in copies:
        files = sorted(source.rglob("*")) if source.is_dir() else [source]
        parts += [f"{target} {file} {file.lstat().st_size} {file.lstat().st_mtime_ns}" for file in files]
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:12]
