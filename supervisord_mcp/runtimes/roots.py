"""What a command needs of the machine to run: its interpreter, virtual environment, package folder, and nothing else.

Every symbolic link on the way to a program is followed. A prefix (a directory with bin and lib) is shown as a whole, a
lone program as one file, and a link that is in neither is made again in the sandbox. The home directory, what is above
it and other places that hold more than programs are never shown as a whole.

What a server can write must not decide what the next start may read: from links, scripts and settings inside a writable
mount only the installation of an interpreter is followed, never a file of another kind.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from supervisord_mcp.runtimes.sandbox import SYSTEM

_DEEPEST = 5
_MOST_LINKS = 40
_INTERPRETER = re.compile(
    r"(python|pypy|node|nodejs|bun|deno|ruby|perl|php|lua|java|tsx|ts-node|sh|bash|dash|zsh)[\d.]*$"
)
#: What a directory next to ``bin`` must be called for both to be one installation.
_PREFIX_PARTS = ("lib", "lib64", "libexec", "conda-meta")
#: Options that take the next word, and options after which no script follows, by kind of interpreter.
_VALUES = {
    "python": {"-W", "-X", "--check-hash-based-pycs"},
    "pypy": {"-W", "-X"},
    "node": {"-r", "--require", "--import", "--loader", "--experimental-loader", "-C", "--conditions"},
    "java": {"-cp", "-classpath", "--class-path", "-p", "--module-path"},
}
_NO_SCRIPT = {
    "python": {"-c", "-m"},
    "pypy": {"-c", "-m"},
    "node": {"-e", "--eval", "-p", "--print"},
    "bun": {"-e", "--eval"},
    "perl": {"-e", "-E"},
    "ruby": {"-e"},
    "php": {"-r"},
    "lua": {"-e"},
    "sh": {"-c"},
}
_SAME = {"nodejs": "node", "bash": "sh", "dash": "sh", "zsh": "sh"}
_SUBCOMMANDS = {"bun": "run", "deno": "run"}
_JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx")
_PATH_VARIABLES = ("PYTHONPATH", "NODE_PATH", "PERL5LIB", "RUBYLIB", "CLASSPATH")
#: Directories of a home that hold a person's documents: a script in one of them is shown alone.
_PERSONAL = ("Desktop", "Documents", "Downloads", "Music", "Pictures", "Public", "Templates", "Videos", "bin", ".local")


def runtime_roots(
    argv: Sequence[str], env: Mapping[str, str], *, cwd: str | None, home: str, writable: Sequence[str] = ()
) -> tuple[str, ...]:
    """Given a command whose program is absolute, return the paths it needs to read, links among them.

    ``home`` is the person's home directory, ``writable`` are the directories that the command may write.
    """
    roots = _Roots(env, home, writable)
    roots.command(list(argv), cwd or "/", 0)
    for name in _PATH_VARIABLES:
        for path in env.get(name, "").split(":"):
            if path.startswith("/"):
                roots.show(os.path.normpath(path))
    return tuple(sorted(roots.found))


class _Roots:
    """Collects what is to be shown."""

    def __init__(self, env: Mapping[str, str], home: str, writable: Sequence[str]) -> None:
        self.found: set[str] = set()
        self._env = env
        self._writable = tuple(map(os.path.normpath, writable))
        above = [home]
        while above[-1] != "/":
            above.append(os.path.dirname(above[-1]))
        personal = (os.path.join(home, name) for name in _PERSONAL)
        self._broad = {
            *above,
            *personal,
            os.path.realpath(home),
            "/opt",
            "/srv",
            "/tmp",
            "/var",
            "/var/tmp",
            "/mnt",
            "/run",
        }
        self._done: set[str] = set()

    def command(self, argv: list[str], cwd: str, depth: int) -> None:
        """Take in a program and the script that it is given."""
        self.program(argv[0], depth)
        kind = _INTERPRETER.match(os.path.basename(argv[0]))
        if os.path.basename(argv[0]) == "env":
            self._behind_env(argv[1:], cwd, depth)
        elif kind is not None and (script := _script(kind[1], argv[1:])):
            path = os.path.normpath(os.path.join(cwd, script))
            if os.path.isfile(path):
                self.program(path, depth, script=True)

    def program(self, path: str, depth: int = 0, *, script: bool = False, trusted: bool = True) -> None:
        """Take in a file and everything on the way to it."""
        if path in self._done or depth > _DEEPEST:
            return
        self._done.add(path)
        *links, real = _hops(path)
        for link in links:
            self._place(link, trusted)
            trusted = trusted and not self._is_writable(link)
        interpreter = _shebang(real)
        if (script or interpreter) and trusted:
            self._show_script(real, interpreter)
        else:
            self._place(real, trusted)
        if interpreter:
            self.command_of_script(interpreter, depth + 1, trusted=trusted and not self._is_writable(real))

    def command_of_script(self, words: list[str], depth: int, *, trusted: bool) -> None:
        """Take in the interpreter that a script names in its first line."""
        if os.path.basename(words[0]) == "env":
            words = [found] if (name := _env_command(words[1:])) and (found := self._search(name)) else []
        if words and words[0].startswith("/") and os.path.isfile(words[0]):
            self.program(words[0], depth, trusted=trusted)

    def show(self, path: str) -> None:
        """Show a file or a directory, unless it is visible anyway or holds more than programs."""
        if path not in self._broad and os.path.lexists(path) and not _is_system(path):
            self.found.add(path)

    def _place(self, path: str, trusted: bool) -> None:
        """Show a program or a link with the installation that it belongs to."""
        if _is_system(path):
            return
        prefix = self._prefix(path)
        if not trusted and not self._is_writable(path):
            # Only what is certainly an interpreter; a link reveals nothing but its own text.
            if prefix is not None and _INTERPRETER.match(os.path.basename(path)):
                self.show(prefix)
            elif os.path.islink(path):
                self.show(path)
            return
        if prefix is None:
            self.show(path)
            return
        self.show(prefix)
        if trusted and not self._is_writable(prefix):
            self._show_environment(prefix)

    def _prefix(self, path: str) -> str | None:
        if "/node_modules/" in path:
            return path[: path.index("/node_modules/")] + "/node_modules"
        directory = os.path.dirname(path)
        prefix = os.path.dirname(directory)
        if os.path.basename(directory) not in ("bin", "sbin") or prefix in self._broad:
            return None
        venv = os.path.isfile(os.path.join(prefix, "pyvenv.cfg"))
        return prefix if venv or any(os.path.isdir(os.path.join(prefix, part)) for part in _PREFIX_PARTS) else None

    def _show_environment(self, prefix: str) -> None:
        """Take in what a virtual environment refers to: the Python it was made from, and editable projects."""
        settings = _read(os.path.join(prefix, "pyvenv.cfg"))
        if not settings or prefix in self._done:
            return
        self._done.add(prefix)
        if home := re.search(r"^home\s*=\s*(.+)$", settings, re.MULTILINE):
            for name in ("python3", "python"):
                if os.path.isfile(program := os.path.join(home[1].strip(), name)):
                    self.program(program, 1)
        for path in _editable_projects(prefix):
            self.show(path)

    def _show_script(self, path: str, interpreter: list[str] | None) -> None:
        if _is_system(path):
            return
        directory = os.path.dirname(path)
        if self._prefix(path) is not None or os.path.basename(directory) in ("bin", "sbin"):
            self._place(path, trusted=True)
            return
        self.show(path if directory in self._broad else directory)
        if path.endswith(_JAVASCRIPT) or (interpreter and "node" in " ".join(interpreter)):
            self._show_package(directory)

    def _show_package(self, directory: str) -> None:
        """Show the package that a script of JavaScript is in, and the folders where its dependencies may be."""
        package = False
        while directory not in self._broad:
            if not package and os.path.isfile(os.path.join(directory, "package.json")):
                package = True
                self.show(directory)
            self.show(os.path.join(directory, "node_modules"))
            directory = os.path.dirname(directory)

    def _behind_env(self, words: list[str], cwd: str, depth: int) -> None:
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
        if words and (found := self._search(words[0])):
            self.command([found, *words[1:]], cwd, depth + 1)

    def _search(self, name: str) -> str | None:
        if "/" in name:
            return name
        for directory in self._env.get("PATH", "").split(":"):
            program = os.path.join(directory, name)
            if directory.startswith("/") and os.path.isfile(program) and os.access(program, os.X_OK):
                return program
        return None

    def _is_writable(self, path: str) -> bool:
        return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in self._writable)


def _script(kind: str, words: list[str]) -> str | None:
    """Return the script among the arguments of an interpreter."""
    kind = _SAME.get(kind, kind)
    rest = iter(words)
    for word in rest:
        joined = kind in ("python", "sh") and re.match(r"-[A-Za-z]+[cm]$", word)
        if joined or word in _NO_SCRIPT.get(kind, ()):
            return None
        if word == "-jar":
            return next(rest, None)
        if word in _VALUES.get(kind, ()):
            next(rest, None)
        elif not word.startswith("-") and word != _SUBCOMMANDS.get(kind):
            return word
    return None


def _hops(path: str) -> Iterator[str]:
    """Yield every symbolic link on the way to a file, then the file itself."""
    place, rest, links = "/", path.split("/"), 0
    while rest:
        name = rest.pop(0)
        if name in ("", "."):
            continue
        if name == "..":
            place = os.path.dirname(place)
            continue
        step = os.path.join(place, name)
        if links < _MOST_LINKS and os.path.islink(step):
            links += 1
            yield step
            target = os.readlink(step)
            rest = [*target.split("/"), *rest]
            place = "/" if target.startswith("/") else place
        else:
            place = step
    yield place


def _shebang(path: str) -> list[str] | None:
    try:
        # Without blocking: what is named here may be a pipe.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        line = os.read(descriptor, 512).split(b"\n")[0] if regular else b""
    finally:
        os.close(descriptor)
    if not line.startswith(b"#!"):
        return None
    with suppress(ValueError):
        return shlex.split(os.fsdecode(line[2:])) or None
    return None


def _env_command(words: list[str]) -> str | None:
    """Return the command in the words that follow ``env`` in the first line of a script."""
    for word in words:
        if not word.startswith("-") and "=" not in word:
            return word
        if word.startswith("-S") and len(word) > 2:
            return word[2:]
    return None


def _editable_projects(prefix: str) -> Iterator[str]:
    """Yield the directories outside of a virtual environment that its packages are loaded from."""
    lib = os.path.join(prefix, "lib")
    with suppress(OSError):
        for version in os.listdir(lib):
            packages = os.path.join(lib, version, "site-packages")
            for name in os.listdir(packages) if os.path.isdir(packages) else ():
                if name.endswith(".pth"):
                    lines = _read(os.path.join(packages, name)).splitlines()
                    yield from (os.path.normpath(line) for line in lines if line.startswith("/"))
                elif name.endswith(".dist-info"):
                    yield from _editable_project(os.path.join(packages, name, "direct_url.json"))


def _editable_project(record: str) -> Iterator[str]:
    with suppress(ValueError, AttributeError):
        content = json.loads(_read(record) or "{}")
        url = urlsplit(content.get("url", ""))
        if content.get("dir_info", {}).get("editable") and url.scheme == "file":
            yield os.path.normpath(unquote(url.path))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _is_system(path: str) -> bool:
    roots = (*SYSTEM, "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
    return any(path == root or path.startswith(f"{root}/") for root in roots)
