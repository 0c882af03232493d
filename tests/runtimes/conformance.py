"""What every runtime must do, as checks that take a runtime; `test_conformance` runs each against each."""

from __future__ import annotations

import asyncio
import contextlib
import glob
import os
import random
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes import delivery, proctable, tree
from supervisord_mcp.runtimes.base import Child, ExitStatus, LaunchSpec, Runtime, SecretFiles

PYTHON_ROOTS = tuple(dict.fromkeys((sys.prefix, sys.base_prefix)))
#: Shells and sandboxes add these to any environment.
ADDED = {"PWD", "OLDPWD", "SHLVL", "_", "HOME", "TMPDIR", "LC_CTYPE"}

Check = Callable[[Runtime], Coroutine[Any, Any, None]]
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Register a check under the name of its function."""
    CHECKS[function.__name__] = function
    return function


def shell(script: str, *, marker: str = "", **changes: str) -> LaunchSpec:
    """Return a spec that runs a script of the shell."""
    env = {"PATH": "/usr/bin:/bin", **changes}
    return LaunchSpec("test", ("/bin/sh", "-c", script), env=tuple(env.items()), marker=marker or f"t-{uuid.uuid4()}")


def python(script: str, *, marker: str = "") -> LaunchSpec:
    """Return a spec that runs a script with the Python of these tests, which is outside of the system's folders."""
    env = (("PATH", "/usr/bin:/bin"),)
    argv = (sys.executable, "-I", "-u", "-c", script)
    return LaunchSpec("test", argv, env=env, marker=marker or f"t-{uuid.uuid4()}", read_only=PYTHON_ROOTS)


@contextlib.asynccontextmanager
async def running(runtime: Runtime, spec: LaunchSpec) -> AsyncIterator[Child]:
    """Run a child for the time of a block; nothing may be left of it afterwards."""
    child = await runtime.launch(spec)
    try:
        yield child
    finally:
        await child.aclose()
    assert tree.marked(spec.marker) == []


async def read(descriptor: int, until: bytes = b"", *, seconds: float = 20) -> bytes:
    """Return what comes from a descriptor up to a text, or to its end where none is named."""
    content = b""
    with anyio.fail_after(seconds):
        while not (until and until in content):
            try:
                part = os.read(descriptor, 65536)
            except BlockingIOError:
                await anyio.wait_readable(descriptor)
                continue
            if not part:
                break
            content += part
    return content


async def _lines(descriptor: int, count: int) -> list[str]:
    content = b""
    while content.count(b"\n") < count:
        content += await read(descriptor, b"\n")
    return content.decode().splitlines()


def _text(path: str) -> str:
    """Return the content of a file, nothing where it has just gone."""
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def exists(path: Path) -> bool:
    """Return whether there is such a file."""
    return path.exists()


async def ended(child: Child, *, seconds: float = 20) -> ExitStatus:
    """Return how a child ended, within a bound."""
    with anyio.fail_after(seconds):
        return await child.wait()


async def become(program: str, marker: str, *, seconds: float = 20) -> set[str]:
    """Return the lines of the status of a child's process that runs a program, once it does."""
    with anyio.fail_after(seconds):
        while True:
            for entry in tree.marked(marker):
                lines = set(_text(f"/proc/{entry.pid}/status").splitlines())
                if f"Name:\t{program}" in lines:
                    return lines
            await anyio.sleep(0.005)


@check
async def answers_and_ends_at_end_of_file(runtime: Runtime) -> None:
    async with running(runtime, shell("cat; echo done >&2")) as child:
        os.write(child.stdin, b"one\ntwo\n")
        assert await read(child.stdout, b"two\n") == b"one\ntwo\n"
        child.close_stdin()
        child.close_stdin()
        assert await ended(child) == ExitStatus(code=0)
        assert await read(child.stderr) == b"done\n"


@check
async def nothing_of_the_first_bytes_is_lost(runtime: Runtime) -> None:
    sent = b'{"jsonrpc":"2.0","id":1}\n' * 100
    async with running(runtime, shell("cat")) as child:
        os.write(child.stdin, sent)
        child.close_stdin()
        assert await read(child.stdout) == sent


