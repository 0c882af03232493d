"""Where the shipped profiles are: inside the installed package, or beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

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
