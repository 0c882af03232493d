"""A package that has to be installed first, as hosts and `status` see it, with an npm that does what the test says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON, Daemon, Fake, daemon
from tests.kit.fhost import hello

#: Installs what it is asked for once the file "slow" beside it is gone, and writes down that it began and ended.
NPM = """#!/bin/sh
here=$(dirname "$0")
for name; do :; done
echo "begin $name" >> "$here/said"
while [ -e "$here/slow" ]; do sleep 0.02; done
mkdir -p "node_modules/$name"
echo "{\\"name\\": \\"$name\\", \\"bin\\": \\"cli.js\\"}" > "node_modules/$name/package.json"
echo '#!/usr/bin/env node' > "node_modules/$name/cli.js"
echo '{}' > package-lock.json
echo "end $name" >> "$here/said"
"""
NODE = f"""#!/bin/sh
exec {PYTHON} -I -S {KIT / "fserver.py"} '{{}}'
"""


def npm(d: Daemon) -> Path:
    """Put npm and node where the daemon looks first, and return the directory."""
    place = d.user / "programs"
    place.mkdir()
    for name, text in (("npm", NPM), ("npx", "#!/bin/sh\nexit 1\n"), ("node", NODE)):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    (place / "slow").touch()
    return place


def package(name: str, **entry: Any) -> Fake:
    command = {"command": ["npx", "-y", name], "runtime": "bare", "start_timeout": "1s", **entry}
    return Fake(name, {}, command)


def phase(found: dict[str, Any]) -> str:
    """Return what the one instance of a server is busy with."""
    return str(found["instances"][0]["phase"]) if found["instances"] else ""


@bounded(60)
async def test_installations_come_one_after_the_other_and_are_shown() -> None:
    async with daemon(start=False) as d:
        place = npm(d)
        d.configure(package("one"), package("two"), settings={"path": [str(place)]})
        await d.start()
        hosts = [d.host(name) for name in ("one", "two")]
        first = hosts[0].handshake(timeout=40)
        greeted = [asyncio.ensure_future(first)]
        await d.until("one", lambda found: "one" in phase(found), "the installation")
        greeted.append(asyncio.ensure_future(hosts[1].handshake(timeout=40)))
        found = await d.until("two", lambda found: "waits for another installation" in phase(found), "the waiting")
        assert found["state"] == "STARTING"
        for _ in range(30):
            await asyncio.sleep(0.05)
            assert (await d.server("one"))["state"] == "STARTING", "the time-out of a start does not count here"
        assert (place / "said").read_text().split("\n") == ["begin one", ""]
        (place / "slow").unlink()
        await asyncio.gather(*greeted)
        for host in hosts:
            assert (await host.call("echo", value=host.name)).text == host.name
        assert (place / "said").read_text().split("\n") == ["begin one", "end one", "begin two", "end two", ""]
        assert [phase(await d.server(name)) for name in ("one", "two")] == ["None", "None"]


@bounded(60)
async def test_an_installation_has_a_time_out_of_its_own() -> None:
    async with daemon(start=False) as d:
        place = npm(d)
        hasty = package("one", install_timeout="700ms", budget={"restarts": 0})
        d.configure(hasty, settings={"path": [str(place)]})
        await d.start()
        host = d.host("one")
        answer = await host.request("initialize", hello(), timeout=30)
        assert answer.error is not None
        assert "not installed within 0.7 s" in answer.error["message"]
        found = await d.in_state("one", "FATAL")
        assert "not installed within 0.7 s" in found["last_error"]
        (place / "slow").unlink()
        await d.control("start", names=["one"])
        assert (await d.server("one"))["state"] == "RUNNING"
