"""This machine: which system it is, and where the Windows side of it is if it runs in WSL."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from supervisord_mcp.hosts.base import Platform, Surroundings

#: Where WSL shows the disk of Windows, and directories in ``Users`` that are nobody's.
_USERS = Path("/mnt/c/Users")
_NOBODY = frozenset({"all users", "default", "default user", "public", "defaultapppool", "wdagutilityaccount"})


def surroundings(environ: Mapping[str, str], home: Path, project: Path | None = None) -> Surroundings:
    """Given an environment, a home directory and perhaps a project, return where files of hosts are on this machine."""
    platform = platform_of(sys.platform)
    windows = windows_home(environ, home) if platform is Platform.LINUX else None
    return Surroundings(home, environ, platform, project, windows)


def platform_of(name: str) -> Platform:
    """Given a name as `sys.platform` has it, return the system; all but macOS and Windows are as Linux."""
    if name == "darwin":
        return Platform.MACOS
    return Platform.WINDOWS if name in ("win32", "cygwin") else Platform.LINUX


def windows_home(environ: Mapping[str, str], home: Path, users: Path = _USERS) -> Path | None:
    """Return the home directory on the Windows side of WSL, or None where there is none, or nobody knows which.

    It is the one that ``USERPROFILE`` names if it was handed over, else that of the same name, else the only one.
    """
    if not environ.get("WSL_DISTRO_NAME") and not environ.get("WSL_INTEROP"):
        return None
    try:
        found = [path for path in users.iterdir() if path.name.lower() not in _NOBODY and path.is_dir()]
    except OSError:
        return None
    named = environ.get("USERPROFILE", "").replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
    for name in filter(None, (named, home.name.lower())):
        if match := next((path for path in found if path.name.lower() == name), None):
            return match
    return found[0] if len(found) == 1 else None
