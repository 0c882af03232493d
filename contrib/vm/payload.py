"""The second disk of the machine: this checkout with the libraries it needs, as an archive that the guest unpacks."""

from __future__ import annotations

import hashlib
import io
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

from contrib.vm.image import RELEASES, ImageError, Processor

ROOT = Path(__file__).parents[2]
#: What the tests in the guest import beside the program's own libraries.
_TESTING = ("hypothesis", "jsonschema", "psutil", "pytest")
_NAME = re.compile(r"[\w-]+")


def payload(processor: Processor, release: str, place: Path, phases: Sequence[str], file: Path) -> None:
    """Write the archive. Raise `ImageError` where the libraries cannot be had for that processor."""
    libraries = _libraries(processor, release, place)
    with tarfile.open(file, "w", format=tarfile.GNU_FORMAT) as archive:
        for name in _checkout():
            archive.add(ROOT / name, f"repo/{name}", recursive=False, filter=_of_root)
        archive.add(libraries, "site", filter=_of_root)
        _add(archive, "guest.sh", (Path(__file__).parent / "guest.sh").read_bytes())
        _add(archive, "phases", "".join(f"{phase}\n" for phase in phases).encode())


def _checkout() -> list[str]:
    """Return the files of the checkout, those that are not committed too."""
    done = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ImageError(f"git does not list this checkout: {done.stderr}")
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).exists()]


def _libraries(processor: Processor, release: str, place: Path) -> Path:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    known = [word for group in ("demo", "test") for word in groups[group] if isinstance(word, str)]
    wanted = [*project["project"]["dependencies"], *(word for word in known if _name(word) in _TESTING)]
    version = RELEASES[release]
    recipe = hashlib.sha256("\0".join(wanted).encode()).hexdigest()[:12]
    folder = place / f"libraries-{processor.wheels}-{version}-{recipe}"
    if not folder.is_dir():
        new = folder.with_suffix(".new")
        platforms = [f"--platform={platform}" for platform in processor.platforms]
        options = ["--quiet", "--only-binary=:all:", "--upgrade", f"--python-version={version}", *platforms]
        command = [sys.executable, "-m", "pip", "install", *options, f"--target={new}", *wanted]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ImageError(f"pip failed with status {done.returncode}:\n{done.stderr}")
        new.rename(folder)
    return folder


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    return found[0] if found else ""


def _of_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    # Anybody in the guest may read it, however private this checkout is.
    member.mode |= 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return None if member.name.endswith(".pyc") else member


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o755
    archive.addfile(member, io.BytesIO(content))
