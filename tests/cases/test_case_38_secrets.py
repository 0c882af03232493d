"""Case 38: secrets in the open: who has which, and where none of them is.

Markers are in every place that a secret can come from, and the daemon has twenty more in its own environment. Servers
start, fail, time out, crash and echo what they have; then everything that anybody could read is searched.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from supervisord_mcp.config.paths import find_paths
from supervisord_mcp.credentials.vault import NewKey, Vault
from tests.kit import probe
from tests.kit.bounded import bounded
from tests.kit.daemon import KIT, PYTHON, Daemon, Fake, daemon, fake
from tests.kit.engine import Dockerd
from tests.kit.fhost import Host
from tests.kit.images import load
from tests.kit.required import need

#: All of the machine is searched, where the same test may run a second time.
RUN = uuid.uuid4().hex
#: The own environment of the daemon, which is that of its hosts as well.
OWN = {f"OWN_SECRET_{number}": f"own-{number}-{RUN[:10]}" for number in range(20)}
VAULTED, GRANTED, OTHER = f"vaulted-{RUN[:10]}", OWN["OWN_SECRET_7"], f'in "env"/of other-{RUN[:6]}'
LITERAL, HOSTS = f"literal-{RUN[:10]}", f"of-the-host-{RUN[:8]}"
SHAPED = f"ghp_{RUN}wxyz"
SYSTEM_PYTHON = "/usr/bin/python3"
MARKERS = (*OWN.values(), VAULTED, OTHER, LITERAL, HOSTS, SHAPED)
RUNTIMES = (
    pytest.param("bare"),
    pytest.param("bwrap", marks=pytest.mark.bwrap),
    pytest.param("landlock"),
)
#: Tells everything it has in all forms, as programs do that fail.
TELL = (
    'env >&2; printf %s "$A_TOKEN" | base64 -w0 >&2; printf "\\nuser:%s" "$A_TOKEN" | base64 -w0 >&2; echo >&2; '
    'printf "%s" "$A_TOKEN" >&2; sleep 0.05; printf "\\n%.9s" "$A_TOKEN" >&2; sleep 0.05; '
    'printf "%s\\n" "${A_TOKEN#?????????}" >&2; echo "$A_TOKEN is no message"; '
)


def forms(marker: str) -> Iterator[bytes]:
    """Yield what would show a marker to somebody who looks for it."""
    yield marker.encode()
    yield json.dumps(marker)[1:-1].encode()
    for before in range(3):
        yield base64.b64encode(bytes(before) + marker.encode())[4:-4]


def shown(data: bytes, markers: Iterable[str] = MARKERS) -> list[str]:
    """Return the markers that are in some bytes, in whatever form."""
    return [marker for marker in markers if any(form in data for form in forms(marker))]


def servers(place: dict[str, str]) -> list[Fake]:
    """Return servers that get secrets from everywhere, and fail in every way; ``place`` is what they run in."""

    def told(name: str, script: str, **entry: Any) -> Fake:
        common = {**place, "credentials": {"A_TOKEN": "vault:one"}, "env": {"LITERAL_TOKEN": LITERAL}}
        return fake(name, entry={**common, **entry}, shell=TELL.replace("$", "$$") + script)

    once = {"budget": {"restarts": 0}}
    given = {"A_TOKEN": "vault:one", "B_TOKEN": "env:OWN_SECRET_7"}
    return [
        fake(
            "good",
            entry={
                **place,
                "credentials": given,
                "inherit": ["HOST_TOKEN"],
                "env": {"LITERAL_TOKEN": LITERAL},
                "warn_on_echo": True,
            },
        ),
        fake("neighbour", entry={**place, "credentials": {"A_TOKEN": "vault:two"}}),
        told("fatal", "exit 1", **once),
        told("late", "exec sleep 60", start_timeout="1s", **once),
        told("crash", "exec @CMD@", restart="never"),
        fake("locked", entry={**place, "credentials": {"A_TOKEN": "vault:nothing"}, **once}),
        fake("missing", entry={**place, "command": ["no-such-program"], "credentials": given, **once}),
    ]


def give_away(d: Daemon) -> None:
    """Let servers have a copy of their program and no file of root: Landlock does not hold those that run as root.

    The copy is in a place of its own, as what is around it cannot be listed.
    """
    shown = d.home / "shown"
    kit = shutil.copytree(KIT, shown / "tests" / "kit")
    for path in (d.work, *d.work.rglob("*"), shown, *shown.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, 1234, 1234)
        path.chmod(0o777)
    config = tomllib.loads(d.config.read_text())
    for server in config["servers"].values():
        server["mounts"] = [mount for mount in server["mounts"] if mount["path"] != sys.base_prefix]
    need(os.access(SYSTEM_PYTHON, os.X_OK), SYSTEM_PYTHON)
    text = tomli_w.dumps(config).replace(f"{KIT}/", f"{kit}/").replace(str(KIT), str(shown))
    d.write_config(text.replace(PYTHON, SYSTEM_PYTHON))


async def refused(d: Daemon, name: str) -> dict[str, Any]:
    """Return the error that a host gets from a server that does not start."""
    host = d.host(name)
    version = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    answer = await host.request("initialize", version, timeout=60)
    assert answer.error is not None, answer
    return answer.error


def family(pid: int) -> set[int]:
    """Return a process and everything below it."""
    return {pid, *probe.descendants(pid)}


def look_at_processes(allowed: dict[str, set[int]]) -> None:
    """Look that no marker is on a command line, and in nobody's environment but theirs who may have it."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes()
            environ = Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        assert shown(command) == [], f"on the command line of {name}"
        found = [marker for marker in shown(environ) if int(name) not in allowed.get(marker, set())]
        assert found == [], f"in the environment of {name}: {command!r}"


