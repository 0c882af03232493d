"""The isolations that attempts are made in, each run once for a whole session of tests."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from ctypes import CDLL
from pathlib import Path

import anyio
import anyio.to_thread

from supervisord_mcp.probes import bait, trial
from supervisord_mcp.probes.trial import Result
from supervisord_mcp.runtimes import orphans, seccomp
from supervisord_mcp.runtimes.base import Runtime
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from supervisord_mcp.runtimes.identity import Identities
from supervisord_mcp.runtimes.landlock.runtime import LandlockRuntime
from supervisord_mcp.runtimes.limits import Limits

Results = dict[str, Result]
_MIB = 1 << 20
LIMITS = Limits(memory=256 * _MIB, pids=64, nofile=256, fsize=64 * _MIB, tmp=32 * _MIB, shm=16 * _MIB, home=32 * _MIB)
_PERSON = 1500
_PATIENCE = 240


def python() -> str:
    """Return a Python that every user can run: the one of the system, for ours may be in a home that is closed."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    assert found is not None, "a Python of the system is needed (apt-get install python3)"
    return found


@contextlib.contextmanager
def _laid() -> Iterator[tuple[Path, trial.Facts]]:
    base = Path(tempfile.mkdtemp(prefix="smcp-test-", dir="/var/tmp"))
    base.chmod(0o777)
    try:
        with bait.laid(base, LIMITS) as facts:
            yield base, facts
    finally:
        shutil.rmtree(base, ignore_errors=True)


def nothing() -> Results:
    """Return what comes of all attempts where nothing is held back."""
    with _laid() as (_, facts):
        trial.spec(facts, python())
        return trial.without_isolation(facts, python(), trial.names())


def sandboxed(make: Callable[[Path], Runtime]) -> Results:
    """Return what comes of all attempts in a runtime."""
    orphans.become_subreaper()
    with _laid() as (base, facts):
        spec = trial.spec(facts, python(), limits=LIMITS)
        return asyncio.run(asyncio.wait_for(trial.tried(make(base), spec, facts, trial.names()), _PATIENCE))


def bwrap(base: Path) -> Runtime:
    """Return the sandbox; a daemon of root gives its servers users of their own."""
    return BwrapRuntime(None, None, Identities())


def landlock(base: Path) -> Runtime:
    """Return the runtime without namespaces."""
    return LandlockRuntime(str(base / "private"), None, Identities())


def as_person(run: Callable[[], Results]) -> Results:
    """Return what comes of it for a user without rights; in this process where that is what we are."""
    if os.geteuid() != 0:
        return run()
    # What is imported on first use may be in a directory that a person cannot enter.
    for name in ("encodings.ascii", "encodings.idna"):
        importlib.import_module(name)
    seccomp.program(seccomp.BASE)
    asyncio.run(anyio.to_thread.run_sync(int))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(_PERSON, _PERSON, _PERSON)
            os.setresuid(_PERSON, _PERSON, _PERSON)
            CDLL(None).prctl(4, 1, 0, 0, 0)  # after a change of user a process may not look at itself
            os.chdir("/")
            said = {name: [result.outcome, result.detail] for name, result in run().items()}
            with open(writer, "w", encoding="utf-8") as file:
                json.dump(said, file)
        except BaseException as error:  # noqa: BLE001 (reported by the parent)
            sys.stderr.write(f"{error!r}\n")
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(child, 0)
    assert text, "the attempts of a person ended early; see stderr"
    return {name: Result(*words) for name, words in json.loads(text).items()}
