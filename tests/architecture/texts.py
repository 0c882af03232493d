"""What must not stand in any file that is shipped."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules import rule
from tests.architecture.source import PACKAGE, Project, Violation

SHIPPED = (PACKAGE, "contrib", "profiles", ".ci", "README.md", "pyproject.toml")

#: A profile says ``@npm`` or ``@pypi``: which host that is, the person's own configuration of npm, pip and uv knows.
#: (Each is written in two parts, so that this file does not hold what it forbids.)
REGISTRIES = re.compile(
    "|".join(("npm" + r"js\.(org|com)", "pypi" + r"\.(org|python\.org)", "python" + r"hosted\.org"))
)


@rule
def no_registry_hosts(project: Project) -> Iterator[Violation]:
    """Hosts of package registries are never written in our files."""
    for path in _files(project.root):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if REGISTRIES.search(line):
                yield Violation(path.relative_to(project.root).as_posix(), number, "names the host of a registry")


def _files(root: Path) -> Iterator[Path]:
    for name in SHIPPED:
        place = root / name
        found = place.rglob("*") if place.is_dir() else iter([place])
        yield from sorted(path for path in found if path.is_file() and path.suffix != ".pyc")