@check
async def tells_how_the_leader_ended(runtime: Runtime) -> None:
    for script, status in (
        ("exit 0", ExitStatus(code=0)),
        ("exit 7", ExitStatus(code=7)),
        ("exit 255", ExitStatus(code=255)),
        ("kill -9 $$", ExitStatus(signal=9)),
        ("kill -15 $$", ExitStatus(signal=15)),
        ("kill -11 $$", ExitStatus(signal=11)),
    ):
        async with running(runtime, shell(script)) as child:
            first, second = await asyncio.gather(ended(child), ended(child))
            assert first == second == status
            assert await ended(child) == status


@check
async def has_exactly_its_environment(runtime: Runtime) -> None:
    given = {"PATH": "/usr/bin:/bin", "EMPTY": "", "TEXT": "ä = 'x'\ny"}
    spec = shell("env -0", **given)
    with _daemon_variables(LISTEN_FDS="1", NOTIFY_SOCKET="/x", INVOCATION_ID="x", SECRET="hidden", LD_DEBUG="help"):
        async with running(runtime, spec) as child:
            found = dict(item.split("=", 1) for item in (await read(child.stdout)).decode().split("\0") if item)
    assert {name: found[name] for name in given} == given
    assert found["SMCP_INSTANCE"] == spec.marker
    assert found.keys() - ADDED == {*given, "SMCP_INSTANCE"}


@check
async def has_no_other_descriptors(runtime: Runtime) -> None:
    script = "import os; print([n for n in range(1000) if os.path.exists(f'/proc/self/fd/{n}')])"
    with contextlib.ExitStack() as stack:
        for _ in range(6):
            number = os.open(os.devnull, os.O_RDONLY)
            stack.callback(os.close, number)
            os.set_inheritable(number, True)
        async with running(runtime, python(script)) as child:
            assert await read(child.stdout) == b"[0, 1, 2]\n"


@check
async def end_of_file_reaches_the_right_one(runtime: Runtime) -> None:
    async with contextlib.AsyncExitStack() as stack:
        launches = [stack.enter_async_context(running(runtime, shell("cat"))) for _ in range(6)]
        children = await asyncio.gather(*launches)
        children[2].close_stdin()
        assert await ended(children[2]) == ExitStatus(code=0)
        for child in (*children[:2], *children[3:]):
            os.write(child.stdin, b"here\n")
            assert await read(child.stdout, b"here\n") == b"here\n"


@check
async def has_default_signals(runtime: Runtime) -> None:
    spec = shell("echo up; exec cat")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    old = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGUSR2, signal.SIGTERM)}
    try:
        async with running(runtime, spec) as child:
            await read(child.stdout, b"up\n")
            # Seen from outside: not every runtime shows a child its own entry in /proc.
            lines = await become("cat", spec.marker)
            assert {"SigBlk:\t0000000000000000", "SigIgn:\t0000000000000000"} <= lines
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})


@check
async def heads_its_own_session(runtime: Runtime) -> None:
    async with running(runtime, shell("read line")) as child:
        assert os.getpgid(child.pid) == os.getsid(child.pid) == child.pid


@check
async def runs_where_it_is_told(runtime: Runtime) -> None:
    spec = shell("pwd")
    for place in ("/usr/lib", "/"):
        async with running(runtime, _replace(spec, cwd=place)) as child:
            assert await read(child.stdout) == f"{place}\n".encode()


@check
async def a_held_pipe_does_not_hide_the_end(runtime: Runtime) -> None:
    for holder in ("sleep 1000 &", "setsid sleep 1000 &", "(setsid sh -c 'trap \"\" TERM; sleep 1000' &)"):
        async with running(runtime, shell(f"{holder}\nexit 3")) as child:
            assert await ended(child, seconds=10) == ExitStatus(code=3)
            assert await read(child.stdout) == b""


@check
async def unread_output_does_not_hide_the_end(runtime: Runtime) -> None:
    async with running(runtime, python("import os, threading; print('x' * 60000); os._exit(4)")) as child:
        assert await ended(child, seconds=10) == ExitStatus(code=4)
    async with running(runtime, python("print('x' * 190000)")) as child:
        await read(child.stdout, b"x")
        child.kill()
        assert await ended(child, seconds=10) == ExitStatus(signal=9)


