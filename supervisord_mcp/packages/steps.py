"""How a request is installed, and what is run of it then: npm for packages of Node, uv or venv and pip for Python."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages.requests import Request, npm_name
from supervisord_mcp.packages.settings import Installer

#: Finds a program by name; None where there is none.
Find = Callable[[str], str | None]

_NODE = re.compile(r"#!\s*(?:/usr/bin/env\s+)?(?:\S*/)?node(?:js)?\s*$")


@dataclass(frozen=True, slots=True)
class Plan:
    """The commands that install a request, one after the other; ``tools`` are programs that they need besides.

    ``installer`` is whose settings count, ``program`` how it is called. The first ``offline`` ones need no registry.
    """

    installer: Installer
    program: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]
    env: Mapping[str, str]
    tools: tuple[str, ...] = ()
    offline: int = 0


@dataclass(frozen=True, slots=True)
class Folders:
    """Where a request is installed, and what its installer keeps for the next one."""

    place: Path
    cache: Path


def plan(request: Request, folders: Folders, find: Find, scripts: Sequence[str] = ()) -> Plan:
    """Return how to install a request into an empty folder. Raise `LaunchError` where the installer is missing.

    Nothing of a package runs while it is installed, but for those in ``scripts``.
    """
    make = _plan_npm if request.kind == "npm" else _plan_python
    return make(request, folders, find, scripts)


def outcome(request: Request, place: Path, find: Find) -> tuple[str, ...]:
    """Return the command to run of an installed request. Raise `LaunchError` where the package has none."""
    return _npm_command(request, place, find) if request.kind == "npm" else _python_command(request, place)


def binaries(request: Request, place: Path) -> str:
    """Return the folder with the commands of an installation, which belongs into the PATH of the server."""
    return str(place / ("node_modules/.bin" if request.kind == "npm" else "venv/bin"))


def tools(request: Request, find: Find) -> list[str]:
    """Return the programs that an installation is bound to: another version of them needs another installation."""
    if request.kind == "npm":
        return [_need(find, "node", request)]
    python = _python(request, find)
    return [python] if python.startswith("/") else []


def version(request: Request, place: Path) -> str:
    """Return a text that changes with the installed versions."""
    if request.kind == "npm":
        return _read(place / "package-lock.json")
    return "\n".join(sorted(path.name for path in place.glob("venv/lib/*/site-packages/*.dist-info")))


def scripts_left_out(request: Request, place: Path, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the installed packages whose scripts were not run; those of Python tell of it themselves."""
    if request.kind != "npm":
        return ()
    try:
        packages = json.loads(_read(place / "package-lock.json"))["packages"]
        having = {path.rpartition("node_modules/")[2] for path, p in packages.items() if p.get("hasInstallScript")}
    except (ValueError, KeyError, AttributeError, TypeError):
        return ()
    return tuple(sorted(having - set(allowed)))


def _plan_npm(request: Request, folders: Folders, find: Find, scripts: Sequence[str]) -> Plan:
    npm, place = _need(find, "npm", request), folders.place
    (place / "package.json").write_text('{"private": true}\n')
    env = {
        "npm_config_cache": str(folders.cache),
        "npm_config_audit": "false",
        "npm_config_fund": "false",
        "npm_config_update_notifier": "false",
        "npm_config_progress": "false",
        "npm_config_loglevel": "notice",
    }
    # In the folder, not with --prefix: that moves npm's global settings there, certificates of a company among them.
    command = (npm, "install", "--ignore-scripts", "--omit=dev", "--save-exact", "--", *request.requirements)
    run = ((npm, "rebuild", "--ignore-scripts=false", "--foreground-scripts", "--", *scripts),) if scripts else ()
    return Plan("npm", (npm,), (command, *run), env, (_need(find, "node", request),))


