"""What a command of ``docker run`` opens: options with which a container is none any more, or cannot speak MCP.

Such commands are taken over from hosts as they are. What a person should know of is refused until the entry names it.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Programs that hand their server to an engine, which cannot be reached from a sandbox.
ENGINES = frozenset({"docker", "podman", "nerdctl"})
#: Sockets of engines: who reaches one is root on the machine, or at least its owner.
_SOCKETS = ("docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock")
#: Options of ``run`` without a value; all others have one, in the same word or the next.
_FLAGS = frozenset(
    {
        *("--detach", "--disable-content-trust", "--help", "--init", "--interactive", "--no-healthcheck", "--no-hosts"),
        *("--oom-kill-disable", "--privileged", "--publish-all", "--quiet", "--read-only", "--replace", "--rm"),
        *("--rmi", "--sig-proxy", "--tls-verify", "--tty", "--use-api-socket"),
    }
)
_LETTERS = {"t": "--tty", "d": "--detach", "i": "--interactive", "q": "--quiet", "P": "--publish-all"}
_LONG = {"v": "--volume", "e": "--env", "p": "--publish", "u": "--user", "w": "--workdir", "m": "--memory"}
#: Options of the program itself that have a value, before ``run``.
_GLOBAL = frozenset(
    {
        *("--config", "--connection", "--context", "--host", "--identity", "--log-level", "--root", "--runroot"),
        *("--storage-driver", "--storage-opt", "--tlscacert", "--tlscert", "--tlskey", "--url", "-H", "-c", "-l"),
    }
)
_TTY = "a terminal turns the ends of lines into others and mixes stderr into stdout, and MCP breaks"
_DETACH = "a container in the background has no stdin and stdout for MCP"
_CAPABILITY = re.compile(r"(?:CAP_)?([A-Z0-9_]+)")


@dataclass(frozen=True, slots=True)
class Opening:
    """What an option opens: the word with which an entry permits it, the option as it is written, and the reason."""

    permit: str
    option: str
    reason: str


def is_engine_socket(path: str) -> bool:
    """Return whether a path is that of the socket of a container engine, by its name."""
    return posixpath.basename(posixpath.normpath(path)) in _SOCKETS


def openings(argv: Sequence[str]) -> Iterator[Opening]:
    """Given a command, yield what a container that it runs has and should not have."""
    for option, value in _options(argv):
        shown = option if value is None else f"{option} {value}"
        for permit, reason in _judged(option, value):
            yield Opening(permit, shown, reason)


def _judged(option: str, value: str | None) -> Iterator[tuple[str, str]]:
    word = value or ""
    match option:
        case "--tty" if word != "false":
            yield "tty", _TTY
        case "--detach" if word != "false":
            yield "detach", _DETACH
        case "--privileged" if word != "false":
            yield "privileged", "it is no container any more: it has every right of root on the machine"
        case "--network" | "--net" if word == "host":
            yield "host-network", "it has the network of the machine, and every service on it"
        case "--pid" | "--ipc" | "--uts" | "--userns" | "--cgroupns" if word == "host":
            yield "host-namespace", "it sees, and can disturb, what runs beside it on the machine"
        case "--cap-add":
            name = _CAPABILITY.fullmatch(word.upper())
            yield f"cap:{name[1] if name else word}", "no server needs rights of root by itself"
        case "--security-opt" if "unconfined" in word or word.endswith(("=disable", ":disable", "privileges=false")):
            yield "unconfined", "it switches off what holds the container"
        case "--device":
            yield "device", "it has a device of the machine"
        case "--use-api-socket":
            yield "engine-socket", "who reaches the engine has the machine"
        case "--volume" if is_engine_socket(word.partition(":")[0]):
            yield "engine-socket", "who reaches the engine has the machine"
        case "--mount" if any(is_engine_socket(part.partition("=")[2]) for part in word.split(",")):
            yield "engine-socket", "who reaches the engine has the machine"


def _options(argv: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """Yield the options of ``run`` by their long names, each with its value; nothing for another command."""
    words = list(argv)
    if words and posixpath.basename(words[0]) == "env":
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words.pop(0)
    if not words or posixpath.basename(words.pop(0)) not in ENGINES:
        return
    while words and words[0].startswith("-"):
        if words.pop(0) in _GLOBAL and words:
            words.pop(0)
    if words[:1] == ["container"]:
        words.pop(0)
    if not words or words.pop(0) not in ("run", "create"):
        return
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        yield from _option(words)


def _option(words: list[str]) -> Iterator[tuple[str, str | None]]:
    """Take one word with options off a command, and the next one where it is the value, and yield what they are."""
    word = words.pop(0)
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals:
            yield name, value
        else:
            yield name, None if name in _FLAGS or not words else words.pop(0)
        return
    letters = word[1:]
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter in _LETTERS:
            value = ""
            if letters.startswith("="):
                value, letters = letters[1:], ""
            yield _LETTERS[letter], value or None
            continue
        # The rest of the word is its value, or the next word.
        yield _LONG.get(letter, f"-{letter}"), letters.removeprefix("=") or (words.pop(0) if words else "")
        return
