"""What a server in a container costs beside one in the native sandbox, and beside ``docker run`` by hand.

The engine is a Docker of the benchmark's own, which only root can start; elsewhere nothing is measured.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from contrib.bench.calls import percentile
from contrib.bench.figures import Bar, Figure, Sample
from contrib.bench.hosts import Host, crowd, flood
from contrib.bench.place import BOXED, TINY, Place
from contrib.bench.plan import Plan

ADDED_P50, COLD = Bar(0.3), Bar(1.1)
CONTAINED = "contained"
_HOSTS = 10
_RUN = ("run", "-i", "--rm", "--init", "--network", "none", "--log-driver", "none")
#: The tiny server in an image that has a Python of its own.
_COMMAND = ["/usr/bin/python3", "-I", "-S", TINY[-1]]


def containers(place: Place, plan: Plan) -> Iterator[Figure]:
    """Calls to a server in a container and in the sandbox by turns, and cold starts of it and of ``docker run``."""
    if os.geteuid() != 0 or not shutil.which("dockerd"):
        return
    # Only here: what starts an engine belongs to the tests.
    from tests.kit.engine import Dockerd
    from tests.kit.images import load

    with closing(Dockerd()) as engine:
        image = load(engine.client, "fake")
        with Place(settings=_entry(engine.url, image), copies=0) as own, ExitStack() as stack:
            by_hand = [shutil.which("docker") or "docker", "-H", engine.url, *_RUN]
            by_hand += ["-v", f"{Path(TINY[-1]).parent}:{Path(TINY[-1]).parent}:ro"]
            by_hand += ["--entrypoint", _COMMAND[0], image, *_COMMAND[1:]]
            commands = {BOXED: own.shim(BOXED), CONTAINED: own.shim(CONTAINED), "docker run": by_hand}
            hosts = {name: stack.enter_context(Host(line, own.environ)) for name, line in commands.items()}
            yield from _calls(hosts, plan)
            yield _floods(own, plan)
            yield from _starts(own, by_hand, plan)


def _calls(hosts: dict[str, Host], plan: Plan) -> Iterator[Figure]:
    middles: dict[str, list[float]] = {name: [] for name in hosts}
    for host in hosts.values():
        host.do("open")
        host.do("calls", count=plan.calls)
    for _ in range(plan.rounds):
        for name, host in hosts.items():
            taken = sorted(host.do("calls", count=plan.calls)["nanoseconds"])
            middles[name].append(percentile(taken, 50) / 1e6)
    boxed, contained, by_hand = (Sample.of(values) for values in middles.values())
    what = "added to a call by a container, p50, over the sandbox"
    yield Figure(what, "ms", contained.less(boxed), ADDED_P50, boxed, contained)
    yield Figure("… by `docker run -i` without smcp", "ms", by_hand.less(boxed), None, boxed, by_hand)


def _floods(place: Place, plan: Plan) -> Figure:
    counted: dict[str, list[float]] = {BOXED: [], CONTAINED: []}
    with ExitStack() as stack:
        crowds = {name: stack.enter_context(crowd(place.shim(name), place.environ, _HOSTS)) for name in counted}
        for _ in range(plan.floods):
            for name, values in counted.items():
                values.append(flood(crowds[name], plan.seconds))
    boxed, contained = (Sample.of(values) for values in counted.values())
    what = f"calls per second, {_HOSTS} hosts, a container over the sandbox"
    return Figure(what, "×", contained.over(boxed), None, boxed, contained, "/s")


def _starts(place: Place, by_hand: list[str], plan: Plan) -> Iterator[Figure]:
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(plan.starts):
        place.stop(CONTAINED)
        ours.append(place.start(CONTAINED) * 1e3)
        with Host(by_hand, place.environ) as host:
            theirs.append(float(host.do("open")["seconds"]) * 1e3)
    plain, contained = Sample.of(theirs), Sample.of(ours)
    yield Figure(
        "cold start in a container, over `docker run`", "×", contained.over(plain), COLD, plain, contained, "ms"
    )


def _entry(url: str, image: str) -> str:
    mount = json.dumps(str(Path(TINY[-1]).parent))
    return "\n".join(
        (
            f"[servers.{CONTAINED}]",
            'runtime = "container"',
            f"engine = {json.dumps(url)}",
            f"image = {json.dumps(image)}",
            f"command = {json.dumps(_COMMAND)}",
            'pull = "never"',
            f"mounts = [{{ path = {mount} }}]",
            "budget = { restarts = 1000, within = 60 }",
        )
    )