def _plan_python(request: Request, folders: Folders, find: Find, scripts: Sequence[str]) -> Plan:
    python, venv, cache = _python(request, find), str(folders.place / "venv"), folders.cache
    # To build a package is to run what its author wrote.
    built = ("--only-binary", ":all:", *(word for name in scripts for word in ("--no-binary", name)))
    inside = f"{venv}/bin/python"
    used = (python,) if python.startswith("/") else ()
    if uv := find("uv"):
        env = {"UV_CACHE_DIR": str(cache), "UV_LINK_MODE": "copy", "UV_PYTHON_INSTALL_DIR": str(cache / "python")}
        # The certificates of the machine, as npm and pip may have them; older versions of uv know the second name.
        env |= {"UV_SYSTEM_CERTS": "true", "UV_NATIVE_TLS": "true"}
        make = (uv, "venv", "--python", python, venv)
        install = (uv, "pip", "install", *built, "--python", inside, "--", *request.requirements)
        return Plan("uv", (uv,), (make, install), env, used, offline=len(used))
    if not used:
        raise LaunchError(
            f"no Python {python} to install {request.shown} with", remedy="Install uv, or that Python.", retryable=False
        )
    env = {"PIP_CACHE_DIR": str(cache), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    install = (inside, "-m", "pip", "install", "--progress-bar", "off", *built, "--", *request.requirements)
    return Plan("pip", (inside, "-m", "pip"), ((python, "-m", "venv", venv), install), env, used, offline=1)


def _python(request: Request, find: Find) -> str:
    """Return the Python to install for: a path, or what uv can make of the words of the request."""
    if request.python is None:
        return find("python3") or find("python") or "3"
    if request.python.startswith("/"):
        return request.python
    return find(request.python) or find(f"python{request.python}") or request.python


def _npm_command(request: Request, place: Path, find: Find) -> tuple[str, ...]:
    packages = [place / "node_modules" / npm_name(requirement) for requirement in request.requirements]
    found: dict[str, Path] = {}
    for package in packages:
        for name, target in _npm_binaries(package).items():
            found.setdefault(name, package / target)
    own = npm_name(request.requirements[0]).split("/")[-1]
    names = [request.command] if request.command else list(found) if len(found) == 1 else [own]
    script = found.get(names[0]) if names else None
    if script is None or not os.path.isfile(script):
        offered = f"it offers {', '.join(sorted(found))}" if found else "it offers none"
        raise LaunchError(
            f"package {request.shown} has no command {names[0] if names else own}: {offered}",
            remedy="Name the command: npx --package=PACKAGE COMMAND",
            retryable=False,
        )
    script = Path(os.path.normpath(script))
    if not script.is_relative_to(place):
        raise LaunchError(f"package {request.shown}: its command is outside of the package", retryable=False)
    with open(script, "rb") as file:
        first = file.readline(512).decode(errors="replace").rstrip()
    if _NODE.match(first) or not first.startswith("#!"):
        return (_need(find, "node", request), str(script), *request.args)
    return (str(script), *request.args)


def _npm_binaries(package: Path) -> dict[str, str]:
    try:
        content = json.loads(_read(package / "package.json"))
        commands, name = content.get("bin"), content.get("name", package.name)
    except (ValueError, AttributeError):
        return {}
    if isinstance(commands, str):
        return {name.split("/")[-1]: commands}
    return {k: v for k, v in commands.items() if isinstance(v, str)} if isinstance(commands, dict) else {}


def _python_command(request: Request, place: Path) -> tuple[str, ...]:
    folder = place / "venv/bin"
    program = folder / (request.command or "")
    if not program.is_file():
        raise LaunchError(
            f"package {request.shown} has no command {request.command}",
            remedy="Name the package and the command: uvx --from PACKAGE COMMAND",
            retryable=False,
        )
    return (str(program), *request.args)


def _need(find: Find, name: str, request: Request) -> str:
    if (program := find(name)) is None:
        raise LaunchError(
            f"{name} is not installed, so {request.shown} cannot be installed",
            remedy=f"Install {name}.",
            retryable=False,
        )
    return program


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
