"""What a sandbox of bubblewrap is made of: the steps that build it, from a `LaunchSpec` and the facts of the machine.

The root is empty; only what is listed here or in the spec is visible. Later steps shadow earlier ones, so parents come
before children. A mount point is never made inside a bound directory: it must be there already, and no symbolic link
may be on the way to it, for bubblewrap before 0.12 would follow the link to the machine's own files (CVE-2026-87766).
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from supervisord_mcp.egress.rules import Egress
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.base import Access, LaunchSpec, Network
from supervisord_mcp.runtimes.egress.plan import hosts_file, resolver_file
from supervisord_mcp.runtimes.limits import Limits

#: The private home directory in a sandbox; its user and group are one name, whoever runs the daemon.
HOME = "/home/mcp"
USER = "mcp"
#: Where files with secrets are in a sandbox: a tmpfs of their own.
SECRETS = "/run/smcp"
_ID = "1000"

_MIB = 1 << 20
_PAGE = 4096
_TMPFS = ("/dev/shm", "/tmp", "/run", HOME)

_SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
#: Read-only parts of the system that are visible in every sandbox, beside what `_SYSTEM_LINKS` names.
SYSTEM = ("/usr", "/nix/store", "/gnu/store")
_ETC = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    # Certificates, but not the private keys beside them, which are the group's of some machines.
    *(
        "/etc/ssl/certs",
        "/etc/ssl/cert.pem",
        "/etc/ssl/openssl.cnf",
        "/etc/ca-certificates",
        "/etc/ca-certificates.conf",
    ),
    *("/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust"),
    "/etc/crypto-policies",
    *("/etc/mime.types", "/etc/services", "/etc/protocols", "/etc/gai.conf", "/etc/host.conf"),
    *("/etc/timezone", "/etc/os-release", "/etc/fonts", "/etc/java"),
)
_ETC_PATTERNS = ("/etc/java-*-openjdk",)

_PASSWD = (
    "root:x:0:0:root:/root:/bin/false\n"
    f"{USER}:x:{_ID}:{_ID}:{USER}:{HOME}:/bin/sh\n"
    "nobody:x:65534:65534:nobody:/:/bin/false\n"
)
_GROUP = f"root:x:0:\n{USER}:x:{_ID}:\nnogroup:x:65534:\n"
_HOSTS = "127.0.0.1 localhost mcp\n::1 localhost mcp\n"
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"


@dataclass(frozen=True, slots=True)
class Features:
    """What the installed bubblewrap can do beyond the least that is needed."""

    disable_userns: bool
    size: bool
    bind_fd: bool = False


@dataclass(frozen=True, slots=True)
class Data:
    """A file that exists only in the sandbox."""

    path: str
    text: str = field(repr=False)
    mode: str = "0444"


@dataclass(frozen=True, slots=True)
class Bound:
    """Something of the machine at a place in the sandbox. ``granted`` is what the configuration names itself.

    ``pinned`` says that it is a mount of its own even where a parent shows the same.
    """

    source: str
    target: str
    access: Access | Literal["link"]
    granted: bool = False
    pinned: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """The words that make bubblewrap show it, by its path."""
        match self.access:
            case "link":
                return ("--symlink", os.readlink(self.source), self.target)
            case "rw":
                return ("--bind", self.source, self.target)
            case "ro":
                return ("--ro-bind", self.source, self.target)


#: Arguments of bubblewrap that belong together, a file whose content travels through a descriptor, or what is bound.
Step = tuple[str, ...] | Data | Bound


def steps(spec: LaunchSpec, features: Features, *, as_root: bool) -> list[Step]:
    """Given what is launched, return the steps that build its sandbox, in order.

    Raise `LaunchError` for a mount or a working directory that cannot be had.
    """
    binds = _arranged(spec)
    cwd = spec.cwd or HOME
    _check_directory(cwd, binds)
    built: list[Step] = [*_namespaces(features, spec), *_system(), *_etc(spec.network), ("--proc", "/proc")]
    if as_root:
        # Root owns these files, and one of them names a program that the machine runs. No sandbox is root, and to one
        # that were, bubblewrap would leave them writable.
        built.append(("--ro-bind", "/proc/sys", "/proc/sys"))
    built.append(("--dev", "/dev"))
    built += _places(spec.limits, features)
    built += _secrets(spec, features)
    built += [bind.words if bind.access == "link" else bind for bind in binds]
    # Not before: it would keep mount points from being made.
    return [*built, ("--remount-ro", "/"), ("--chdir", cwd)]


def _places(limits: Limits, features: Features) -> Iterable[Step]:
    for path, mode, size in (
        ("/dev/shm", "1777", limits.shm),
        ("/tmp", "1777", limits.tmp),
        ("/run", "0755", _MIB),
        (HOME, "0700", limits.home),
    ):
        # A size of 0 would be no limit at all: the kernel rounds what is left up to a page.
        sized = ("--size", str(max(1, size))) if features.size and size is not None else ()
        yield ("--perms", mode, *sized, "--tmpfs", path)


def with_secret_variables(spec: LaunchSpec) -> LaunchSpec:
    """Return what is launched, with the variables that say where its secrets are in the sandbox."""
    paths = tuple((variable, f"{SECRETS}/{variable}") for variable, _ in spec.secrets.values)
    return replace(spec, env=(*spec.env, *paths)) if paths else spec


def _secrets(spec: LaunchSpec, features: Features) -> Iterable[Step]:
    if not spec.secrets.values:
        return
    needed = sum(len(value.encode()) + _PAGE for _, value in spec.secrets.values)
    sized = ("--size", str(needed + _MIB)) if features.size else ()
    yield ("--perms", "0700", *sized, "--tmpfs", SECRETS)
    for variable, value in spec.secrets.values:
        yield Data(f"{SECRETS}/{variable}", value, "0600")
    yield ("--remount-ro", SECRETS)


def _namespaces(features: Features, spec: LaunchSpec) -> Iterable[Step]:
    yield from (
        ("--unshare-user",),
        ("--unshare-pid",),
        ("--unshare-ipc",),
        ("--unshare-uts",),
        ("--unshare-cgroup-try",),
    )
    if spec.network != "host":
        yield ("--unshare-net",)
    if features.disable_userns and not spec.seccomp.userns:
        yield ("--disable-userns",)
    yield from (("--die-with-parent",), ("--new-session",), ("--hostname", "mcp"), ("--cap-drop", "ALL"))
    yield from (("--uid", _ID), ("--gid", _ID))


def _system() -> Iterable[Step]:
    for path in SYSTEM:
        if os.path.isdir(path):
            yield ("--ro-bind", path, path)
    for path in _SYSTEM_LINKS:
        if os.path.islink(path):
            yield ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield ("--ro-bind", path, path)


def _etc(network: Network | Egress) -> Iterable[Step]:
    yield from (("--perms", "0755", "--dir", "/etc"), ("--perms", "0755", "--dir", "/home"))
    for path in _etc_paths():
        yield ("--ro-bind", path, path)
    if os.path.islink("/etc/localtime"):
        # Programs read the name of the zone from the link; a bound file would have none.
        yield ("--symlink", os.readlink("/etc/localtime"), "/etc/localtime")
    elif os.path.exists("/etc/localtime"):
        yield ("--ro-bind", "/etc/localtime", "/etc/localtime")
    yield from (Data("/etc/passwd", _PASSWD), Data("/etc/group", _GROUP), Data("/etc/nsswitch.conf", _NSSWITCH))
    if network == "host":
        for path in ("/etc/hosts", "/etc/resolv.conf"):
            if os.path.exists(path):
                yield ("--ro-bind", path, path)
    elif isinstance(network, Egress):
        yield from (Data("/etc/hosts", hosts_file(network, _HOSTS)), Data("/etc/resolv.conf", resolver_file()))
    else:
        yield Data("/etc/hosts", _HOSTS)


def _etc_paths() -> list[str]:
    matching = (found for pattern in _ETC_PATTERNS for found in sorted(glob.glob(pattern)))
    return [path for path in (*_ETC, *matching) if os.path.exists(path)]


def visible_paths() -> list[str]:
    """Return what every server may read of the system."""
    return [*(path for path in (*SYSTEM, *_SYSTEM_LINKS) if os.path.isdir(path)), *_etc_paths()]


def shown_paths(spec: LaunchSpec) -> tuple[str, ...]:
    """Return every path of the machine that a server may read, or more."""
    return (*visible_paths(), *spec.read_only, *(mount.target or mount.path for mount in spec.mounts))


def _visible() -> list[Bound]:
    return [Bound(path, path, "ro") for path in visible_paths()]


def _arranged(spec: LaunchSpec) -> list[Bound]:
    """Return what is bound, parents first, without what is visible through a parent already."""
    wanted: dict[str, Bound] = {}
    for path in map(_normal, spec.read_only):
        wanted[path] = Bound(path, path, "link" if os.path.islink(path) else "ro")
    # What protects a part of a mount comes first: who grants that part by name means it.
    for mount in sorted(spec.mounts, key=lambda mount: not mount.pinned):
        source, target = _normal(mount.path), _normal(mount.target or mount.path)
        wanted[target] = Bound(source, target, mount.access, granted=True, pinned=mount.pinned)
    system = _visible()
    kept: list[Bound] = []
    for bind in sorted(wanted.values(), key=lambda b: b.target.split("/")):
        _check_bind(bind)
        cover = _cover(bind.target, [*system, *kept])
        if cover is not None:
            if _is_visible(bind, cover):
                continue
            _check_mount_point(bind, cover)
        kept.append(bind)
    return kept


def _is_visible(bind: Bound, cover: Bound) -> bool:
    """Whether a parent shows the same files with the same rights."""
    if bind.pinned:
        return False
    same_place = bind.source == _under(cover.source, cover.target, bind.target)
    return same_place and (not bind.granted or bind.access == cover.access)


def _check_bind(bind: Bound) -> None:
    what = f"mount of {bind.source}" + ("" if bind.source == bind.target else f" at {bind.target}")
    top = "/" + bind.target.split("/")[1]
    if bind.source == "/" or top in ("/", "/proc", "/dev", "/sys"):
        raise LaunchError(
            f"{what}: this would open the sandbox", remedy="Name the directories that are needed.", retryable=False
        )
    if any(_is_inside(path, bind.target) and path != bind.target for path in _TMPFS):
        raise LaunchError(
            f"{what}: it would hide the private home {HOME}", remedy="Name directories below it.", retryable=False
        )
    if bind.access != "link" and not os.path.exists(bind.source):
        raise LaunchError(f"{what}: there is no such file or directory", remedy="Create it.", retryable=False)


def _check_mount_point(bind: Bound, cover: Bound) -> None:
    place = cover.source
    kinds: list[int] = [stat.S_IFDIR]
    for name in os.path.relpath(bind.target, cover.target).split("/"):
        place = os.path.join(place, name)
        try:
            kinds.append(stat.S_IFMT(os.lstat(place).st_mode))
        except OSError as error:
            raise LaunchError(
                f"mount at {bind.target}: {place} does not exist, and nothing is created inside a mount",
                remedy=f"Create {place}.",
                retryable=False,
            ) from error
        if stat.S_ISLNK(kinds[-1]):
            raise LaunchError(
                f"mount at {bind.target}: {place} is a symbolic link inside the mount {cover.target}",
                remedy="Name the place that the link leads to.",
                retryable=False,
            )


def _check_directory(cwd: str, binds: list[Bound]) -> None:
    path = _normal(cwd)
    cover = _cover(path, [*_visible(), *binds])
    if cover is not None and os.path.isdir(_under(cover.source, cover.target, path)):
        return
    if cover is None and (path == "/" or path in _TMPFS or any(_is_inside(bind.target, path) for bind in binds)):
        return
    why = "it is not a directory" if cover is not None else "it is not visible in the sandbox"
    raise LaunchError(
        f"working directory {cwd}: {why}",
        remedy=f'Grant it with mounts = [{{ path = "{cwd}" }}], or name another `cwd`.',
        retryable=False,
    )


def _cover(path: str, binds: Iterable[Bound]) -> Bound | None:
    """Return the innermost bind that a path lies in."""
    around = [bind for bind in binds if _is_inside(path, bind.target) and bind.access != "link"]
    return max(around, key=lambda bind: len(bind.target), default=None)


def _under(source: str, target: str, path: str) -> str:
    return os.path.normpath(os.path.join(source, os.path.relpath(path, target)))


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _normal(path: str) -> str:
    if not path.startswith("/"):
        raise LaunchError(f"mount of {path}: not an absolute path", retryable=False)
    return "/" + os.path.normpath(path).lstrip("/")
