"""Whatever profiles and an entry say of mounts: each path they promise has the promised access, and no other has any.

What is promised is worked out here, from the texts alone. It is compared with the steps that build the sandbox, for
many profiles, and with what a program finds in a real one, for some.
"""

from __future__ import annotations

import json
import posixpath
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisord_mcp.config.load import load
from supervisord_mcp.config.variables import escape
from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launch, Launcher
from supervisord_mcp.runtimes.sandbox import HOME, Features, steps
from tests.config.places import paths_in
from tests.kit.bounded import bounded
from tests.runtimes.conformance import read

#: Directories below the top, each with a file; "p" is the project. Names that begin alike are no parents.
PLACES = ("a", "a/b", "a/b/c", "a-z", "a.b", "d", "d/e", "d/e/f", "p", "p/src", "p/src/x", "p/out")
#: What may be mounted, and is looked at: each directory, and the file in each.
THINGS = (*PLACES, *(f"{place}/file" for place in PLACES))
REAL = 12

SCRIPT = """
top=$1; shift
for place in "$@"; do
  r=-; w=-; made=-
  cat "$top/$place/file" >/dev/null 2>&1 && r=r
  (echo + >> "$top/$place/file") 2>/dev/null && w=w
  (: > "$top/$place/.written") 2>/dev/null && made=w
  echo "$place/file $r$w"
  echo "$place $made"
done
echo ==
find "$top" -type f ! -name .written 2>/dev/null
echo ==
while read -r _ _ _ _ place options _; do
  case ",$options," in *,rw,*) echo "$place";; esac
done < /proc/self/mountinfo
"""


@dataclass(frozen=True)
class Case:
    """Two profiles and an entry; a list of mounts that is None is not said."""

    parent: list[dict[str, Any]]
    child: list[dict[str, Any]] | None
    entry: list[dict[str, Any]]

    def promised(self, project: str) -> dict[str, str]:
        """Return the access by path."""
        said = (self.parent if self.child is None else self.child, self.entry)
        found: dict[str, str] = {}
        for mounts in said:
            for mount in mounts:
                path = posixpath.normpath(mount["path"].replace("${project}", project))
                if not mount.get("optional"):
                    found[path] = mount.get("access", "ro")
        return found


def drawn(random: Random, top: Path) -> Case:
    """Return a case for a tree of files."""

    def mounts() -> list[dict[str, Any]]:
        # In any order: whoever writes a child before its parent means the same.
        chosen = random.sample(THINGS, random.randint(0, 6))
        found = [_mount(random, place, top) for place in chosen]
        if random.random() < 0.3:
            found.append({"path": f"{top}/nowhere", "optional": True})
        return found

    return Case(mounts(), random.choice((None, mounts())), mounts())


def _mount(random: Random, place: str, top: Path) -> dict[str, Any]:
    path = f"{top}/{place}"
    if place.split("/")[0] == "p" and random.random() < 0.5:
        path = "${project}" + place.removeprefix("p")
    ending = "" if place.endswith("/file") else random.choice(("", "", "/", "/."))
    mount: dict[str, Any] = {"path": path + ending}
    return {**mount, "access": random.choice(("ro", "rw"))} if random.random() < 0.8 else mount


