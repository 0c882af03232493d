"""Installing the peers: what is not there yet, several at once, and in one line why one of them could not be."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil

from contrib.bench.field import census
from contrib.matrix.peers import Kit

#: What installers say that is no reason: codes whose meaning stands in another line, advice, and where a log is.
_NO_REASON = re.compile(r"npm (error|ERR!) (code|syscall|errno|path|A complete log)\b|\[notice\]|npm (notice|warn)\b")
#: How pip tells of a network that is not there; its last word is that there is no such version.
_NO_CONNECTION = re.compile(r"connection broken by '(.*)': /")


def install(kits: Sequence[Kit], place: Path, tell: Callable[[str], None]) -> dict[str, str]:
    """Install what is not there yet; return by name why something could not be.

    Who is interrupted leaves no installer running; what is half installed is installed again the next time.
    """

    def provide(kit: Kit) -> str:
        try:
            kit.provide(place)
        except (OSError, subprocess.SubprocessError) as error:
            return f"cannot be installed: {reason(error)}"
        return ""

    failed = {}
    before = census.living()
    # They mostly wait for the network.
    pool = ThreadPoolExecutor(max_workers=4)
    try:
        for kit, why in zip(kits, pool.map(provide, kits), strict=True):
            tell(f"{' '.join(kit.packages)}: {why or 'installed'}")
            if why:
                failed[kit.name] = why
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        _end(census.living() - before)
        raise
    finally:
        pool.shutdown()
    return failed


def reason(error: Exception) -> str:
    """Return in one line why an installer failed."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"{error.filename} is not installed"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {error.timeout:.0f} s"
    # `python -m venv` says on stdout what it lacks.
    said = getattr(error, "stderr", None) or getattr(error, "stdout", None) or str(error)
    if lost := _NO_CONNECTION.search(said):
        return f"no connection: {lost[1]}"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if not _NO_REASON.match(line)] or lines or [str(error)]
    # npm begins with the reason, others end with it.
    return next((line for line in telling if line.startswith(("npm error", "npm ERR!"))), telling[-1])


def _end(pids: frozenset[int]) -> None:
    for pid in pids:
        with suppress(psutil.Error):
            psutil.Process(pid).terminate()
