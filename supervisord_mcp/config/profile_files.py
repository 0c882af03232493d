"""Where the files of profiles are, found without reading any of them: cheap enough for completion.

The shipped ones are inside the installed package, or beside it in a checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from supervisord_mcp.config.files import link_directories
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import SmcpError


def profiles_directory(package: Path = Path(__file__).parents[1]) -> Path:
    """Given the directory of the package, return the directory of the shipped profiles.

    Raise `SmcpError` if the installation has none.
    """
    # A checkout comes second: it must not win over an installed package that lies in a directory with other "profiles".
    for place in (package / "profiles", package.parent / "profiles"):
        if (place / "README.md").is_file():
            return place
    raise SmcpError(
        f"the shipped profiles are missing: neither {package / 'profiles'} nor {package.parent / 'profiles'} has them",
        remedy="install mcp-supervisord again",
    )


def profile_directories(paths: Paths) -> tuple[Path, ...]:
    """Return every directory in which a change can change a profile of the person."""
    names = sorted(names_in(paths.profiles_dir))
    files = [paths.profiles_dir / f"{name}.toml" for name in (*names, "any")]
    return tuple(dict.fromkeys(directory for file in files for directory in link_directories(file)))


def names_in(directory: Path) -> frozenset[str]:
    """Return the names of the profiles in a directory; hidden files are those of editors and do not count."""
    return frozenset(_listed(directory))


def _listed(directory: Path) -> Iterator[str]:
    try:
        files = os.listdir(directory)
    except OSError:
        return  # not there, or not readable: there is nothing to be found in it
    yield from (name.removesuffix(".toml") for name in files if name.endswith(".toml") and not name.startswith("."))