class World:
    """A tree of files, and a configuration that grants some of it."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "top"
        self.project = str(self.top / "p")
        self.paths = paths_in(folder / "smcp")
        for place in PLACES:
            (self.top / place).mkdir(parents=True, exist_ok=True)
            (self.top / place / "file").write_text(place)
        (self.top / "secret").write_text("never granted")
        self.paths.profiles_dir.mkdir(parents=True)

    def launch(self, case: Case) -> Launch:
        """Write the profiles and the entry, and resolve it."""
        self._write("parent", {"mounts": case.parent})
        own = {} if case.child is None else {"mounts": case.child, "override": ["mounts"]}
        self._write("child", {"extends": "parent", **own})
        command = ["/bin/sh", "-c", escape(SCRIPT), "sh", str(self.top), *PLACES]
        # The words would make it one that uses the project, in which nothing is granted.
        entry = {"command": command, "profile": "child", "mounts": case.entry, "cwd": "/tmp"}
        self.paths.config_file.write_text(tomli_w.dumps({"servers": {"s": entry}}))
        loaded = load(self.paths)
        environ = {"HOME": str(self.top.parent / "home"), "PATH": "/usr/bin:/bin"}
        launcher = Launcher(self.paths, environ, f"t-{self.top}/", [])
        facts = Facts("s", project=self.project, environ={})
        return launcher.resolve("s", loaded.config.servers["s"], facts)

    def written(self) -> set[str]:
        """Return the directories and files that were written since this was last asked."""
        found = {place for place in PLACES if (self.top / place / ".written").exists()}
        for place in found:
            (self.top / place / ".written").unlink()
        for place in PLACES:
            file = self.top / place / "file"
            if file.read_text() != place:
                found.add(f"{place}/file")
                file.write_text(place)
        return found

    def expected(self, case: Case) -> dict[str, str]:
        """Return what is promised for every place: "r" or "rw" of the innermost mount around it, else "-"."""
        promised = case.promised(self.project)
        return {thing: _access(f"{self.top}/{thing}", promised) for thing in THINGS}

    def _write(self, name: str, data: dict[str, Any]) -> None:
        (self.paths.profiles_dir / f"{name}.toml").write_text(tomli_w.dumps({"description": name, **data}))


def _access(path: str, promised: dict[str, str]) -> str:
    around = [mount for mount in promised if path == mount or path.startswith(f"{mount}/")]
    if not around:
        return "-"
    return "r" if promised[max(around, key=len)] == "ro" else "rw"


def planned(launch: Launch, top: Path) -> dict[str, str]:
    """Return the access to every place once all steps of a sandbox are done: the last bind around it counts."""
    found = dict.fromkeys(THINGS, "-")
    for step in steps(launch.prepared(), Features(disable_userns=True, size=True), as_root=False):
        words = getattr(step, "words", step)
        if isinstance(words, tuple) and words[0] in ("--bind", "--ro-bind"):
            kind, source, target = words
            for thing in THINGS:
                path = f"{top}/{thing}"
                if path == target or path.startswith(f"{target}/"):
                    assert source == target
                    found[thing] = "rw" if kind == "--bind" else "r"
    return found


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    # Not below /tmp: every sandbox has one of its own, in which it may write.
    with tempfile.TemporaryDirectory(prefix="smcp-", dir="/var/tmp") as folder:
        yield World(Path(folder))


@settings(max_examples=100)
@given(st.randoms(use_true_random=False))
def test_the_plan_gives_what_is_promised_and_nothing_else(world: World, random: Random) -> None:
    case = drawn(random, world.top)
    assert planned(world.launch(case), world.top) == world.expected(case)


@pytest.mark.bwrap
@pytest.mark.usefixtures("subreaper")
@pytest.mark.parametrize("seed", range(REAL))
@bounded(60)
async def test_a_sandbox_gives_what_is_promised_and_nothing_else(world: World, seed: int) -> None:
    case = drawn(Random(seed), world.top)
    launch = world.launch(case)
    child = await launch.start(lambda: None, lambda _: None)
    try:
        told = (await read(child.stdout)).decode()
    finally:
        await child.aclose()
    access, files, writable = (part.strip().splitlines() for part in told.split("==\n"))
    expected = world.expected(case)
    said = {"-": "--", "r": "r-", "rw": "rw"}
    assert dict(line.split(" ") for line in access) == {
        thing: said[what] if thing.endswith("/file") else said[what][-1] for thing, what in expected.items()
    }, json.dumps([case.parent, case.child, case.entry])
    assert set(files) == {f"{world.top}/{thing}" for thing, what in expected.items() if _is_shown(thing, what)}
    own = {"/tmp", "/dev/shm", "/run", HOME}
    granted = {path for path, what in case.promised(world.project).items() if what == "rw"}
    others = {place for place in writable if place not in own and not place.startswith(("/dev", "/proc"))}
    assert others <= granted
    assert world.written() == {thing for thing, what in expected.items() if what == "rw"}


def _is_shown(thing: str, what: str) -> bool:
    return thing.endswith("/file") and what != "-"
