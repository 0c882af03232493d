"""Packages of Debian as the files that they consist of: those of this machine where installed, else fetched by apt."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

#: Needed to set packages up or to build from source, not to run what is in them.
SETTING_UP = frozenset(
    {
        *(
            "awk",
            "cdebconf",
            "debconf",
            "debconf-2.0",
            "debianutils",
            "dpkg",
            "gpgv",
            "install-info",
            "mailcap",
            "media-types",
        ),
        *("mime-support", "node-gyp", "openssl", "perl", "perl-base", "python3", "readline-common", "tar"),
    }
)
#: What nobody reads in a container.
_LEFT_OUT = re.compile(r"/usr/(?:share/(?:doc|info|lintian|locale|man)|include)(?:/|$)")
#: Directories that are links into /usr since Debian 12; packages still name files in them.
_MERGED = re.compile(r"^/(bin|sbin|lib|lib32|lib64|libx32)(?=/|$)")
_FORMAT = "${db:Status-Abbrev}\t${Package}\t${Version}\t${Pre-Depends}, ${Depends}\t${Provides}\n"


#: A file as an archive has it, and its content where it has any.
Member = tuple[tarfile.TarInfo, IO[bytes] | None]


class PackageError(Exception):
    """A package is nowhere to be had."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package with what it needs (alternatives in each) and what else it stands for."""

    name: str
    version: str
    installed: bool
    needs: tuple[tuple[str, ...], ...] = field(repr=False)
    provides: frozenset[str] = field(repr=False)


