"""A fake host that talks to the fake server directly, without a daemon between them."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.kit.daemon import KIT, PYTHON
from tests.kit.fhost import Host
from tests.kit.journal import Journal


@asynccontextmanager
async def server(folder: Path, *, shake: bool = True, **switches: Any) -> AsyncIterator[tuple[Host, Journal]]:
    """Run the fake server with these switches below a fake host, after the handshake unless told otherwise."""
    journal = Journal(folder / "journal")
    told = {"journal": str(journal.path), **switches}
    host = Host([PYTHON, "-I", "-S", str(KIT / "fserver.py"), json.dumps(told)])
    async with host.start(env=environment()):
        if shake:
            await host.handshake(capabilities={"roots": {}})
        yield host, journal


def environment(**more: str) -> Mapping[str, str]:
    """Return a small environment with these variables."""
    return {"PATH": os.environ["PATH"], **more}
