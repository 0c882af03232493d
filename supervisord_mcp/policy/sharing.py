"""Who shares a child with whom: scopes, and the instance key that decides it.

Two hosts share a child only if nothing that the child was started with could tell them apart. So the key of an
instance holds the digest of everything that was resolved for it (`Resolved`), and, as the scope says, the project or
the session. Mounts and variables are resolved before they get here: two hosts with different values for a variable get
two instances without any further rule.

A server that uses the project must not be shared between projects: it would read and write the files of one while it
answers the other, without any sign. ``auto`` therefore means ``project`` for such a server, and ``global`` for it is
refused. Where use cannot be seen for sure, `uses_project` says yes, for one process too many does no harm.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from supervisord_mcp.errors import SmcpError

#: Who shares an instance.
Scope: TypeAlias = Literal["global", "project", "session"]
#: What a configuration may say about it.
ConfiguredScope: TypeAlias = Literal["auto", "global", "project", "session"]

# "$$" is a literal dollar, so it is matched first: "$${project}" does not use the project.
_PROJECT = re.compile(r"\$\$|(\$\{project(?::-|\}))")
_RELATIVE = re.compile(r"(?:[^/\s]*=)?\.{1,2}(?:/|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What a child is started with, after every variable was expanded; equal values may share a child.

    ``network`` is a word, or rules in the order in which they are tried. ``mounts`` are (path, target, access) in the
    order they are made, since a later one can hide an earlier one. ``seccomp`` are the words of the policy for system
    calls, ``profile`` is the name of the rules that the rest comes from.
    ``container`` are the image, the engine and what else is said of a container; empty where there is none.
    ``credentials`` are (variable, where its secret is, how it is delivered): never the secret.
    ``capabilities`` is the normalized profile of what hosts declared, empty while callbacks are off.
    """

    argv: tuple[str, ...]
    cwd: str | None
    env: tuple[tuple[str, str], ...] = field(repr=False)
    runtime: str
    network: str | tuple[str, ...]
    mounts: tuple[tuple[str, str, str], ...]
    limits: tuple[tuple[str, float | None], ...] = ()
    profile: str = ""
    seccomp: tuple[str, ...] = ()
    credentials: tuple[tuple[str, str, str], ...] = ()
    container: tuple[str, ...] = ()
    era: str = "legacy"
    capabilities: str = ""


@dataclass(frozen=True, slots=True)
class InstanceKey:
    """The name of one instance: sessions with equal keys share it."""

    server: str
    digest: str
    project: str | None = None
    session: str | None = None

    def __str__(self) -> str:
        project = "" if self.project is None else f" for {self.project}"
        session = "" if self.session is None else f" in session {self.session}"
        return f"{self.server}-{self.digest}{project}{session}"


def uses_project(command: Sequence[str], values: Iterable[str] = (), paths: Iterable[str] = ()) -> bool:
    """Given the raw texts of an entry, return whether they depend on the project.

    ``command`` is the command with its arguments, ``values`` are those of its environment, ``paths`` the working
    directory and the mounts. ``${project}`` counts anywhere. A relative path counts where it is certain to be one: as a
    path, as the command (a plain name is searched for instead), and in a word that starts, or goes on after ``=``,
    with ``./`` or ``../``; other words with a slash are as often the name of a package or an image.
    """
    paths = tuple(paths)
    words = (*command, *values)
    return (
        any(_names_project(text) for text in (*words, *paths))
        or any(_RELATIVE.match(word) for word in words)
        or any(_is_relative(word) for word in command[:1] if "/" in word)
        or any(_is_relative(path) for path in paths)
    )


def _names_project(text: str) -> bool:
    return any(match[1] for match in _PROJECT.finditer(text))


def _is_relative(path: str) -> bool:
    # A path that begins with another variable is taken to be absolute; expansion shows it if not.
    return not path.startswith(("/", "~", "${"))


def scope_problem(configured: ConfiguredScope, uses_project: bool) -> str:
    """Return what is wrong with a configured scope, for a person; empty if nothing is."""
    if configured == "global" and uses_project:
        return 'scope "global" is not possible for a server that uses the project (${project} or a relative path)'
    return ""


def effective_scope(configured: ConfiguredScope, uses_project: bool) -> Scope:
    """Return the scope in force. Raise `SmcpError` for a global server that uses the project."""
    if problem := scope_problem(configured, uses_project):
        raise SmcpError(problem, remedy='Use scope = "project" or "auto", or absolute paths.')
    if configured == "auto":
        return "project" if uses_project else "global"
    return configured


def digest(resolved: Resolved) -> str:
    """Return 16 hexadecimal digits that stand for the value: equal for equal ones, different for different ones.

    The order of the environment does not count, every other order does.
    """
    # Lists in JSON have one reading only; "surrogatepass", because names that are not UTF-8 arrive as surrogates.
    document: list[object] = [
        list(resolved.argv),
        resolved.cwd,
        sorted(map(list, resolved.env)),
        resolved.runtime,
        resolved.network if isinstance(resolved.network, str) else list(resolved.network),
        list(map(list, resolved.mounts)),
        resolved.era,
        resolved.capabilities,
        list(map(list, resolved.limits)),
        resolved.profile,
        list(resolved.seccomp),
    ]
    if resolved.credentials:
        document.append(sorted(map(list, resolved.credentials)))
    if resolved.container:
        document.append({"container": list(resolved.container)})
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def instance_key(server: str, digest: str, scope: Scope, *, project: str | None, session: str) -> InstanceKey:
    """Return the key under which a session finds its instance. Raise `SmcpError` if a needed project is not known."""
    if scope == "global":
        return InstanceKey(server, digest)
    if scope == "session":
        return InstanceKey(server, digest, project, session)
    if project is None:
        raise SmcpError(
            f'server "{server}" works on a project, and the project of this session is not known',
            remedy="Start the host inside a project, or give the shim --project DIRECTORY.",
        )
    return InstanceKey(server, digest, project)
