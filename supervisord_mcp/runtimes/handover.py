"""From a blocked sandbox to the server that runs in it; whatever goes wrong on the way, the server does not run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from supervisord_mcp.errors import IsolationError, LaunchError
from supervisord_mcp.runtimes import diagnosis, proctable
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.child import ProcessChild
from supervisord_mcp.runtimes.restraint import Restraint

#: The first program in a sandbox: it says that all is set up, waits for a word, and becomes the server.
# The shell reads byte by byte from a pipe, so nothing of what follows the word is lost. Only builtins are used.
GATE = (
    'if [ -f "$1" ] && [ -x "$1" ]; then echo ok; else echo missing; fi; '
    'IFS= read -r word && [ "$word" = go ] || exit 97; exec "$@"'
)
#: The same for an environment that the shell would not pass on: it drops variables whose names it cannot use itself.
# Python ignores two signals, which the server would inherit.
EXACT_GATE = """
import os, signal, sys
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.write(1, b"ok\\n")
word = b""
while not word.endswith(b"\\n"):
    word += (part := os.read(0, 1))
    if not part:
        break
if word != b"go\\n":
    os._exit(97)
os.execv(sys.argv[1], sys.argv[1:])
"""
#: The same where no sandbox hides anything: first it tries to read what it must not, and what it is to become.
# In a subshell, for the shell itself would end when it cannot open a file for a builtin.
TRIAL = (
    'if (exec 3<"$1") 2>/dev/null; then echo open; exit 97; fi; shift; '
    'if (exec 3<"$1") 2>/dev/null; then echo ok; else echo missing; fi; '
    'IFS= read -r word && [ "$word" = go ] || exit 97; exec "$@"'
)
_NAMESPACES = ("user", "mnt", "pid", "ipc", "uts")
_FILTER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Blocked:
    """How to talk to a blocked sandbox, and what is set up from outside before it goes on.

    Each of ``furnish`` gets the first process of the sandbox: everything in the sandbox inherits what is done to it.
    ``enforce`` is called right before the server itself is let go. ``verify`` gets the first process too, once the
    sandbox is complete, and raises `IsolationError` where it is not what was asked for.
    """

    info: int
    block: int
    furnish: Sequence[Callable[[int], Coroutine[Any, Any, None]]]
    enforce: Callable[[], None] | None = None
    verify: Callable[[int], None] = lambda inner: None


async def hand_over(child: ProcessChild, restraint: Restraint, spec: LaunchSpec, blocked: Blocked) -> None:
    """Bring a blocked sandbox to the point where the server runs in it, within its limits."""
    inner = _inner_pid(await _read(blocked.info, until_end=True))
    if inner is None:
        raise await failed(child, spec)
    child.confine(inner)
    # Everything in the sandbox inherits what is set here from outside. The kernel takes its time for a cgroup.
    try:
        async with anyio.create_task_group() as tasks:
            for furnish in blocked.furnish:
                tasks.start_soon(furnish, inner)
            await child.restrain(restraint, inner)
    except BaseExceptionGroup as group:
        raise await _explained(group.exceptions[0], child, spec, inner) from None
    with contextlib.suppress(BrokenPipeError):
        os.write(blocked.block, b"\n")
    answer = await _read(child.stdout)
    if answer == b"missing\n":
        raise _not_visible(spec)
    if answer != b"ok\n":
        raise await failed(child, spec)
    _verify(inner, child.pid, spec)
    blocked.verify(inner)
    await _await_filter(inner, spec)
    await _say_go(child, spec, blocked.enforce)


async def _explained(error: BaseException, child: ProcessChild, spec: LaunchSpec, inner: int) -> BaseException:
    """Return the error to raise for one that befell a blocked sandbox, which may be at its end already."""
    if not isinstance(error, IsolationError):
        return error
    gone = _has_ended(inner)
    # What bubblewrap says about its own end is worth more; it says nothing as long as it waits.
    said = await _last_words(child)
    return diagnosis.failure(spec.name, said) if said or gone else error


async def pass_gate(child: ProcessChild, restraint: Restraint, spec: LaunchSpec) -> None:
    """Bring a gate that runs without a sandbox to the point where it is the server, within its limits."""
    await child.restrain(restraint, child.pid)
    answer = await _read(child.stdout)
    if answer != b"ok\n":
        said = await _last_words(child)
        raise LaunchError(f"server {spec.name}: it ended before it began: {said or 'without a word'}")
    await _say_go(child, spec)


async def pass_trial(
    child: ProcessChild, restraint: Restraint, spec: LaunchSpec, enforce: Callable[[], None] | None
) -> None:
    """Bring a gate that took its rights from itself to the point where it is the server, within its limits."""
    unlimited: IsolationError | None = None
    try:
        await child.restrain(restraint, child.pid)
    except IsolationError as error:
        if not _has_ended(child.pid):
            raise
        # It ended by itself: what it says about that is worth more.
        unlimited = error
    match await _read(child.stdout):
        case b"ok\n" if unlimited is not None:
            raise unlimited
        case b"ok\n":
            pass
        case b"missing\n":
            raise _not_visible(spec)
        case b"open\n":
            raise IsolationError(
                f"server {spec.name} was not started: it could read what it must not, though Landlock was to refuse it",
                remedy='Use runtime = "bwrap", or a kernel whose Landlock works.',
            )
        case _:
            said = await _last_words(child)
            raise LaunchError(f"server {spec.name}: it ended before it began: {said or 'without a word'}")
    if not _is_filtered(child.pid) or _status(child.pid).get("NoNewPrivs") != "1":
        raise IsolationError(
            f"server {spec.name} was not started: its system calls are not filtered",
            remedy="Run a kernel with CONFIG_SECCOMP_FILTER.",
        )
    await _say_go(child, spec, enforce)


async def _say_go(child: ProcessChild, spec: LaunchSpec, enforce: Callable[[], None] | None = None) -> None:
    if enforce is not None:
        enforce()
    try:
        os.write(child.stdin, b"go\n")
    except BrokenPipeError:
        raise await failed(child, spec) from None


async def _read(descriptor: int, *, until_end: bool = False) -> bytes:
    """Return a line, or everything, from a descriptor of which nobody expects more than that."""
    content = b""
    while len(content) < 1 << 16:
        try:
            part = os.read(descriptor, 4096)
        except BlockingIOError:
            await anyio.wait_readable(descriptor)
            continue
        content += part
        if not part or (not until_end and content.endswith(b"\n")):
            break
    return content


def _inner_pid(info: bytes) -> int | None:
    try:
        return int(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _verify(inner: int, outer: int, spec: LaunchSpec) -> None:
    """Raise `IsolationError` if the first process of the sandbox shares a namespace that it must not share.

    Neither with the daemon nor with bubblewrap outside, which may have begun in other mounts than those of the daemon.
    """
    wanted = (*_NAMESPACES, *(("net",) if spec.network != "host" else ()))
    try:
        others = {(pid, name): _namespace(pid, name) for pid in (os.getpid(), outer) for name in wanted}
        shared = [name for name in wanted if _namespace(inner, name) in others.values()]
    except OSError as error:
        raise IsolationError(
            f"server {spec.name}: its sandbox cannot be examined: {error.strerror}",
            remedy="Check which bwrap is first in PATH.",
        ) from error
    if shared:
        raise IsolationError(
            f"server {spec.name} was not started: bubblewrap shared its {', '.join(shared)} namespace",
            remedy="Check which bwrap is first in PATH.",
        )


async def _await_filter(inner: int, spec: LaunchSpec) -> None:
    """Raise `IsolationError` if the first process of the sandbox does not get a filter for its system calls.

    The server may write into it, so a filter of the server alone would be none. It gets its own a moment later.
    """
    with anyio.move_on_after(_FILTER_SECONDS):
        while not _is_filtered(inner):  # noqa: ASYNC110 (the kernel tells nobody)
            await anyio.sleep(0.001)
        return
    raise IsolationError(
        f"server {spec.name} was not started: bubblewrap did not filter the system calls of its sandbox",
        remedy="Check which bwrap is first in PATH.",
    )


def _has_ended(pid: int) -> bool:
    entry = proctable.read_entry(pid)
    return entry is None or entry.state == "Z"


def _is_filtered(pid: int) -> bool:
    """Whether a process has a filter that this one does not have; before Linux 5.9, whether it has any."""
    theirs, ours = _status(pid), _status(os.getpid())
    if "Seccomp_filters" in theirs:
        return int(theirs["Seccomp_filters"]) > int(ours["Seccomp_filters"])
    return theirs.get("Seccomp") == "2"


def _status(pid: int) -> dict[str, str]:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}
    except OSError:
        return {}


def _namespace(pid: int, name: str) -> str:
    return os.readlink(f"/proc/{pid}/ns/{name}")


def _not_visible(spec: LaunchSpec) -> LaunchError:
    return LaunchError(
        f"{spec.argv[0]} is not visible in the sandbox, or not executable",
        remedy=f'Grant its directory: mounts = [{{ path = "{os.path.dirname(spec.argv[0])}" }}]',
        retryable=False,
    )


async def failed(child: ProcessChild, spec: LaunchSpec, text: str = "") -> Exception:
    """End what is left of a sandbox that failed; return the error with what bubblewrap wrote."""
    said = await _last_words(child)
    return diagnosis.failure(spec.name, "; ".join(filter(None, (text, said))))


async def _last_words(child: ProcessChild) -> str:
    """End a child and return the last lines that it wrote to stderr."""
    with anyio.CancelScope(shield=True):
        child.kill()
        await child.wait()
        said = b""
        with contextlib.suppress(TimeoutError), anyio.fail_after(1):
            said = await _read(child.stderr, until_end=True)
        await child.aclose()
    return "; ".join([line for line in said.decode(errors="replace").splitlines() if line.strip()][-5:])
