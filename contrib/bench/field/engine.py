"""The container engine of a trial: its own, started before anything is measured, and gone with the trial.

A machine with containers has an engine for all of them, so what it costs itself is not counted (see `census`). Its
only image is made of this machine: the program that runs the server, with its libraries.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

#: The image that it has.
IMAGE = "smcp-field:local"


def lacking() -> str:
    """Return why no engine can run on this machine; empty if one can, which is tried."""
    if os.geteuid() != 0:
        return "only root can start a container engine of its own"
    if shutil.which("dockerd") is None:
        return "dockerd is not installed"
    try:
        with running(()):
            return ""
    except ImportError as error:
        return f"what starts a container engine is not installed: {error.name}"
    except AssertionError as error:  # which has the end of its log
        return f"the container engine does not start: {(str(error).strip().splitlines() or [''])[-1]}"


@contextmanager
def running(programs: Sequence[str]) -> Iterator[str]:
    """Run an engine that has the image, with these programs in it; give its URL.

    Raise `AssertionError` if it does not start, `ImportError` where the tests cannot be run either.
    """
    # Only here: what starts an engine belongs to the tests.
    from tests.kit.engine import Dockerd, load

    with closing(Dockerd()) as engine:
        load(engine, IMAGE, programs)
        yield engine.url


def shown(server: Sequence[str]) -> list[str]:
    """Return what a container of the image has to be shown besides: the library of Python, for a server in Python."""
    return [sysconfig.get_path("stdlib")] if server[0].rpartition("/")[2].startswith("python") else []
