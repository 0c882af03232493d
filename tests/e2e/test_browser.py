"""A real browser, driven by a real server from npm, in the profile that is made for browsers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tomli_w

from supervisord_mcp.runtimes import proctable
from tests.e2e.sdk import sdk_host, text_of_call
from tests.e2e.test_confinement import website
from tests.kit.bounded import bounded
from tests.kit.daemon import daemon
from tests.kit.required import need

pytestmark = [pytest.mark.bwrap, pytest.mark.slow, pytest.mark.npm]

SERVER = "@playwright/mcp@0.0.83"


def _descendants(pid: int) -> Iterator[int]:
    """Yield all processes that descend from one."""
    children: dict[int, list[int]] = {}
    for entry in proctable.entries():
        children.setdefault(entry.ppid, []).append(entry.pid)
    waiting = [pid]
    while waiting:
        found = children.get(waiting.pop(), [])
        yield from found
        waiting += found


def _confinement(instance: int, kind: str) -> tuple[str, int]:
    """Return the user namespace of a process of the browser, and how many filters for system calls it is under.

    ``kind`` is what it is for; the browser itself has none.
    """
    for pid in _descendants(instance):
        # One may end at any time: a page that was left, or a service that was not needed.
        with contextlib.suppress(OSError):
            # Those that were forked from another one have written their words anew, with blanks between them.
            words = re.split("[\0 ]", Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
            kinds = [word.removeprefix("--type=") for word in words if word.startswith("--type=")]
            if words[0].endswith("/chromium") and kinds == ([kind] if kind else []):
                status = Path(f"/proc/{pid}/status").read_text()
                filters = status.partition("Seccomp_filters:")[2].split()[0]
                return os.readlink(f"/proc/{pid}/ns/user"), int(filters)
    raise AssertionError(f"there is no process of the browser of kind {kind!r}")


@bounded(300)
async def test_chromium_shows_what_its_rules_name_and_keeps_its_own_sandbox() -> None:
    program = shutil.which("chromium")
    need(program, "Chromium (apt-get install chromium)")
    with website() as port:
        async with daemon(start=False) as d:
            command = ["npx", "-y", SERVER, "--headless", "--isolated", "--executable-path", str(program)]
            entry = {"command": command, "profile": "browser", "network": {"allow": [f"host-loopback:{port}"]}}
            d.write_config(tomli_w.dumps({"servers": {"browser": entry}}))
            await d.start()
            async with sdk_host(d, "browser") as session:
                await session.call_tool("browser_navigate", {"url": f"http://host-loopback:{port}/"})
                assert "the page" in await text_of_call(session, "browser_snapshot")
                refused = await text_of_call(session, "browser_navigate", url="http://evil.example/")
                assert "may not reach evil.example:80" in refused
                files = await text_of_call(session, "browser_navigate", url=f"file://{Path(__file__)}")
                assert "ERR_FILE_NOT_FOUND" in files or "blocked" in files
                (instance,) = await d.instances("browser")
                browser, renderer = (_confinement(instance["pid"], kind) for kind in ("", "renderer"))
                # Pages are in a sandbox within the sandbox: in namespaces and under a filter of their own.
                assert browser[0] not in (renderer[0], os.readlink("/proc/self/ns/user"))
                assert renderer[1] == browser[1] + 1
            # The program that makes listeners is kept for a next sandbox; the end of the daemon is its end too.
            assert await d.terminate() == 0
