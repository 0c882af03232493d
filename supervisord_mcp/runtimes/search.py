"""Where a command is searched: also in the folders that only a login shell knows of.

A daemon that systemd started has a PATH without nvm, pyenv, pipx and the like, and a person expects the same command
to be found as in a terminal. The order is: directories of the configuration, the daemon's PATH, then what common tools
install for one user, then the system. A stand-in of pyenv or Volta is replaced by the program it stands for: it chooses
by files of the home directory, which a sandbox does not have.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence

from supervisord_mcp.errors import LaunchError

_SYSTEM = ("/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/snap/bin")
_PERSONAL = (".volta/bin", ".cargo/bin", ".bun/bin", ".deno/bin", "go/bin")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)$")


def search_path(extra: Iterable[str], environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Return the directories that commands are searched in, first one first; only those that exist.

    ``extra`` comes first, then PATH of ``environ``, whose NVM_DIR and PYENV_ROOT are respected.
    """
    wanted = [os.path.join(home, place[2:]) if place.startswith("~/") else place for place in extra]
    wanted += environ.get("PATH", "").split(":")
    wanted.append(os.path.join(home, ".local/bin"))
    if node := _nvm_directory(environ.get("NVM_DIR") or os.path.join(home, ".nvm")):
        wanted.append(node)
    wanted.append(os.path.join(_pyenv_root(environ, home), "shims"))
    wanted += (os.path.join(home, place) for place in _PERSONAL)
    wanted += _SYSTEM
    # A relative entry would mean another directory for every working directory.
    absolute = (os.path.normpath(place) for place in wanted if place.startswith("/"))
    return tuple(place for place in dict.fromkeys(absolute) if os.path.isdir(place))


def find_command(name: str, directories: Sequence[str], environ: Mapping[str, str], home: str) -> str:
    """Given a name, or an absolute path, return the absolute path of the program to run.

    Raise `LaunchError`, not to be retried, that names what was searched.
    """
    if "/" in name:
        if not os.path.isfile(name):
            raise LaunchError(f"command not found: {name}", remedy="Check the path, or install it.", retryable=False)
        return name
    for directory in directories:
        program = os.path.join(directory, name)
        if _runs(program) and (real := _unshimmed(program, environ, home)):
            return real
    raise LaunchError(
        f"command not found: {name} (searched in {':'.join(directories)})",
        remedy="Install it, or add its directory to `path` in the section [daemon] of the configuration.",
        retryable=False,
    )


def _runs(program: str) -> bool:
    return os.path.isfile(program) and os.access(program, os.X_OK)


def _unshimmed(program: str, environ: Mapping[str, str], home: str) -> str | None:
    """Return the program that a stand-in would run; None where the tool behind it has chosen none."""
    directory, name = os.path.split(program)
    pyenv = _pyenv_root(environ, home)
    if directory == os.path.join(pyenv, "shims"):
        return _pyenv_program(pyenv, name, environ)
    if directory == os.path.join(home, ".volta/bin"):
        return _volta_program(os.path.join(home, ".volta"), name) or program
    return program


def _pyenv_root(environ: Mapping[str, str], home: str) -> str:
    return os.path.normpath(environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv"))


def _pyenv_program(root: str, name: str, environ: Mapping[str, str]) -> str | None:
    chosen = environ.get("PYENV_VERSION", "").split(":") if environ.get("PYENV_VERSION") else None
    if chosen is None:
        chosen = _words(os.path.join(root, "version"))
    versions = os.path.join(root, "versions")
    for version in chosen:
        found = version if os.path.isdir(os.path.join(versions, version)) else _newest(versions, version)
        if found and _runs(program := os.path.join(versions, found, "bin", name)):
            return program
    return None


def _volta_program(root: str, name: str) -> str | None:
    try:
        with open(os.path.join(root, "tools/user/platform.json"), encoding="utf-8") as file:
            chosen = json.load(file)["node"]
        node, npm = chosen["runtime"], chosen.get("npm")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    folders = [f"tools/image/npm/{npm}/bin"] if npm and name in ("npm", "npx") else []
    for folder in [*folders, f"tools/image/node/{node}/bin"]:
        if _runs(program := os.path.join(root, folder, name)):
            return program
    return None


def _nvm_directory(root: str) -> str | None:
    """Return the directory of programs of nvm's default version, else of its newest one."""
    versions = os.path.join(root, "versions/node")
    name = "default"
    for _ in range(5):
        words = _words(os.path.join(root, "alias", name))
        if not words:
            break
        name = words[0]
    found = _newest(versions, name) or _newest(versions, "")
    return os.path.join(versions, found, "bin") if found else None


def _newest(folder: str, prefix: str) -> str | None:
    """Return the newest version in a folder of versions that begins with the numbers of the prefix, or of all."""
    match = _VERSION.match(prefix)
    if prefix and match is None:
        return None
    wanted = _numbers(match[1]) if match else ()
    try:
        names = os.listdir(folder)
    except OSError:
        return None
    found = {numbers: name for name in names if (parsed := _VERSION.match(name)) and (numbers := _numbers(parsed[1]))}
    matching = [numbers for numbers in found if numbers[: len(wanted)] == wanted]
    return found[max(matching)] if matching else None


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _words(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().split()
    except OSError:
        return []
