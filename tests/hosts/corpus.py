"""The fixtures: for each host directories with a home and a project, and what is expected of the files in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from supervisord_mcp.hosts.base import HostFile, Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS, find_hosts
from supervisord_mcp.hosts.edits import Replacement
from supervisord_mcp.hosts.entry import HostEntry
from supervisord_mcp.hosts.files import Reading, read

FIXTURES = Path(__file__).parent / "fixtures"
#: What an adopted entry starts.
SHIM = ("/usr/bin/python3", "-I", "-S", "/opt/smcp/shim.py", "a name")


@dataclass(frozen=True, slots=True)
class Sample:
    """One file of a host, below the directory of its case."""

    file: HostFile
    name: str

    def reading(self) -> Reading:
        """Return what the file says."""
        return _read(self.file)


@cache
def _read(file: HostFile) -> Reading:
    return read(file)


def samples() -> Iterator[Sample]:
    """Yield every file of the fixtures that a host finds."""
    for key in HOSTS:
        for case in cases(key):
            (found,) = find_hosts(surroundings_of(case), [key])
            for file in found.files:
                yield Sample(file, file.path.relative_to(FIXTURES / key).as_posix())


def cases(key: str) -> list[Path]:
    """Return the directories of a host, each with a home, a project or both."""
    return sorted(path for path in (FIXTURES / key).iterdir() if path.is_dir())


def surroundings_of(case: Path) -> Surroundings:
    """Return where files are in a case."""
    return Surroundings(case / "home", project=case / "project")


def expected(key: str) -> dict[str, Any]:
    """Return what is expected of each file of a host, as `described` describes it."""
    found: dict[str, Any] = json.loads((FIXTURES / key / "expected.json").read_text(encoding="utf-8"))
    return found


def described(reading: Reading) -> dict[str, Any]:
    """Return a reading as plain data, without what says nothing."""
    said: dict[str, Any] = {"scope": reading.file.scope.value}
    if reading.file.label:
        said["label"] = reading.file.label
    said["entries"] = [_entry(entry) for entry in reading.entries]
    if reading.problems:
        said["problems"] = [f"{problem.line}: {problem.key}: {problem.message}" for problem in reading.problems]
    return said


def _entry(entry: HostEntry) -> dict[str, Any]:
    said: dict[str, Any] = {"name": entry.name, "line": entry.line, "scope": entry.scope.value}
    said |= {"argv": list(entry.argv)} if entry.stdio else {"url": entry.url}
    for key in ("env", "cwd", "env_file", "disabled"):
        if value := getattr(entry, key):
            said[key] = value
    if entry.project is not None and entry.scope.value == "local":
        said["project"] = entry.project.as_posix()
    if entry.unresolved:
        said["unresolved"] = [
            f"{one.field}: {one.written}: {one.why}{' (secret)' if one.secret else ''}" for one in entry.unresolved
        ]
    return said


def adopted(reading: Reading) -> dict[tuple[str | int, ...], Replacement]:
    """Return replacements for all entries of a file that start a process."""
    return {entry.path: Replacement(SHIM) for entry in reading.entries if entry.stdio}


def main() -> None:
    """Write what the files say now, for a person to read before it is expected."""
    for key in HOSTS:
        found = {sample.name: described(sample.reading()) for sample in samples() if sample.file.host.key == key}
        (FIXTURES / key / "expected.json").write_text(_written(found), encoding="utf-8")


def _written(found: dict[str, Any]) -> str:
    files = []
    for name, said in found.items():
        parts = [f"  {json.dumps(key)}: {_lines(value)}" for key, value in said.items()]
        files.append(f" {json.dumps(name, ensure_ascii=False)}: {{\n" + ",\n".join(parts) + "\n }")
    return "{\n" + ",\n".join(files) + "\n}\n"


def _lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value, ensure_ascii=False)
    return "[\n" + ",\n".join(f"   {json.dumps(item, ensure_ascii=False)}" for item in value) + "\n  ]"


if __name__ == "__main__":
    main()
