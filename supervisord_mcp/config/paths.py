"""Where the program keeps its files, and the directories made safe before anything is put into them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisord_mcp.errors import SmcpError
from supervisord_mcp.shim import home_directory, runtime_directory, state_directory


@dataclass(frozen=True, slots=True)
class Paths:
    """The four directories of one daemon, and the files in them."""

    config_dir: Path
    state_dir: Path
    runtime_dir: Path
    cache_dir: Path

    @property
    def config_file(self) -> Path:
        """The file that a person edits."""
        return self.config_dir / "config.toml"

    @property
    def private_dir(self) -> Path:
        """The private places of running servers that have no mount namespace."""
        return self.cache_dir / "private"

    @property
    def conf_dir(self) -> Path:
        """More configuration files, read in the order of their names."""
        return self.config_dir / "conf.d"

    @property
    def wrapped_file(self) -> Path:
        """The servers that ``smcp wrap`` registered."""
        return self.conf_dir / "wrapped.toml"

    @property
    def profiles_dir(self) -> Path:
        """The profiles of the person, preferred to the shipped ones."""
        return self.config_dir / "profiles"

    @property
    def edit_lock(self) -> Path:
        """Held while a program edits the configuration."""
        return self.state_dir / "edit.lock"

    @property
    def log_dir(self) -> Path:
        """What servers and the daemon write to stderr."""
        return self.state_dir / "logs"

    @property
    def audit_file(self) -> Path:
        """The record of calls."""
        return self.state_dir / "audit" / "audit.jsonl"

    @property
    def placeholders_file(self) -> Path:
        """What stands in directories of the person while servers run, to be removed again."""
        return self.state_dir / "placeholders"

    @property
    def verdicts_file(self) -> Path:
        """Which eras of the protocol servers speak."""
        return self.state_dir / "eras.json"

    @property
    def stopped_file(self) -> Path:
        """Which servers a person stopped."""
        return self.state_dir / "stopped.json"

    @property
    def counts_file(self) -> Path:
        """What was counted of servers and their calls."""
        return self.state_dir / "counts.json"

    @property
    def history_file(self) -> Path:
        """What servers used over time."""
        return self.state_dir / "history.bin"

    @property
    def images_file(self) -> Path:
        """Which image each name of one stood for when it was first used."""
        return self.state_dir / "images.json"

    @property
    def images_lock(self) -> Path:
        """Held while the record of images is changed."""
        return self.state_dir / "images.lock"

    @property
    def volumes_file(self) -> Path:
        """The volumes of container engines that hold installed packages."""
        return self.state_dir / "volumes.json"

    @property
    def trust_file(self) -> Path:
        """Which project files are trusted."""
        return self.state_dir / "trusted.json"

    @property
    def adoption_dir(self) -> Path:
        """What is kept of the files of hosts that were adopted."""
        return self.state_dir / "hosts"

    @property
    def vault_file(self) -> Path:
        """The secrets of the person, encrypted."""
        return self.state_dir / "vault.json"

    @property
    def vault_lock(self) -> Path:
        """Held while a program changes the vault."""
        return self.state_dir / "vault.lock"

    @property
    def secret_use_file(self) -> Path:
        """When each secret was last given to a server."""
        return self.state_dir / "secret-use.json"

    @property
    def delivery_dir(self) -> Path:
        """Files with secrets of running servers that have no mount namespace, where this is a tmpfs."""
        return self.runtime_dir / "secrets"

    @property
    def catalogue_dir(self) -> Path:
        """What servers offered when they last ran."""
        return self.state_dir / "catalogue"

    @property
    def sessions_dir(self) -> Path:
        """Records by which a session survives the daemon."""
        return self.runtime_dir / "sessions"

    @property
    def socket(self) -> Path:
        """Where the daemon listens."""
        return self.runtime_dir / "daemon.sock"

    @property
    def lock(self) -> Path:
        """Held by the daemon for its life; the only proof that it owns the socket."""
        return self.runtime_dir / "daemon.lock"


def find_paths(environ: Mapping[str, str], uid: int) -> Paths:
    """Given an environment and a user, return the paths: below ``SMCP_HOME`` where it is set, else those of XDG."""
    # The shim knows these without us and without any import; both must come to the same directories.
    state_dir, runtime_dir = Path(state_directory(environ, uid)), Path(runtime_directory(environ, uid))
    if own := environ.get("SMCP_HOME"):
        home = Path(os.path.abspath(own))
        return Paths(home / "config", state_dir, runtime_dir, home / "cache")
    home = Path(home_directory(environ, uid))
    config_dir = _base(environ, "XDG_CONFIG_HOME", home / ".config")
    return Paths(config_dir, state_dir, runtime_dir, _base(environ, "XDG_CACHE_HOME", home / ".cache"))


def data_directory(environ: Mapping[str, str], uid: int) -> Path:
    """Return where servers may keep what they have no other place for; the program itself keeps nothing there."""
    if own := environ.get("SMCP_HOME"):
        return Path(os.path.abspath(own)) / "data"
    return _base(environ, "XDG_DATA_HOME", Path(home_directory(environ, uid)) / ".local/share")


def create_directories(paths: Paths, uid: int) -> None:
    """Create the directories for state, cache, sockets and session records, for the user alone.

    Raise `SmcpError` if the runtime directory cannot be trusted: the sockets in it give access to every server.
    """
    create_directory(paths.runtime_dir)
    _secure(paths.runtime_dir, uid)
    for directory in (paths.sessions_dir, paths.state_dir, paths.log_dir, paths.catalogue_dir, paths.cache_dir):
        create_directory(directory)
        _check_owner(directory, directory.stat(), uid)


def _base(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    # The XDG specification wants a relative path ignored.
    value = environ.get(variable, "")
    return (Path(value) if os.path.isabs(value) else default) / "smcp"


def create_directory(directory: Path) -> None:
    """Create a directory, and what is missing above it, for the user alone. Raise `SmcpError` if that cannot be."""
    try:
        # Not mkdir(parents=True): that gives missing parents the mode of the umask.
        for place in reversed((directory, *directory.parents)):
            if not os.path.lexists(place):
                place.mkdir(mode=0o700, exist_ok=True)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "not a directory")
    except OSError as error:
        raise SmcpError(
            f"cannot create the directory {directory}: {error.strerror}",
            remedy="make its parent writable, or set SMCP_HOME to a directory of your own",
        ) from error


def _secure(directory: Path, uid: int) -> None:
    try:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        what = "is a symbolic link" if directory.is_symlink() else f"cannot be opened: {error.strerror}"
        raise SmcpError(
            f"the runtime directory {directory} {what}", remedy="remove it; smcp creates it again"
        ) from error
    try:
        status = os.fstat(fd)
        _check_owner(directory, status, uid)
        if status.st_mode & 0o022:
            raise SmcpError(
                f"the runtime directory {directory} can be written by others (mode {stat.S_IMODE(status.st_mode):04o})",
                remedy=f"look at what is in it, then: chmod 700 {directory}",
            )
        parent = os.stat(directory.parent)
        if parent.st_mode & stat.S_IWOTH and not parent.st_mode & stat.S_ISVTX:
            raise SmcpError(
                f"anybody can replace the runtime directory {directory}: all may write its parent, which is not sticky",
                remedy=f"chmod +t {directory.parent}, or set SMCP_HOME to a directory of your own",
            )
        if status.st_mode & 0o077:
            os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def _check_owner(directory: Path, status: os.stat_result, uid: int) -> None:
    if status.st_uid != uid:
        raise SmcpError(
            f"the directory {directory} belongs to user {status.st_uid}, not to {uid}",
            remedy="set SMCP_HOME to a directory of your own; under sudo, use sudo -H and unset the XDG variables",
        )