class Packages:
    """The packages that this machine has or can fetch into a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = {package.name: package for package in _installed()}

    def closure(self, names: Iterable[str]) -> tuple[Package, ...]:
        """Return packages with all that they need. Raise `PackageError` where one is not to be had."""
        wanted: list[tuple[str, ...]] = [(name,) for name in names]
        found: dict[str, Package] = {}
        while wanted:
            self._look_up({name for alternatives in wanted for name in alternatives})
            further: list[tuple[str, ...]] = []
            for alternatives in wanted:
                met = {*found, *(name for package in found.values() for name in package.provides)}
                if met & set(alternatives):
                    continue
                package = next(filter(None, map(self._choose, alternatives)), None)
                if package is None:
                    raise PackageError(f"no package {' or '.join(alternatives)}; run apt-get update")
                found[package.name] = package
                further += [need for need in package.needs if not SETTING_UP & set(need)]
            wanted = further
        return tuple(found.values())

    def copy(self, package: Package, into: tarfile.TarFile, seen: set[str]) -> None:
        """Add the files of a package to an archive, all of them root's; ``seen`` are the names that it has."""
        for info, content in _of_machine(package, into) if package.installed else _of_archive(self._fetched(package)):
            name = _MERGED.sub(r"/usr/\1", info.name)
            if name in seen or _LEFT_OUT.match(name) or name in ("/", "/."):
                continue
            seen.add(name)
            info.name = name.lstrip("/")
            info.uid = info.gid = 0
            info.uname = info.gname = "root"
            info.pax_headers = {}
            into.addfile(info, content)

    def _choose(self, name: str) -> Package | None:
        """Return the package of a name, or one that stands for it: an installed one first."""
        if (package := self._known.get(name)) is not None:
            return package
        standing = [package for package in self._known.values() if name in package.provides]
        if not standing:
            words = ["apt-cache", "showpkg", name]
            shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
            names = {line.split()[0] for line in shown.partition("Reverse Provides:")[2].splitlines() if line.strip()}
            self._look_up(names)
            standing = [self._known[name] for name in sorted(names) if name in self._known]
        return next((package for package in standing if package.installed), standing[0] if standing else None)

    def _look_up(self, names: set[str]) -> None:
        if not (missing := sorted(names - self._known.keys())):
            return
        words = ["apt-cache", "show", "--no-all-versions", *missing]
        # It fails where one of them is virtual, and tells of all others.
        shown = subprocess.run(words, capture_output=True, text=True, check=False).stdout
        for entry in shown.split("\n\n"):
            fields = dict(re.findall(r"^([\w-]+): (.*)$", entry, re.MULTILINE))
            if name := fields.get("Package"):
                needs = _needs(f"{fields.get('Pre-Depends', '')}, {fields.get('Depends', '')}")
                provides = frozenset(_name(one) for one in fields.get("Provides", "").split(",") if one.strip())
                self._known.setdefault(name, Package(name, fields["Version"], False, needs, provides))

    def _fetched(self, package: Package) -> Path:
        """Return the file of a package, fetched now if need be. Raise `PackageError` where it cannot be."""
        pattern = f"{package.name}_{package.version.replace(':', '%3a')}_*.deb"
        self._folder.mkdir(parents=True, exist_ok=True)
        if (there := next(self._folder.glob(pattern), None)) is not None:
            return there
        words = ["apt-get", "download", "-o", "APT::Sandbox::User=root", f"{package.name}={package.version}"]
        done = subprocess.run(words, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 or (there := next(self._folder.glob(pattern), None)) is None:
            raise PackageError(f"cannot fetch {package.name}: {done.stderr.strip() or 'no such file came'}")
        return there


def _of_machine(package: Package, into: tarfile.TarFile) -> Iterator[Member]:
    words = ["dpkg-query", "--listfiles", package.name]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    if _is_changed(package.name):
        listed = list(dict.fromkeys((*listed, *_beside(package.name, listed))))
    for path in listed:
        for found in (path, *_compiled(path)):
            try:
                info = into.gettarinfo(found)
            except OSError:  # a person removed it, or it is a line about a diversion
                continue
            info.name = found
            if info.islnk():
                # The other name of the same file may be in another package, or left out.
                info.type, info.linkname, info.size = tarfile.REGTYPE, "", os.stat(found).st_size
            if not info.isreg():
                yield info, None
                continue
            with open(found, "rb") as content:
                yield info, content


def _is_changed(name: str) -> bool:
    """Return whether files of a package are not what it brought; settings may always be."""
    words = ["dpkg", "--verify", name]
    lines = subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines()
    return any(line[12:13] != "c" and not _LEFT_OUT.match(line[13:].strip()) for line in lines)


def _beside(name: str, listed: Iterable[str]) -> Iterator[str]:
    """Yield what else there is in the directories that only a package has files in: npm renews itself like this."""
    folders = {os.path.dirname(path) for path in listed if os.path.isfile(path) and not _LEFT_OUT.match(path)}
    words = ["dpkg-query", "--search", *sorted(folders)]
    owners: dict[str, str] = {}
    for line in subprocess.run(words, capture_output=True, text=True, check=False).stdout.splitlines():
        owner, _, folder = line.partition(": ")
        owners[folder] = owner
    for folder in sorted(folder for folder in folders if owners.get(folder, "").partition(":")[0] == name):
        for place, directories, files in os.walk(folder):
            yield from (os.path.join(place, one) for one in (*directories, *files))


def _of_archive(file: Path) -> Iterator[Member]:
    words = ["dpkg-deb", "--fsys-tarfile", str(file)]
    with (
        subprocess.Popen(words, stdout=subprocess.PIPE) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as files,
    ):
        for info in files:
            info.name = f"/{info.name.removeprefix('.').lstrip('/')}"
            if info.islnk():
                # A hard link is as good as a copy, but only a symbolic one needs nothing of the other's content.
                info.type, info.linkname = tarfile.SYMTYPE, f"/{info.linkname.removeprefix('./')}"
            yield info, files.extractfile(info) if info.isreg() else None
    if unpacking.returncode != 0:
        raise PackageError(f"{file} cannot be unpacked")


def _compiled(path: str) -> Iterator[str]:
    """Return what Python made of a module when its package was set up; a read-only image cannot make it later."""
    folder, name = os.path.split(path)
    if name.endswith(".py"):
        yield from glob.glob(f"{glob.escape(folder)}/__pycache__/{glob.escape(name[:-3])}.cpython-*.pyc")


def _installed() -> Iterator[Package]:
    words = ["dpkg-query", "--show", f"--showformat={_FORMAT}"]
    for line in subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines():
        status, name, version, needs, provides = line.split("\t")
        if status.strip() == "ii":
            stands_for = frozenset(_name(one) for one in provides.split(",") if one.strip())
            yield Package(name, version, True, _needs(needs), stands_for)


def _needs(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(map(_name, need.split("|"))) for need in text.split(",") if need.strip())


def _name(text: str) -> str:
    """Return the name in "name:any (>= version)"."""
    return re.split(r"[\s:(]", text.strip(), maxsplit=1)[0]
