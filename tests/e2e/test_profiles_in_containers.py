"""What shipped profiles promise holds in a container as well, looked at from inside."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.config.lint import risk_of
from supervisord_mcp.config.models import Mount
from supervisord_mcp.config.profile_files import names_in, profiles_directory
from supervisord_mcp.config.profiles import Profiles
from supervisord_mcp.errors import ConfigError
from tests.e2e.test_shipped_profiles import Shop
from tests.kit import images
from tests.kit.bounded import bounded
from tests.kit.engine import Dockerd

#: No entry names the one for installations; the other is tested by what it is refused without.
USED = sorted(names_in(profiles_directory()) - {"install", "docker-socket"})
#: Asks everything at once: a container takes longer to start than to answer.
QUESTIONS = """
import ctypes, json, os, resource, socket
libc = ctypes.CDLL(None, use_errno=True)
def works(act):
    try:
        act()
        return True
    except OSError:
        return False
def size(place):
    found = os.statvfs(place)
    return found.f_blocks * found.f_frsize
def first(*paths):
    return next(open(path).read().strip() for path in paths if os.path.exists(path))
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
group = "/sys/fs/cgroup"
print(json.dumps({
    "inet": works(lambda: socket.socket(socket.AF_INET).close()),
    "unix": works(lambda: socket.socket(socket.AF_UNIX).close()),
    "reads": works(lambda: os.listdir(os.environ["PROJECT"])),
    "writes": works(lambda: open(os.environ["PROJECT"] + "/new", "w").close()),
    "beside": works(lambda: os.listdir(os.environ["NEIGHBOUR"])),
    "root": works(lambda: open("/new", "w").close()),
    "tmp": size("/tmp"), "shm": size("/dev/shm"), "home": size(os.environ["HOME"]),
    "nofile": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
    "memory": int(first(group + "/memory.max", group + "/memory/memory.limit_in_bytes")),
    "rights": int(status["CapEff"], 16), "kept": int(status["NoNewPrivs"]), "filter": int(status["Seccomp"]),
    "network": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line],
    "traced": libc.ptrace(0, 0, 0, 0) == 0,
    "userns": libc.unshare(0x10000000) == 0,
}))
"""


@pytest.fixture
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="smcp-", dir="/var/tmp") as folder:
        yield Shop(Path(folder))


def shipped() -> Profiles:
    return Profiles(Path("/nowhere"), profiles_directory(), "/home/nobody")


@pytest.mark.parametrize("profile", USED)
@bounded(60)
async def test_a_profile_holds(engine: Dockerd, shop: Shop, profile: str) -> None:
    promised = shipped().effective(profile).profile
    lines = await shop.run(
        profile,
        *("python3", "-c", QUESTIONS),
        runtime="container",
        image=images.load(engine.client, "python"),
        engine=engine.url,
        # Without any capability root is only whom the project belongs to.
        container={"user": f"{os.getuid()}:{os.getgid()}"},
    )
    assert lines, "it said nothing"
    found: dict[str, Any] = json.loads(lines[0])
    access = {mount.access for mount in promised.mounts if mount.path == "${project}"}
    assert found == {
        "inet": "inet" in promised.seccomp.families,
        "unix": promised.seccomp.unix,
        "reads": bool(access),
        "writes": access == {"rw"},
        "beside": False,
        "root": False,
        "tmp": promised.limits.tmp,
        "shm": promised.limits.shm,
        "home": promised.limits.home,
        "nofile": promised.limits.nofile,
        "memory": promised.limits.memory,
        "rights": 0,
        "kept": 1,
        "filter": 2,
        "network": ["lo"],
        "traced": promised.seccomp.ptrace,
        "userns": promised.seccomp.userns,
    }


@bounded(60)
async def test_the_socket_of_an_engine_has_to_be_meant_twice(engine: Dockerd, shop: Shop) -> None:
    entry = {"runtime": "container", "image": "any", "engine": engine.url}
    with pytest.raises(ConfigError, match='write confirm = "docker-socket"'):
        await shop.run("docker-socket", "sh", **entry)
    with pytest.raises(ConfigError, match='write permit = \\["engine-socket"\\]'):
        await shop.run("docker-socket", "sh", confirm="docker-socket", **entry)
    assert risk_of(Mount(path="/var/run/docker.sock"), "/home/nobody")


@pytest.mark.parametrize("profile", USED)
def test_every_profile_has_images_for_packages(profile: str) -> None:
    container = shipped().effective(profile).profile.container
    assert container.npx.startswith("node:")
    assert container.uvx.startswith("python:")
    assert not container.user, "whose it runs as, the image says"
