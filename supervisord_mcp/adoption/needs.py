"""What a server that ran with all rights must be given so that it still works in a sandbox.

Files and directories that the entry of a host names become mounts, addresses become rules of the network, and
`knowledge` says what is known of the package. It is a proposal for a person to read before anything is changed.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal
from urllib.parse import urlsplit

from supervisord_mcp.adoption.knowledge import PACKAGES, PORTS, PROGRAMS, RUNNERS, Known
from supervisord_mcp.config.lint import risk_of
from supervisord_mcp.config.models import Mount
from supervisord_mcp.config.openings import ENGINES, openings
from supervisord_mcp.config.variables import PROJECT, Expansion, Variables, expand, names
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages.requests import npm_name, python_name, recognise
from supervisord_mcp.runtimes.roots import runtime_roots
from supervisord_mcp.runtimes.search import find_command, search_path

Access = Literal["ro", "rw"]

#: A file of this kind is written together with others in its directory.
_DATABASES = (".db", ".sqlite", ".sqlite3", ".duckdb")
#: Files that a server makes when it first needs them.
_MADE = (*_DATABASES, ".json", ".jsonl", ".log", ".csv", ".md", ".txt")
#: Variables that name files which are only read.
_READ_ONLY = re.compile(r"CREDENTIAL|CONFIG|CERT|_CA|KEY|TOKEN", re.IGNORECASE)
_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]*)://\S+", re.IGNORECASE)
_HOST_AND_PORT = re.compile(r"(localhost|(?:\d{1,3}\.){3}\d{1,3}):(\d{1,5})")
_PRIVATE_NAMES = (".local", ".lan", ".internal", ".intranet", ".corp", ".home.arpa")
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "host.docker.internal")
#: Networks without rules: with them no name leads to a stand-in, and nobody else refuses an address.
_RULELESS = ("none", "loopback", "host")
#: What a project gives to a server that runs in it.
WHOLE_PROJECT = "${project}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an entry is from.

    ``own`` are the directories of smcp, which no server may see; in ``data`` are those of servers that have none.
    """

    home: str
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    project: str | None = None
    own: tuple[str, ...] = ()
    data: str = ""

    def expand(self, text: str) -> str | None:
        """Return a text without variables, or None where one of them is not known here."""
        expansion = self._expansion(text)
        return None if expansion.missing else expansion.text

    def missing(self, text: str) -> frozenset[str]:
        """Return the variables of a text that are set nowhere here; the project is known once a host works in one."""
        return frozenset(reference.name for reference in self._expansion(text).missing) - {PROJECT}

    def _expansion(self, text: str) -> Expansion:
        return expand(text, Variables(self.environ, self.project, self.home))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an entry runs, in our language. ``inside`` says that it is started in the project and may count on that."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Needs:
    """Keys for the entry of a server, remarks on them for a person, and why it cannot be isolated ("" if it can).

    ``words`` come at the end of its command; ``directories`` are to be made for it, for the person alone.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    obstacle: str = ""
    words: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def needs(wanted: Wanted, place: Place, network: str | None = None) -> Needs:
    """Given what an entry runs and where it is from, return what to give it; ``network`` is what a person chose."""
    program = PurePosixPath(wanted.argv[0]).name
    if program in ENGINES:
        if opened := next(openings(wanted.argv), None):
            meant = f'permit = ["{opened.permit}"]'
            return Needs(obstacle=f"{opened.option}: {opened.reason}; if it is meant, add it by hand with {meant}")
        remark = f"{program} itself runs with all your rights, as it did; what it starts is in a container"
        return Needs({"runtime": "bare"}, (remark,))
    known = known_of(wanted.argv)
    settings: dict[str, Any] = {}
    remarks = [known.remark] if known is not None and known.remark else []
    directories: tuple[str, ...] = ()
    env: dict[str, str] = {}
    try:
        mounts = _mounts(wanted, known, place)
        if known is not None and known.kept is not None and (file := _kept(wanted, *known.kept, place)):
            directories = (os.path.dirname(file),)
            mounts[directories[0]] = "rw"
            env[known.kept[0]] = file
            remarks.append(f"what it remembers from now on is in {file}; what it has so far stays in its package")
    except _UnshowableError as error:
        return Needs(obstacle=str(error))
    profile = known.profile if known is not None else PROGRAMS.get(program, "default")
    if profile == "git" and any(path for path in mounts):
        # The profile is for the project of a session, this one has a repository of its own.
        profile = "python"
        mounts.setdefault("~/.gitconfig", "ro")
        env["GIT_CONFIG_GLOBAL"] = "~/.gitconfig"
    if profile != "default":
        settings["profile"] = profile
    reach = network or _network(wanted, known, profile, remarks, place)
    if reach:
        settings["network"] = reach
    words = () if known is None or reach in _RULELESS else tuple(w for w in known.ruled if w not in wanted.argv)
    if words:
        remarks.append(f"{' '.join(words)} is added to its command: the daemon refuses private addresses itself")
    for name, value in {} if known is None else known.env.items():
        if name not in wanted.env:
            env[name] = value
            remarks.append(f"{name} is {value} for it, so that it installs nothing while it runs")
    if env:
        settings["env"] = env
    if known is None and network is None:
        remarks.append("what it needs of the network is not known: it gets all that is public")
    if mounts:
        settings["mounts"] = [_mount(path, access) for path, access in mounts.items()]
        risks = (risk_of(Mount(**entry), place.home) for entry in settings["mounts"])
        remarks += (f"careful: {risk}" for risk in risks if risk)
    return Needs(settings, tuple(remarks), words=words, directories=directories)


def lacking(argv: Sequence[str], place: Place, path: Sequence[str] = ()) -> str:
    """Return that the program of a command is not found here, in words, else nothing; ``path`` is searched first."""
    request = recognise(argv)
    # What is run from a package of Python needs no program that is there before.
    if request is not None and request.kind != "npm":
        return ""
    program = place.expand(argv[0]) if request is None else "node"
    if program is None or ("/" in program and not program.startswith("/")):
        return ""
    try:
        find_command(program, search_path(path, place.environ, place.home), place.environ, place.home)
    except LaunchError as error:
        return error.message
    return ""


def known_of(argv: Sequence[str]) -> Known | None:
    """Return what is known of the server that a command runs."""
    request = recognise(argv)
    if request is not None:
        name = npm_name if request.kind == "npm" else python_name
        return PACKAGES.get(name(request.requirements[0]))
    program = PurePosixPath(argv[0]).name
    if re.fullmatch(r"python[0-9.]*", program) and argv[1:2] == ("-m",) and len(argv) > 2:
        return PACKAGES.get(argv[2].replace("_", "-"))
    return PACKAGES.get(program)


# Files


def _kept(wanted: Wanted, variable: str, name: str, place: Place) -> str:
    """Return the file for what a server remembers, or "" where its entry has one. Raise `_UnshowableError`."""
    text = wanted.env.get(variable, "")
    path = place.expand(text)
    if path == "" and place.data:
        return os.path.join(place.data, name)
    if path is not None and not path.startswith(("/", "~/")):
        raise _UnshowableError(f"it writes into its own package, which is read-only here: give {variable} a whole path")
    return ""


class _UnshowableError(Exception):
    """A directory that cannot be shown to any server."""


def _mounts(wanted: Wanted, known: Known | None, place: Place) -> dict[str, Access]:
    """Return what is to be mounted, by the text of the path. Raise `_UnshowableError`."""
    found: dict[str, Access] = {}
    shown = _shown(wanted, place)
    access: Access = known.access if known is not None else "rw"
    for text in _paths(wanted.argv[1:]):
        _add(found, text, access, place, shown)
    for name, value in wanted.env.items():
        for text in _paths((value,)):
            _add(found, text, "ro" if _READ_ONLY.search(name) else "rw", place, shown)
    if wanted.cwd is not None:
        _add(found, wanted.cwd, "rw", place, ())
    if wanted.inside and _works_inside(wanted, known, place):
        found.setdefault(WHOLE_PROJECT, "rw")
    if known is not None:
        found |= dict(known.shown)
    return _without_covered(found, place)


def _works_inside(wanted: Wanted, known: Known | None, place: Place) -> bool:
    """Return whether what is started in a project works on it: it is found there, or a path in it is named."""
    request = recognise(wanted.argv)
    program, *words = wanted.argv
    relative = "/" in program and not program.startswith(("/", "~", "$"))
    if relative or (request is None and known is None and PurePosixPath(program).name in RUNNERS):
        return True
    if wanted.cwd is not None and not wanted.cwd.startswith(("/", "~", "$")):
        return True
    given = words if request is None else request.args
    for before, word in zip(("", *given), given, strict=False):
        module = request is None and before == "-m"
        if any(_is_in_project(text, place, module=module) for text in (word, word.partition("=")[2])):
            return True
    return any("/" in value and _is_in_project(value, place) for value in wanted.env.values())


def _is_in_project(text: str, place: Place, *, module: bool = False) -> bool:
    """Return whether a text is a relative path in the project, of something that is there or may be made there."""
    if text in (".", "..") or text.startswith(("./", "../")):
        return True
    if not text or place.project is None or text.startswith(("/", "~", "$", "-", "@")) or "://" in text:
        return False
    if module:
        first = text.partition(".")[0]
        return any(os.path.exists(os.path.join(place.project, name)) for name in (first, f"{first}.py"))
    path = os.path.join(place.project, text)
    made = PurePosixPath(text).suffix in _MADE or "/" in text
    return os.path.lexists(path) or (made and os.path.isdir(os.path.dirname(path)))


def _paths(words: Sequence[str]) -> Iterator[str]:
    """Yield the words, or what follows ``=`` in them, that are absolute paths or below the home or the project."""
    for word in words:
        for text in (word, word.partition("=")[2]):
            if text.startswith(("/", "~/", "${")) or text == "~":
                yield text
                break


def _add(found: dict[str, Access], text: str, access: Access, place: Place, shown: Sequence[str]) -> None:
    path = place.expand(text)
    if path is None:
        if PROJECT in names(text):
            found[WHOLE_PROJECT] = "rw"
        return
    path = os.path.normpath(path) if path.startswith("/") else path
    if not path.startswith("/") or _is_inside(path, ("/usr", "/bin", "/lib", "/lib64", "/proc", "/sys", "/dev")):
        return
    if place.project is not None and PROJECT in names(text) and _is_inside(path, (place.project,)):
        found[WHOLE_PROJECT] = "rw"
        return
    if os.path.isdir(path):
        _refuse_broad(path, place)
        if not _is_inside(path, shown):
            found[text] = access
    elif os.path.isfile(path):
        if not _is_inside(path, shown):
            _add_file(found, text, access, place)
    elif access == "rw" and os.path.isdir(os.path.dirname(path)) and PurePosixPath(path).suffix:
        # A file that it makes when it first needs it.
        _add_file(found, text, "rw", place, missing=True)


def _add_file(found: dict[str, Access], text: str, access: Access, place: Place, *, missing: bool = False) -> None:
    """Add a file; its directory where files beside it are written too, unless that holds more than it should."""
    directory = os.path.dirname(text)
    if access == "rw" and (missing or text.endswith(_DATABASES)):
        try:
            _refuse_broad(os.path.normpath(place.expand(directory) or "/"), place)
        except _UnshowableError:
            if missing:
                raise
        else:
            found[directory] = access
            return
    found[text] = access


def _refuse_broad(path: str, place: Place) -> None:
    real = os.path.realpath(path)
    for own in (place.home, *place.own):
        mine = os.path.realpath(own)
        if _is_inside(mine, (real,)) or (own != place.home and _is_inside(real, (mine,))):
            holds = "your home directory" if own == place.home else f"{own}, which belongs to smcp"
            raise _UnshowableError(
                f"it works on {path}, and no server may see {holds}: name the directories that it needs instead"
            )


def _shown(wanted: Wanted, place: Place) -> tuple[str, ...]:
    """Return what the sandbox shows of a command anyway: its interpreter, its script, its virtual environment."""
    words = [place.expand(word) or word for word in wanted.argv]
    directories = search_path((), place.environ, place.home)
    try:
        program = find_command(words[0], directories, place.environ, place.home)
    except LaunchError:
        return ()
    if not program.startswith("/"):
        return ()
    environ = {"PATH": ":".join(directories)}
    return runtime_roots([program, *words[1:]], environ, cwd=place.project, home=place.home)


def _without_covered(found: Mapping[str, Access], place: Place) -> dict[str, Access]:
    """Return the mounts without those that another one shows already, with the same rights."""
    paths = {text: place.expand(text) or text for text in found}
    return {
        text: access
        for text, access in found.items()
        if not any(
            other != text
            and paths[other] != paths[text]
            and _is_inside(paths[text], (paths[other],))
            and found[other] in (access, "rw")
            for other in found
        )
    }


def _mount(path: str, access: Access) -> dict[str, Any]:
    mount: dict[str, Any] = {"path": path, "access": access}
    return {**mount, "optional": True} if path.startswith("~/.") else mount


def _is_inside(path: str, directories: Sequence[str]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in directories)


# Network


def _network(
    wanted: Wanted, known: Known | None, profile: str, remarks: list[str], place: Place
) -> str | dict[str, Any]:
    """Return the key `network` of an entry; empty where that of its profile is right."""
    texts = [place.expand(text) or "" for text in (*wanted.argv[1:], *wanted.env.values())]
    reached = [target for text in texts for target in _targets(text)]
    if any(host in _THIS_MACHINE for host, _ in reached):
        remarks.append("it uses a service of this machine: it shares the machine's network, where nothing is held back")
        return "host"
    private = sorted({f"{host}:{port}" for host, port in reached if _is_private(host)})
    if private:
        return {"allow": ["internet", *private], "private": True}
    if known is not None and known.hosts:
        named = sorted({f"{host}:{port}" for host, port in reached})
        return {"allow": list(dict.fromkeys((*known.hosts, *named)))}
    if reached and known is not None:
        return {"allow": sorted({f"{host}:{port}" for host, port in reached})}
    return "internet" if profile == "default" else ""


def _targets(text: str) -> Iterator[tuple[str, int]]:
    """Yield hosts and ports that a text names: of an address, or of HOST:PORT for this machine and for numbers."""
    for match in _ADDRESS.finditer(text):
        try:
            parts = urlsplit(match[0])
            port = parts.port or PORTS.get(parts.scheme.partition("+")[0].lower(), 443)
        except ValueError:
            continue
        if parts.hostname:
            yield parts.hostname, port
    if plain := _HOST_AND_PORT.fullmatch(text):
        yield plain[1], int(plain[2])


def _is_private(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return host.endswith(_PRIVATE_NAMES) or "." not in host
