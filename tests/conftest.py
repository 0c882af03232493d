"""What every test has: the commands of this environment on PATH, hypothesis at its pace, a place of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.runtimes import orphans
from tests.kit.engine import Dockerd, make

# A shared machine stalls now and then, so no example has a deadline; the example's size is bounded instead.
settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "deep", max_examples=5000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fast"))

# Tests send them, and what is started while they are ignored (by nohup, in the background of a shell) ignores them too.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start smcp, mcp-server-time and others by name, also where nobody activated the environment.
os.environ["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))


@pytest.fixture
def anyio_backend() -> str:
    """Asynchronous tests run where the daemon runs."""
    return "asyncio"


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Adopt orphans as the daemon does, for the time of a test."""
    orphans.become_subreaper()
    yield
    orphans.reap_strangers()
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)


#: The engine of this run, once a test needed one.
_engines: list[Dockerd] = []


@pytest.fixture(scope="session")
def engine() -> Iterator[Dockerd]:
    """A Docker engine for all tests of a run that need one; it has the image `tests.kit.engine.SHELL`."""
    made = make()
    _engines.append(made)
    yield made
    _engines.clear()
    made.close()


@pytest.fixture(autouse=True)
def _engine_goes_on() -> Iterator[None]:
    """The test that ends the engine of the others fails for it, with what the engine said, and they get a new one."""
    yield
    ends = [end for each in _engines if (end := each.ended()) is not None]
    assert not ends, ends[0]


@pytest.fixture(autouse=True)
def _no_secrets() -> Iterator[None]:
    """What one test taught the masker of the process is not masked in the next."""
    yield
    masker.clear()


@pytest.fixture(autouse=True)
def _own_place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the person's own configuration, state, keyring or daemon."""
    for name in ("SMCP_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SMCP_HOME", str(tmp_path_factory.getbasetemp() / "nobody"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """No test leaves a process of its own behind; what else one may leave, `tests.kit.bounded` looks for."""
    before = _children()
    yield
    deadline = time.monotonic() + 2.0
    while left := _children() - before:
        assert time.monotonic() < deadline, f"processes are left: {left}"
        orphans.reap_strangers()
        time.sleep(0.01)


def _children() -> set[str]:
    """Return the processes that this one has started and not yet waited for."""
    found: set[str] = set()
    for children in Path("/proc/self/task").glob("*/children"):
        # The thread may have ended since.
        with suppress(OSError):
            found.update(children.read_text().split())
    return found
