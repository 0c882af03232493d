"""What the program `gate` needs of this machine to run in any container: one small directory, shown read-only.

An image may have no Python, no shell and another C library. So the Python that the daemon runs on is copied with its
loader, its libraries and the few modules that the program imports, which it names itself; the loader is started by
name, so nothing of the image takes part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.container import gate

#: Where the directory is in a container.
PLACE = "/.smcp/tools"
_PROGRAM = Path(gate.__file__)
_SECONDS = 20
_LIBRARY = sysconfig.get_path("stdlib")
_NAME = f"python{sys.version_info.major}.{sys.version_info.minor}"


@dataclass(frozen=True, slots=True)
class Tools:
    """A directory of this machine, and the command that it makes in a container that shows it at `PLACE`."""

    directory: str
    command: tuple[str, ...]


def make_tools(within: Path) -> Tools:
    """Make the directory in another one, unless it is there already. Blocks. Raise `IsolationError` where it cannot.

    It is named after what it is made of, so one of another version of Python is never taken for it.
    """
    try:
        needed = tuple(_needed())
        target = within / _digest(needed)
        if not target.is_dir():
            _fill(target, needed)
            _clear(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise IsolationError(
            f"what a container needs to talk to the daemon cannot be made in {within}: {error}",
            remedy="Make room there, or see who may write there.",
        ) from error
    loader = next((copy.target for copy in needed if _is_loader(copy.target)), None)
    python = f"{PLACE}/bin/{_NAME}"
    start = () if loader is None else (f"{PLACE}/{loader}", "--library-path", f"{PLACE}/lib")
    return Tools(str(target), (*start, python, "-I", "-S", f"{PLACE}/gate.py"))


@dataclass(frozen=True, slots=True, order=True)
class _Copy:
    """A file of the machine, and its place in the directory."""

    source: str
    target: str


def _needed() -> Iterator[_Copy]:
    """Yield what the program needs, as it finds it itself when it is run here."""
    command = (os.path.realpath(sys.executable), "-I", "-S", str(_PROGRAM), "list")
    done = subprocess.run(command, env={}, capture_output=True, timeout=_SECONDS, check=True, stdin=subprocess.DEVNULL)
    yield _Copy(str(_PROGRAM), "gate.py")
    yield _Copy(os.path.realpath(sys.executable), f"bin/{_NAME}")
    for path in sorted(set(os.fsdecode(done.stdout).split("\0"))):
        if path.startswith(f"{_LIBRARY}/"):
            yield _Copy(path, f"lib/{_NAME}/{path.removeprefix(_LIBRARY).lstrip('/')}")
        elif ".so" in os.path.basename(path) and os.path.isfile(path):
            for name in _names(path):
                yield _Copy(path, f"lib/{name}")
    # By these two Python recognises its library.
    yield _Copy(os.path.join(_LIBRARY, "os.py"), f"lib/{_NAME}/os.py")


def _names(path: str) -> list[str]:
    """Return the names that a library has beside its own: programs ask for it by one of those."""
    directory = os.path.dirname(path)
    with os.scandir(directory) as entries:
        links = [entry.path for entry in entries if entry.is_symlink() and ".so" in entry.name]
    return [os.path.basename(path), *(os.path.basename(link) for link in links if os.path.realpath(link) == path)]


def _is_loader(target: str) -> bool:
    return os.path.basename(target).startswith(("ld-linux", "ld-musl", "ld64.so", "ld.so"))


def _digest(needed: tuple[_Copy, ...]) -> str:
    facts = []
    for copy in needed:
        status = os.stat(copy.source)
        facts.append((copy.source, copy.target, status.st_size, status.st_mtime_ns))
    return hashlib.sha256(repr(sorted(facts)).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _fill(target: Path, needed: tuple[_Copy, ...]) -> None:
    """Make the directory beside its place first: what is there by its name is complete."""
    begun = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    for copy in needed:
        place = begun / copy.target
        place.parent.mkdir(parents=True, exist_ok=True)
        # With its times: compiled modules say by them what they were made of.
        shutil.copy2(os.path.realpath(copy.source), place)
        if copy.source.endswith(".py") and copy.target != "gate.py":
            _copy_compiled(copy.source, place)
    (begun / "lib" / _NAME / "lib-dynload").mkdir(exist_ok=True)
    for directory, _, files in os.walk(begun):
        os.chmod(directory, 0o755)
        for name in files:
            path = os.path.join(directory, name)
            os.chmod(path, 0o555 if os.access(path, os.X_OK) else 0o444)
    try:
        os.rename(begun, target)
    except OSError:
        shutil.rmtree(begun, ignore_errors=True)
        if not target.is_dir():
            raise


def _clear(target: Path) -> None:
    """Remove what was made of other versions; a server that began with one of them needs it no more."""
    for other in target.parent.iterdir():
        if other != target:
            shutil.rmtree(other, ignore_errors=True)


def _copy_compiled(source: str, place: Path) -> None:
    cached = Path(source).parent / "__pycache__" / f"{Path(source).stem}.{sys.implementation.cache_tag}.pyc"
    with contextlib.suppress(FileNotFoundError):
        (place.parent / "__pycache__").mkdir(exist_ok=True)
        shutil.copy2(cached, place.parent / "__pycache__" / cached.name)
