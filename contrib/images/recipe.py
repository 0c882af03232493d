"""What a Containerfile says, as far as an image can be made from it without running anything in a container."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

#: What an image remembers; engines take these lines as they are when files are imported.
_REMEMBERED = frozenset({"CMD", "ENTRYPOINT", "ENV", "LABEL", "USER", "VOLUME", "WORKDIR"})
_CONTINUED = re.compile(r"\\\n")
_INSTALLING = re.compile(r"apt-get update && apt-get install -y --no-install-recommends \$PACKAGES && rm -rf \S+")


class RecipeError(Exception):
    """A Containerfile says what cannot be done without running it."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image: the one that it begins with, the packages of Debian, the files, and the lines that it remembers.

    ``copies`` are (file of the machine, path in the image).
    """

    base: str
    packages: tuple[str, ...]
    copies: tuple[tuple[Path, str], ...]
    changes: tuple[str, ...]


def read_recipe(folder: Path) -> Recipe:
    """Return what the Containerfile of a folder says. Raise `RecipeError` for what has to be run.

    The context of the build, which COPY means, is the directory above that of all recipes.
    """
    file = folder / "Containerfile"
    base, packages, copies, changes = "", list[str](), list[tuple[Path, str]](), list[str]()
    for line in _CONTINUED.sub(" ", file.read_text(encoding="utf-8")).splitlines():
        word, _, rest = line.strip().partition(" ")
        match word:
            case "" | "#":
                continue
            case "FROM":
                base = rest
            case "ARG" if rest.startswith("PACKAGES="):
                packages += shlex.split(rest.removeprefix("PACKAGES="))[0].split()
            case "RUN" if _INSTALLING.fullmatch(" ".join(rest.split())):
                continue
            case "COPY":
                source, target = rest.split()
                copies.append((folder.parent.parent / source, target))
            case _ if word in _REMEMBERED:
                changes.append(f"{word} {rest}")
            case _:
                raise RecipeError(f"{file}: {line.strip()!r} cannot be done without running a container")
    return Recipe(base, tuple(packages), tuple(copies), tuple(changes))
