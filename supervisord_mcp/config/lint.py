"""What no profile may mount unless it says that it is dangerous, and why.

A profile is written once and used by many entries, often by people who never read it. So it must not show what leads
out of the sandbox (sockets of services, the files of the kernel), what opens other doors (keys and passwords), or what
is run later without a sandbox. An entry is not judged: it belongs to the person, and names its mounts where they count.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from supervisord_mcp.config.models import Mount
from supervisord_mcp.config.profile import Profile
from supervisord_mcp.config.source import KeyPath
from supervisord_mcp.config.variables import HOME, PROJECT, Variables, expand, names

#: Stands for the project of a session, which is not known here.
_SOME_PROJECT = "/.project"
_MACHINE = {
    "/proc": "files of the kernel",
    "/sys": "files of the kernel",
    "/dev": "devices of the machine",
    "/run": "sockets of the machine's services and of your session",
    "/var/run": "sockets of the machine's services and of your session",
}
_SECRETS = (
    *("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/krb5.keytab", "/etc/pki/tls/private", "/etc/NetworkManager", "/etc/wireguard", "/var/lib/docker"),
)
#: Below the home directory.
_OWN_SECRETS = (
    *(".ssh", ".gnupg", ".password-store", ".local/share/keyrings", ".local/share/kwalletd", ".config/op"),
    *(".aws", ".azure", ".config/gcloud", ".kube", ".docker", ".config/containers", ".vault-token", ".terraform.d"),
    *(".netrc", ".git-credentials", ".config/git/credentials", ".config/gh", ".config/glab-cli", ".config/hub"),
    *(".npmrc", ".pypirc", ".config/pip", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".m2/settings.xml", ".gradle/gradle.properties", ".pgpass", ".my.cnf", ".mylogin.cnf", ".config/rclone"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware", ".thunderbird"),
    *(".bash_history", ".zsh_history", ".python_history", ".claude", ".codex", ".cursor", ".config/smcp"),
    *(".local/state/smcp", ".cache/smcp"),
)
#: Below the home directory: what is run, or decides what is run, when its owner logs in or works.
_OWN_STARTERS = (
    *(".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zshenv", ".zprofile"),
    *(".zlogin", ".config/fish", ".config/autostart", ".config/systemd", ".local/share/systemd", ".xprofile"),
    *(".local/bin", "bin", ".gitconfig", ".config/git", ".vimrc", ".config/nvim", ".vscode", ".config/Code"),
)


@dataclass(frozen=True, slots=True)
class _Place:
    path: str
    holds: str


def risks(profile: Profile, home: str) -> Iterator[tuple[KeyPath, str]]:
    """Given what a profile comes to and a home directory, yield every key that is dangerous, and why."""
    if profile.runtime == "bare":
        yield ("runtime",), '"bare" gives a server everything that you may do yourself'
    if profile.network == "host" and profile.seccomp.unix:
        yield ("network",), '"host" with unix sockets reaches the abstract sockets of your session'
    for number, mount in enumerate(profile.mounts):
        if risk := risk_of(mount, home):
            yield ("mounts", number, "path"), risk


def risk_of(mount: Mount, home: str) -> str:
    """Return why a mount is dangerous, for a person; empty where it is not."""
    if unknown := sorted(names(mount.path) - {HOME, PROJECT}):
        return f"{mount.path} leads to wherever ${{{unknown[0]}}} says"
    path = expand(mount.path, Variables({}, _SOME_PROJECT, home)).text
    path = posixpath.normpath(path if path.startswith("/") else f"{_SOME_PROJECT}/{path}")
    # POSIX lets two leading slashes mean something else; Linux does not.
    path = "/" + path.lstrip("/")
    if _is_inside(path, _SOME_PROJECT):
        return ""
    if PROJECT in names(mount.path) or not mount.path.startswith(("/", "~", "$")):
        return f"{mount.path} leads out of the project"
    for place in dict.fromkeys((path, os.path.realpath(path))):
        if risk := _risk_of(place, mount, home):
            return f"{mount.path} {risk}" if place == path else f"{mount.path} leads to {place}, which {risk}"
    return ""


def _risk_of(path: str, mount: Mount, home: str) -> str:
    if path == "/":
        return "is the whole machine"
    if _is_inside(home, path):
        return "holds your home directory" if path != home else "is your home directory"
    if _is_socket(path):
        return "is a socket: whoever listens there works for the server, outside of the sandbox"
    for place in _places(home, writable=mount.access == "rw"):
        if _is_inside(path, place.path):
            return f"has {place.holds}"
        if _is_inside(place.path, path):
            return f"has {place.holds} ({place.path})"
    return ""


def _places(home: str, *, writable: bool) -> Iterator[_Place]:
    yield from (_Place(path, holds) for path, holds in _MACHINE.items())
    yield from (_Place(path, "secrets of the machine") for path in _SECRETS)
    yield from (_Place(posixpath.join(home, path), "keys, passwords or private data") for path in _OWN_SECRETS)
    if writable:
        yield from (_Place(posixpath.join(home, path), "what runs as you, without a sandbox") for path in _OWN_STARTERS)


def _is_socket(path: str) -> bool:
    if path.endswith((".sock", ".socket")):
        return True
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")
