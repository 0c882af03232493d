"""A configuration of its own for a test: files written in one call, problems as a person reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisord_mcp.config.paths import Paths, find_paths
from supervisord_mcp.errors import ConfigError


def paths_in(home: Path) -> Paths:
    """Return the paths of a daemon that keeps everything in one directory."""
    return find_paths({"SMCP_HOME": str(home)}, os.geteuid())


def write(paths: Paths, main: str | bytes | None = None, **more: str | bytes) -> Paths:
    """Write ``config.toml`` and, named by keyword, files of ``conf.d``; return the paths."""
    paths.conf_dir.mkdir(parents=True, exist_ok=True)
    files = {paths.conf_dir / f"{name}.toml": content for name, content in more.items()}
    if main is not None:
        files[paths.config_file] = main
    for file, content in files.items():
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return paths


def problems(paths: Paths, action: Callable[[], object]) -> list[str]:
    """Return what an action finds wrong, with file names below the directory of the configuration."""
    with pytest.raises(ConfigError) as caught:
        action()
    return [str(problem).replace(f"{paths.config_dir}/", "") for problem in caught.value.problems]
