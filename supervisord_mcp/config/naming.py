"""A good name for a server, taken from the command that runs it."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Sequence

#: Room for the suffix that tells servers of the same name apart; the limit of a name is 64.
LONGEST_NAME = 56

_NODE_RUNNERS = frozenset({"npx", "pnpx", "bunx"})
_PYTHON_RUNNERS = frozenset({"uvx", "pipx"})
_INTERPRETERS = frozenset(
    {"node", "nodejs", "deno", "bun", "tsx", "ts-node", "ruby", "perl", "php", "java", "dotnet", "go"}
)
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish"})
_PYTHON = re.compile(r"(python|pypy)[0-9.]*")

#: The words of a runner that come before what it runs: npm exec, uv tool run, pipx run, deno run, go run.
_SUBCOMMANDS = frozenset({"exec", "x", "dlx", "tool", "run", "start", "create"})
#: Options of the runners that take the next word as their value.
_WITH_VALUE = frozenset((
    "--package", "-p", "--call", "-c", "--registry", "--cache", "--userconfig", "--prefix", "--workspace", "-w",
    "--from", "--with", "--with-editable", "--with-requirements", "--python", "--index", "--index-url", "-i",
    "--extra-index-url", "--default-index", "--find-links", "-f", "--spec", "--directory", "--project", "--env-file",
    "--group", "--extra", "--refresh-package", "-W", "-X", "-r", "--require", "--import", "--loader", "-C", "--cwd",
    "--config", "--pip-args",
))  # fmt: skip
#: Options whose value says better than anything else what runs.
_NAMING = frozenset({"-m", "-jar"})
_PACKAGE = frozenset({"-p", "--package"})
_FOLDER = frozenset({"--directory", "--project", "-C", "--cwd"})
#: Options of `docker run` that take no value; every other one does.
_CONTAINER_FLAGS = frozenset((
    "--detach", "--init", "--interactive", "--tty", "--rm", "--privileged", "--read-only", "--publish-all",
    "--no-healthcheck", "--quiet", "--oom-kill-disable", "--sig-proxy", "--disable-content-trust", "--no-hosts",
    "--replace", "--tls-verify",
))  # fmt: skip
_CONTAINER_LETTERS = "itdqP"

#: What a file or a package is called when its folder or its scope says more.
_EMPTY_WORDS = frozenset((
    "server", "servers", "main", "index", "app", "run", "start", "cli", "mcp", "mcp-server", "server-mcp", "dist",
    "build", "src", "bin", "lib", "out", "__main__", "stdio", "node_modules", "cmd", "target", "release", "debug",
    "scripts", "latest",
))  # fmt: skip
_EXTENSION = re.compile(
    r"\.(py|pyz|js|mjs|cjs|ts|mts|cts|jsx|tsx|sh|exe|jar|rb|pl|php|go|bin|git|dll|cmd|bat)$", re.IGNORECASE
)
_AFFIXES = re.compile(r"^(mcp-server|server|mcp)-|-(mcp-server|server-mcp|mcp|server)$")


def wrapped_name(command: str | Sequence[str]) -> str:
    """Return a name for the server of a command: for "npx -y @modelcontextprotocol/server-git@1.2" it is "git"."""
    words = _split(command) if isinstance(command, str) else list(command)
    for candidate in _candidates(words):
        if name := _clean(candidate):
            return name
    return "server"


def _candidates(words: list[str]) -> list[str]:
    """Return what the name may be made of, the best first."""
    words = _without_environment(words)
    if not words:
        return []
    program = _EXTENSION.sub("", posixpath.basename(words[0].replace("\\", "/")))
    arguments = words[1:]
    if program in _CONTAINERS:
        found = _image(arguments)
    elif program in _SHELLS:
        found = _shell(arguments)
    elif program in _NODE_RUNNERS | _PYTHON_RUNNERS | _INTERPRETERS | {
        "npm",
        "pnpm",
        "yarn",
        "uv",
    } or _PYTHON.fullmatch(program):
        found = _runner(arguments, packages=program in _NODE_RUNNERS | {"npm", "pnpm", "yarn"})
    else:
        found = _parts(words[0])
    return [*found, program]


def _without_environment(words: list[str]) -> list[str]:
    if words and posixpath.basename(words[0]) == "env":
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    return words


def _runner(arguments: list[str], *, packages: bool) -> list[str]:
    """Given the words after a runner or an interpreter, return the parts of the package, module or file that runs."""
    folder = ""
    queue = list(arguments)
    while queue:
        word = queue.pop(0)
        option, has_value, value = word.partition("=")
        if word == "--" or word in _SUBCOMMANDS:
            continue
        if not word.startswith("-"):
            return [*_parts(word), *_parts(folder)]
        if not has_value and option in _WITH_VALUE | _NAMING and queue:
            value = queue.pop(0)
        if option in _NAMING:
            return list(reversed(value.split("."))) if option == "-m" else _parts(value)
        if option in _PACKAGE and packages:
            return _parts(value)
        if option in _FOLDER:
            folder = value
        elif option in ("-c", "--call", "-e", "--eval"):
            return _candidates(_split(value)) if packages else []
    return _parts(folder)


def _image(arguments: list[str]) -> list[str]:
    """Given the words after ``docker``, return the parts of the name of the image."""
    queue = list(arguments)
    while queue and queue[0] not in ("run", "exec", "start"):
        queue.pop(0)
    queue = queue[1:]
    while queue:
        word = queue.pop(0)
        if not word.startswith("-") or word == "-":
            return _parts(re.sub(r"(@sha256:.*|:[^/]*)$", "", word))
        if word.startswith("--"):
            takes = "=" not in word and word not in _CONTAINER_FLAGS
        else:
            # "-it" are two flags, "-ie NAME" takes a value, "-eNAME=x" has it.
            letters = word[1:].lstrip(_CONTAINER_LETTERS)
            takes = len(letters) == 1
        if takes and queue:
            queue.pop(0)
    return []


def _shell(arguments: list[str]) -> list[str]:
    for number, word in enumerate(arguments):
        if re.fullmatch(r"-[a-z]*c", word):
            script = _split(arguments[number + 1]) if number + 1 < len(arguments) else []
            while script and script[0] in ("exec", "cd", "&&", ";"):
                script = script[2:] if script[0] == "cd" else script[1:]
            return _candidates(script)
        if not word.startswith("-"):
            return _parts(word)
    return []


def _parts(text: str) -> list[str]:
    """Given a package, path, image or address, return its parts from the last to the first, without versions."""
    text = re.sub(r"^(git\+)?[a-z]+://[^/]+/|^(npm|jsr|github|gitlab|file|git\+ssh):", "", text.replace("\\", "/"))
    text = re.sub(r"[?#].*$|\[.*$|[=<>~!;].*$", "", text)
    parts = [part for part in text.split("/") if part not in ("", ".", "..")]
    return [part.removeprefix("@").partition("@")[0] for part in reversed(parts)]


def _clean(text: str) -> str:
    """Return a part as a name; empty where it says nothing."""
    name = _EXTENSION.sub("", text).lower().replace("_", "-")
    name = re.sub(r"[^a-z0-9.-]+", "-", name).strip("-.")
    while (shorter := _AFFIXES.sub("", name)) != name and shorter not in _EMPTY_WORDS:
        name = shorter
    return "" if name in _EMPTY_WORDS else name[:LONGEST_NAME].strip("-.")


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
