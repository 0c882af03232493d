"""Surroundings of real installations: programs of this machine, a home and settings of the test."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.launch import Launcher
from supervisord_mcp.packages.phase import Confinement, Grants, Surroundings
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import Identities

PATH = os.pathsep.join((os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"))


def find(name: str) -> str | None:
    """Find a program of this machine."""
    return shutil.which(name, path=PATH)


def without_uv(name: str) -> str | None:
    """Find a program of a machine that has no uv."""
    return None if name == "uv" else find(name)


def shipped(home: Path) -> Callable[[], Confinement]:
    """Return what the shipped profile says, for a person who has no other one."""
    paths = find_paths({"SMCP_HOME": str(home / "smcp")}, os.getuid())
    return Launcher(paths, {"HOME": str(home)}, "", ()).confinement


@asynccontextmanager
async def sandboxed(
    home: Path,
    environ: Mapping[str, str],
    said: list[str] | None = None,
    *,
    grants: Grants | None = None,
    bwrap: str | None = None,
) -> AsyncIterator[Surroundings]:
    """Give surroundings with a sandbox; as root one with users of its own. ``said`` gets the lines of installers."""
    runtime = BwrapRuntime(bwrap, identities=Identities() if os.geteuid() == 0 else None)
    lines = [] if said is None else said
    try:
        yield Surroundings(
            runtime=runtime,
            confinement=shipped(Path(home)),
            find=find,
            path=PATH,
            home=str(home),
            environ=environ,
            marker=f"t-{home}",
            installing=lambda: None,
            progress=lines.append,
            grants=grants or Grants(),
        )
    finally:
        await runtime.aclose()
