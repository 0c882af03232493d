"""Attempts on files and directories."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat

from supervisord_mcp.probes.inside.trying import (
    LIBC,
    AbsentError,
    Attempt,
    Facts,
    Group,
    KeptError,
    calling,
    creating,
    filling,
    listing,
    opening,
    overwriting,
    read,
    reading,
)

GROUP = Group("files")

_BUFFER = ctypes.create_string_buffer(136)

_SECRETS = {
    "a private key of ssh": ".ssh/id_ed25519",
    "credentials of a cloud": ".aws/credentials",
    "a token for packages": ".npmrc",
    "a private key of GnuPG": ".gnupg/private-keys-v1.d/key",
    "cookies of a browser": ".mozilla/firefox/x.default/cookies.sqlite",
    "a configuration of kubectl": ".kube/config",
    "logins of docker": ".docker/config.json",
    "passwords of git": ".git-credentials",
    "passwords of other hosts": ".netrc",
    "the history of a shell": ".bash_history",
}
_PROTECTED = (".git/hooks/post-checkout", ".git/config", ".envrc", ".vscode/tasks.json", ".mcp.json")


def _device(facts: Facts) -> None:
    place = facts["own_temporary"] + "/smcp-device"
    os.mknod(place, stat.S_IFBLK | 0o600, os.makedev(7, 0))
    try:
        os.close(os.open(place, os.O_RDONLY | os.O_NONBLOCK))
    finally:
        os.unlink(place)


def _home_of_root(facts: Facts) -> None:
    if not set(facts["home_of_root"]) <= set(os.listdir("/root")):
        raise KeptError("only what is granted is in it")


@GROUP.attempt("a hard link to a secret")
def _hard_link(facts: Facts) -> None:
    place = facts["project"] + "/hard-link"
    os.link(facts["home"] + "/.netrc", place)
    os.unlink(place)


@GROUP.attempt("move a file of the project away")
def _moved(facts: Facts) -> None:
    here, there = facts["project"] + "/moving", facts["home"] + "/moved"
    os.close(os.open(here, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        os.rename(here, there)
        os.rename(there, here)
    finally:
        os.unlink(here)


@GROUP.attempt("run a program that it wrote")
def _written_program(facts: Facts) -> None:
    place = facts["own_temporary"] + "/smcp-program"
    descriptor = os.open(place, os.O_CREAT | os.O_WRONLY, 0o700)
    os.write(descriptor, b"#!/bin/sh\nexit 0\n")
    os.close(descriptor)
    try:
        _execute(place)
    finally:
        os.unlink(place)


@GROUP.attempt("run a program from memory")
def _program_from_memory(facts: Facts) -> None:
    descriptor = os.memfd_create("program", 0)
    os.write(descriptor, b"#!/bin/sh\nexit 0\n")
    _execute(f"/proc/self/fd/{descriptor}")


def _execute(path: str) -> None:
    child = os.fork()
    if child == 0:
        try:
            os.execv(path, [path])
        except OSError as error:
            os._exit(error.errno or 1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


@GROUP.attempt("a program that runs as another user")
def _set_user(facts: Facts) -> None:
    place = facts["own_temporary"] + "/smcp-suid"
    os.close(os.open(place, os.O_CREAT | os.O_WRONLY, 0o700))
    try:
        os.chmod(place, 0o4755)
        flags = os.statvfs(place).f_flag
        if flags & os.ST_NOSUID or LIBC.prctl(39, 0, 0, 0, 0) == 1:
            raise KeptError("its bit has no effect")
    finally:
        os.unlink(place)


def _left_behind(mode: int, *, at_once: bool = False) -> Attempt:
    """Return an attempt to leave a program in the project that runs as its owner, whoever starts it."""

    def run(facts: Facts) -> None:
        place = facts["project"] + "/smcp-left"
        descriptor = os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode if at_once else 0o755)
        try:
            if not at_once:
                os.fchmod(descriptor, mode)
            if not os.fstat(descriptor).st_mode & 0o6000:
                raise KeptError("it has no such bit")
        finally:
            os.close(descriptor)
            os.unlink(place)

    return run


GROUP.several(
    {
        "leave a program that runs as the owner of the project": _left_behind(0o4755),
        "leave a program that runs in the group of the project": _left_behind(0o2755),
        "make a program that runs as the owner of the project": _left_behind(0o4755, at_once=True),
    }
)


@GROUP.attempt("shared memory with the machine")
def _dev_shm(facts: Facts) -> None:
    read(facts["shared"])


@GROUP.attempt("a file larger than its limit")
def _large_file(facts: Facts) -> None:
    size = facts["limits"].get("fsize")
    if size is None:
        raise AbsentError("it has no limit")
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    descriptor = os.open(facts["project"] + "/large", os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.ftruncate(descriptor, size + (1 << 20))
    finally:
        os.close(descriptor)
        os.unlink(facts["project"] + "/large")


GROUP.several({f"read {name}": reading("{home}/" + path) for name, path in _SECRETS.items()})

GROUP.several(
    {
        "read the passwords of the machine": reading("/etc/shadow"),
        "read a file of another project": reading("{other}/file"),
        "read the state of another server": reading("{state}/file"),
        "read a temporary file of the machine": reading("{temporary}"),
        "list the home": listing("{home}"),
        "list the home of root": _home_of_root,
        "list the state of smcp": listing("{state}"),
        "read a secret through the root of the first process": reading("/proc/1/root{home}/.netrc"),
        "read a secret through the root of the parent": lambda f: read(f"/proc/{os.getppid()}/root{f['home']}/.netrc"),
        "read a secret through its own root": reading("/proc/self/root{home}/.netrc"),
        "read a secret by many steps up": lambda f: read("../" * 40 + f["home"].lstrip("/") + "/.netrc"),
        "read a secret through a link in the project": reading("{project}/link"),
        "read a mount": reading("{shown}/file"),
        "read the project": reading("{project}/file"),
        "write the home": creating("{home}/smcp-probe"),
        "write a file of another project": overwriting("{other}/file"),
        "write a read-only mount": overwriting("{shown}/file"),
        "make a file in a read-only mount": creating("{shown}/smcp-probe"),
        "write the project": overwriting("{project}/file"),
        "make a file in the project": creating("{project}/smcp-probe"),
        "write its own home": creating("{own_home}/smcp-probe"),
        "write its own temporary files": creating("{own_temporary}/smcp-probe"),
        "write programs of the system": creating("/usr/bin/smcp-probe"),
        "write libraries of the system": creating("/usr/lib/smcp-probe"),
        "write settings of the system": creating("/etc/smcp-probe"),
        "write below /bin": creating("/bin/smcp-probe"),
        "write below /opt": creating("/opt/smcp-probe"),
        "write below /var/tmp": creating("/var/tmp/smcp-probe"),
        "write the root": creating("/smcp-probe"),
        "write its interpreter": creating("{interpreter}/smcp-probe"),
        "write the device with the file system": opening("{block}"),
        "a file without a name on the root": lambda f: os.close(os.open("/", os.O_TMPFILE | os.O_WRONLY, 0o600)),
        "a device of its own": _device,
    }
)

GROUP.several({f"change {path} of the project": overwriting("{project}/" + path) for path in _PROTECTED})

GROUP.several(
    {
        "more temporary files than its limit": filling("{own_temporary}", "tmp"),
        "more in its home than its limit": filling("{own_home}", "home"),
        "more shared memory than its limit": filling("/dev/shm", "shm"),
        "a file by its handle": calling(
            "name_to_handle_at", -100, b"/usr", _BUFFER, ctypes.byref(ctypes.c_int()), 0, fine=(errno.EOVERFLOW,)
        ),
        "open a file by its handle": calling(
            "open_by_handle_at", -1, _BUFFER, 0, fine=(errno.EBADF, errno.EINVAL, errno.EFAULT)
        ),
    }
)