@check
async def polite_signals_reach_the_server(runtime: Runtime) -> None:
    # A shell that waits for a long sleep could start another one in the moment of the signal.
    script = "trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    async with running(runtime, shell(script)) as child:
        await read(child.stdout, b"ready\n")
        child.signal(signal.SIGTERM)
        assert await ended(child) == ExitStatus(code=0)
        assert await read(child.stdout) == b"term\n"
        child.signal(signal.SIGTERM)
        child.kill()


@check
async def steps_of_a_stop_arrive_in_order(runtime: Runtime) -> None:
    script = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("term"))
print("ready")
sys.stdin.read()
print("eof")
while True:
    time.sleep(60)
"""
    async with running(runtime, python(script)) as child:
        await read(child.stdout, b"ready\n")
        child.close_stdin()
        await read(child.stdout, b"eof\n")
        child.signal(signal.SIGTERM)
        await read(child.stdout, b"term\n")
        child.kill()
        assert await ended(child) == ExitStatus(signal=9)


TREES = {
    "wrappers": "sh -c 'sh -c \"sleep 1000; :\"; :'; :",
    "a server behind two wrappers that ignores TERM": "sh -c 'sh -c \"trap : TERM; while :; do sleep 1; done\"; :'; :",
    "daemonised": "(setsid sh -c '(sleep 1000 & sleep 1001)' &) ; sleep 1000",
    "daemonised with a cleared environment": "(setsid env -i /bin/sh -c '(sleep 1000 & sleep 1001)' &) ; sleep 1000",
    "forks on each TERM": "trap 'sleep 1000 &' TERM; while :; do sleep 0.01; done",
    "stopped": "kill -STOP $$; :",
    "keeps forking": "f() { while :; do setsid sleep 1000 & sleep 0.01; done; }; f & f",
}


@check
async def kill_ends_the_whole_tree(runtime: Runtime) -> None:
    for script in TREES.values():
        async with running(runtime, shell(f"echo ready; {script}")) as child:
            await read(child.stdout, b"ready\n")
            await settled(child)
            child.signal(signal.SIGTERM)
            child.kill()
            await ended(child)


@check
async def kill_at_once_after_the_start(runtime: Runtime) -> None:
    for script in TREES.values():
        async with running(runtime, shell(script)) as child:
            child.kill()
            assert await ended(child) == ExitStatus(signal=9)


@check
async def a_stopped_server_gets_a_polite_signal(runtime: Runtime) -> None:
    async with running(runtime, shell("trap 'exit 5' TERM; echo ready; kill -STOP $$; sleep 1000")) as child:
        await read(child.stdout, b"ready\n")
        child.signal(signal.SIGTERM)
        assert await ended(child) == ExitStatus(code=5)


@check
async def exit_codes_are_never_lost(runtime: Runtime) -> None:
    seen = []
    chance = random.Random(1)
    for _ in range({"bare": 200, "container": 10}.get(runtime.name, 40)):
        async with running(runtime, shell("trap 'exit 7' TERM; read line; exit 7")) as child:
            os.write(child.stdin, b"\n")
            await asyncio.sleep(chance.random() * 0.004)
            child.signal(signal.SIGTERM)
            seen.append(await ended(child))
    assert set(seen) <= {ExitStatus(code=7), ExitStatus(signal=signal.SIGTERM)}
    assert ExitStatus(code=7) in seen


@check
async def close_may_be_repeated(runtime: Runtime) -> None:
    child = await runtime.launch(shell("trap : TERM; sleep 1000"))
    await child.aclose()
    await child.aclose()
    assert (child.stdin, child.stdout, child.stderr) == (-1, -1, -1)
    assert await ended(child) == ExitStatus(signal=9)


@check
async def a_cancelled_launch_leaves_nothing(runtime: Runtime) -> None:
    chance = random.Random(2)
    for _ in range(10):
        spec = shell("sleep 1000")
        launching = asyncio.ensure_future(runtime.launch(spec))
        await asyncio.sleep(chance.random() * 0.02)
        launching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await launching).aclose()
        assert tree.marked(spec.marker) == []


@check
async def a_missing_command_is_not_tried_again(runtime: Runtime) -> None:
    with pytest.raises(LaunchError, match="/nowhere/server") as caught:
        await runtime.launch(LaunchSpec("test", ("/nowhere/server",)))
    assert not caught.value.retryable


@check
async def a_missing_directory_is_not_tried_again(runtime: Runtime) -> None:
    with pytest.raises(LaunchError, match="/nowhere/at/all") as caught:
        await runtime.launch(_replace(shell(":"), cwd="/nowhere/at/all"))
    assert not caught.value.retryable


@check
async def only_the_main_thread_starts_children(runtime: Runtime) -> None:
    with pytest.raises(RuntimeError, match="main thread"):
        await asyncio.to_thread(asyncio.run, runtime.launch(shell(":")))


@check
async def the_shown_command_has_no_secret_and_runs(runtime: Runtime) -> None:
    spec = _replace(shell('echo "$TOKEN"; pwd', TOKEN="s3cret", LANG="C"), cwd="/usr")
    line = runtime.explain(spec)
    assert "s3cret" not in line
    before = set(proctable.children())
    pasted = await asyncio.create_subprocess_exec(
        "/bin/bash", "-c", line, env={"PATH": "/usr/bin:/bin", "TOKEN": "mine"}, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await pasted.communicate()
    assert output == b"mine\n/usr\n"
    # What held the sandbox was started by the shell, not by us, and is adopted when that ends, also in our own session.
    with anyio.fail_after(10):
        while adopted := set(proctable.children()) - before:
            _reap(adopted)
            await asyncio.sleep(0.01)


def _reap(pids: Iterable[int]) -> None:
    for pid in pids:
        os.waitpid(pid, os.WNOHANG)


async def settled(child: Child) -> None:
    """Return once a tree has grown beyond its leader and stopped growing, or after a while."""
    sizes: list[int] = []
    (marker,) = proctable.markers_in(proctable.environment(child.pid) or b"") or ("",)
    for _ in range(30):
        sizes.append(len(tree.marked(marker)))
        if len(sizes) > 3 and sizes[-1] > 1 and len(set(sizes[-3:])) == 1:
            return
        await asyncio.sleep(0.01)


def _replace(spec: LaunchSpec, *, cwd: str) -> LaunchSpec:
    return LaunchSpec(spec.name, spec.argv, cwd=cwd, env=spec.env, marker=spec.marker, read_only=spec.read_only)


@contextlib.contextmanager
def _daemon_variables(**variables: str) -> Iterator[None]:
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            del os.environ[name]


def secret(script: str, **values: str) -> LaunchSpec:
    """Return a spec that runs a script of the shell, with files that hold secrets."""
    # No directory of a daemon, so that files of the machine are where they always can be.
    return replace(shell(script), secrets=SecretFiles(f"/{uuid.uuid4()}/secrets", tuple(values.items())))


@check
async def secrets_are_in_files_that_only_it_can_read(runtime: Runtime) -> None:
    value = f"s3cret-{uuid.uuid4()}"
    script = (
        'stat -c %a "$TOKEN" "$(dirname "$TOKEN")"; stat -f -c %T "$TOKEN"; cat "$TOKEN"; echo; cat "$LINES"; echo;'
        ' echo "$TOKEN"; exec sleep 1000'
    )
    spec = secret(script, TOKEN=value, LINES="two\nlines\n")
    async with running(runtime, spec) as child:
        *said, path = await _lines(child.stdout, 8)
        assert said == ["600", "700", "tmpfs", value, "two", "lines", ""]
        await become("sleep", spec.marker)
        for entry in tree.marked(spec.marker):
            assert value not in _text(f"/proc/{entry.pid}/cmdline") + _text(f"/proc/{entry.pid}/environ")
        if runtime.isolation != "none":
            async with running(runtime, shell(f"cat {path}")) as other:
                assert await read(other.stdout) == b""
                assert not (await ended(other)).success
    assert not exists(Path(path))


@check
async def a_child_that_does_not_start_leaves_no_secrets(runtime: Runtime) -> None:
    spec = replace(secret("", TOKEN="s3cret"), argv=("/no/such/program",))
    with pytest.raises(LaunchError):
        await runtime.launch(spec)
    assert glob.glob(f"{delivery._left_in(spec.secrets.place)}*") == []