def look_at_limits(*pids: int) -> None:
    """Look that a crash leaves no memory in a file."""
    for pid in pids:
        assert re.search(r"Max core file size +0 +0", Path(f"/proc/{pid}/limits").read_text()), pid


def look_at_engine(engine: Dockerd) -> None:
    """Look that no marker is in what the engine tells everybody who may ask it."""
    names = engine.containers()
    assert len(names) >= 2, names
    told = json.dumps([engine.client.inspect_container(name) for name in names]).encode()
    assert shown(told) == [], "docker inspect"


def look_at_files(d: Daemon) -> None:
    """Look that no file has a marker but the one that the person wrote."""
    # The fixtures keep what they said to each other in these.
    theirs = {d.config, *d.work.rglob("*"), *d.taps.rglob("*")}
    looked = []
    for place in (d.home, Path("/dev/shm")):
        for path in place.rglob("*"):
            if path in theirs or path.is_symlink() or not path.is_file():
                continue
            looked.append(path.name)
            assert shown(path.read_bytes()) == [], path
    assert {"daemon.err", "good.log", "fatal.log"} <= set(looked)
    assert not [name for name in looked if name.startswith("core")]


async def look_at_commands(d: Daemon, *words: str) -> str:
    """Return what a command prints, after looking for markers."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "supervisord_mcp", *words],
        env={name: value for name, value in d.env.items() if name not in OWN},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert shown(done.stdout + done.stderr) == [], words
    return done.stdout.decode()


def environment_of(host_answer: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(host_answer)["env"]
    return found


async def use(host: Host, runtime: str) -> None:
    """Look that the right server has the right values, unchanged."""
    found = environment_of((await host.call("env")).text)
    wanted = {"A_TOKEN": VAULTED, "B_TOKEN": GRANTED, "LITERAL_TOKEN": LITERAL, "HOST_TOKEN": HOSTS}
    assert {name: found.get(name) for name in wanted} == wanted
    assert shown("\n".join(found.values()).encode()) == [GRANTED, VAULTED, LITERAL, HOSTS], runtime


@pytest.mark.parametrize("runtime", RUNTIMES)
@bounded(300)
async def test_no_secret_is_where_it_does_not_belong(runtime: str) -> None:
    await search({"runtime": runtime})


@bounded(300)
async def test_no_secret_of_a_container_is_where_it_does_not_belong(engine: Dockerd) -> None:
    image = load(engine.client, "fake")
    await search({"runtime": "container", "engine": engine.url, "image": image, "pull": "never"}, engine)


async def search(place: dict[str, str], engine: Dockerd | None = None) -> None:
    """Use servers that have secrets, in one kind of place, and look everywhere."""
    runtime, settings = place["runtime"], {"log_level": "debug"}
    async with daemon(env=OWN, start=False) as d:
        paths = find_paths(d.env, os.getuid())
        paths.state_dir.mkdir(mode=0o700)
        vault = Vault(paths, d.env)
        vault.put("one", VAULTED, key=NewKey("file"))
        vault.put("two", OTHER)
        d.configure(*servers(place), settings=settings)
        if runtime == "landlock":
            give_away(d)
        await d.start()
        host = await d.connected("good", env={"HOST_TOKEN": HOSTS})
        await use(host, runtime)
        neighbour = await d.connected("neighbour")
        assert environment_of((await neighbour.call("env")).text)["A_TOKEN"] == OTHER
        errors = await asyncio.gather(*(refused(d, name) for name in ("fatal", "late", "locked", "missing")))
        # The first and the second said a lot, and are quoted.
        assert "stderrTail" in errors[0].get("data", {}), errors[0]
        assert "***" in errors[0]["message"]
        assert "vault:nothing" in errors[2]["message"]
        crashing = await d.connected("crash")
        call = crashing.post_call("slow", seconds=30)
        [crash] = await d.instances("crash")
        await asyncio.sleep(0.1)
        os.kill(crash["pid"], signal.SIGKILL)
        errors.append((await crashing.answer_of(call, timeout=20)).error or {})
        assert errors[-1].get("data", {}).get("reason") == "server_exited", errors[-1]
        assert shown(json.dumps(errors).encode()) == []

        trees = {name: family((await d.instances(name))[0]["pid"]) for name in ("good", "neighbour")}
        hosts = set().union(*(family(one.pid) for one in d.hosts))
        assert d.process is not None
        owners = hosts | {d.process.pid}
        allowed = dict.fromkeys(OWN.values(), owners) | {VAULTED: trees["good"], LITERAL: trees["good"]}
        allowed |= {OTHER: trees["neighbour"], HOSTS: family(host.pid) | trees["good"]}
        allowed[GRANTED] = owners | trees["good"]
        look_at_processes(allowed)
        look_at_files(d)
        look_at_limits(d.process.pid, *trees["good"])
        if engine is not None:
            look_at_engine(engine)

        status = json.dumps([await d.status(), [event async for _, event in d.stream("events", follow=False)]])
        assert shown(status.encode()) == []
        assert "***" in status
        assert '"kind": "echo"' in status
        if runtime == "bare":  # commands and faults are the same whatever servers run in
            await look_at_what_people_see(d)
            await look_at_what_is_refused(d)

        # The daemon dies, and the next one goes on with what the hosts need.
        old = await d.pid()
        os.kill(old, signal.SIGABRT)
        await d.ended(old)
        host_again = environment_of((await neighbour.call("env", timeout=60)).text)
        assert host_again["A_TOKEN"] == OTHER
        look_at_files(d)


async def look_at_what_people_see(d: Daemon) -> None:
    """Look that commands show that something happened, and no marker."""
    log = await look_at_commands(d, "logs", "fatal", "-n", "500")
    assert "A_TOKEN=***" in log
    assert "LITERAL_TOKEN=***" in log
    for words in ("list --json", "config show", "config check", "secret list", "explain neighbour"):
        await look_at_commands(d, *words.split())


async def look_at_what_is_refused(d: Daemon) -> None:
    """Look that a secret in a command is refused, by commands and by the daemon, in words that do not have it."""
    kept = d.config.read_text()
    every = ([f"--token={SHAPED}"], [f"https://me:{SHAPED}@host.test"], ["--key", VAULTED])
    for number, words in enumerate(every):
        d.write_config(kept + tomli_w.dumps({"servers": {f"open{number}": {"command": ["server", *words]}}}))
        problems = await _faults(d, f"servers.open{number}.command")
        assert "exposed = [" in problems
        assert shown(problems.encode()) == []
    fault = await asyncio.to_thread(_check, d)
    assert "vault:one" in fault
    assert shown(fault.encode()) == []
    d.write_config(kept)


def _check(d: Daemon) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "supervisord_mcp", "config", "check"],
        env=d.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    return done.stdout + done.stderr


async def _faults(d: Daemon, key: str) -> str:
    """Return what the daemon finds wrong with its configuration, once it found a fault of a key."""
    problems: list[str] = []
    for _ in range(400):
        problems = (await d.status())["daemon"]["problems"]
        if any(key in problem for problem in problems):
            return "\n".join(problems)
        await asyncio.sleep(0.05)
    raise AssertionError(f"the daemon finds no fault of {key}: {problems}")


_CRASH = """
import asyncio, logging, sys, threading
from supervisord_mcp import daemon
from supervisord_mcp.credentials.masking import masker
daemon._log_to_stderr()
value = sys.stdin.read()
masker.learn(value, "vault:mine")
def fail(what):
    raise ValueError(f"{what}: {value}")
async def main():
    async def work():
        fail("in a task")
    asyncio.get_running_loop().call_soon(fail, "in the loop")
    asyncio.ensure_future(work())
    await asyncio.sleep(0.01)
asyncio.run(main())
logging.getLogger("x").error("logged: %s", value)
try:
    fail("caught")
except ValueError:
    logging.getLogger("x").exception("with a traceback")
thread = threading.Thread(target=fail, args=("in a thread",))
thread.start()
thread.join()
fail("at the end")
"""


def test_what_a_crash_prints_is_masked() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CRASH], input=OTHER, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 1
    assert shown(done.stderr.encode()) == []
    for place in ("in the loop", "in a task", "logged", "caught", "in a thread", "at the end"):
        assert f"{place}: ***" in done.stderr, done.stderr
