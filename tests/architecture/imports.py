"""Who may import what: layers, homes of heavy libraries, purity."""

from __future__ import annotations

import graphlib
import sys
from collections.abc import Iterator

from tests.architecture.rules import rule
from tests.architecture.source import PACKAGE, Import, Module, Project, Violation

#: A module imports only from lower layers or its own folder. The empty name is the package's ``__init__``.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"", "errors", "eventloop", "omissions", "shim"}),
    frozenset({"protocol", "policy", "egress"}),
    frozenset({"config", "runtimes", "systemd", "pipes", "hangup", "endpoint", "facts", "loglines", "rotated"}),
    frozenset({"credentials"}),
    frozenset(
        {
            "images",
            "packages",
            "hosts",
            "catalogues",
            "verdicts",
            "stopped",
            "observer",
            "logs",
            "journal",
            "reasons",
            "examination",
            "rights",
            "probes",
        }
    ),
    frozenset({"contained", "machine"}),
    frozenset({"doctor", "launch", "session", "conduit", "remarks", "adoption", "breaches", "traffic", "metrics"})
    | frozenset({"logbooks", "announcements", "audit", "journald", "following"}),
    frozenset({"blueprint", "explanation", "congestion", "echoes"}),
    frozenset({"server"}),
    frozenset({"reports"}),
    frozenset({"housing", "starting"}),
    frozenset({"supervisor"}),
    frozenset(
        {
            "caller",
            "listener",
            "http",
            "reloader",
            "inspector",
            "admission",
            "interview",
            "rotation",
            "taps",
            "usage",
            "exporter",
        }
    ),
    frozenset({"replays"}),
    frozenset({"control", "reception", "hostwatch"}),
    frozenset({"daemon"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)
LAYER = {place: number for number, places in enumerate(LAYERS) for place in places}

#: Lower layers that a folder must not know all the same.
STRANGERS = {"runtimes": {"config", "protocol", "policy"}}

#: Heavy or single-purpose libraries and the only places that import them.
HOMES = {
    "pydantic": {"config"},
    "pydantic_core": {"config"},
    "tomli_w": {"config", "hosts"},
    "tomlkit": {"config", "hosts"},
    "matplotlib": {"cli"},
    "ruamel": {"hosts"},
    "watchdog": {"reloader"},
    "docker": {"runtimes.container"},
    "ahocorasick_rs": {"credentials"},
    "cryptography": {"credentials"},
    "keyring": {"credentials"},
    "starlette": {"http", "inspector"},
    "uvicorn": {"http", "inspector"},
    "prometheus_client": {"metrics"},
    "systemd": {"systemd"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
}

PURE_FOLDERS = {"protocol", "policy"}
#: What pure code may import: nothing here has a clock, randomness or I/O.
PURE = (
    *("__future__", "abc", "base64", "binascii", "bisect", "collections", "contextlib", "copy", "dataclasses"),
    *("difflib", "enum", "fnmatch", "functools", "hashlib", "heapq", "hmac", "itertools", "json", "math", "msgspec"),
    *("operator", "re", "shlex", "string", "struct", "textwrap", "types", "typing", "unicodedata", "urllib.parse"),
)
IMPURE_CALLS = {"open", "input", "print", "breakpoint", "exec", "eval"}

#: The shim starts with every host: each further import is paid at every start. (socket brings os, select and more.)
SHIM = ("__future__", "array", "errno", "os", "select", "signal", "socket", "stat", "sys")


@rule
def layers(project: Project) -> Iterator[Violation]:
    """A module imports only from lower layers or its own folder."""
    for module, imported, target in _inside(project):
        if module.place == target.place:
            continue
        own, other = LAYER.get(module.place), LAYER.get(target.place)
        if own is not None and other is not None and other >= own:
            yield module.violation(
                imported, f"{module.place} (layer {own}) imports {target.place or PACKAGE} (layer {other})"
            )
        elif target.place in STRANGERS.get(module.place, ()):
            yield module.violation(imported, f"{module.place} must not know {target.place}")


@rule
def every_module_has_a_layer(project: Project) -> Iterator[Violation]:
    """A new module is given a layer before it is imported anywhere."""
    for module in project.modules.values():
        if module.place not in LAYER:
            yield module.violation(1, f"{module.place} is not in the layer table")


@rule
def no_cycles(project: Project) -> Iterator[Violation]:
    """No chain of imports comes back to where it started, lazy ones included."""
    graph: dict[str, set[str]] = {name: set() for name in project.modules}
    for module, _, target in _inside(project):
        if module.name != target.name:
            graph[module.name].add(target.name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle: list[str] = error.args[1]
        yield project.modules[cycle[0]].violation(1, " is imported by ".join(cycle))


@rule
def absolute_imports(project: Project) -> Iterator[Violation]:
    """Imports are absolute and name what they take."""
    for module in (*project.modules.values(), *project.tests):
        for imported in module.imports():
            if imported.level:
                yield module.violation(imported, f"relative import of {imported.target}")


@rule
def heavy_libraries_have_one_home(project: Project) -> Iterator[Violation]:
    """A heavy library is imported in one place, so that the rest of the program does not pay for it."""
    for module in project.modules.values():
        inside = module.name.removeprefix(f"{PACKAGE}.")
        for imported in module.imports():
            homes = HOMES.get(imported.target.partition(".")[0])
            if homes and not any(f"{inside}.".startswith(f"{home}.") for home in homes):
                yield module.violation(imported, f"{imported.target} is at home in {', '.join(sorted(homes))}")


@rule
def pure_folders(project: Project) -> Iterator[Violation]:
    """Decisions and the meaning of messages have no clock, no randomness and no I/O."""
    for module in project.modules.values():
        if module.place not in PURE_FOLDERS:
            continue
        for imported in module.imports():
            if not imported.within(PACKAGE, *PURE):
                yield module.violation(imported, f"{imported.target} in a pure folder")
        for name, call in module.calls():
            if name in IMPURE_CALLS:
                yield module.violation(call, f"{name}() in a pure folder")


@rule
def shim_is_light(project: Project) -> Iterator[Violation]:
    """The shim imports a handful of stdlib modules and nothing of the package: it runs as a bare file.

    Where something already went wrong or must wait, its other parts and the whole standard library are affordable.
    """
    for module in project.modules.values():
        if module.place != "shim":
            continue
        first = module.name == f"{PACKAGE}.shim"
        for imported in module.imports():
            target = project.resolve(imported)
            affordable = target.place == "shim" if target else is_stdlib(imported)
            if not affordable or (first and not imported.lazy and not imported.within(*SHIM)):
                yield module.violation(imported, f"the shim imports {imported.target}")


@rule
def entry_point_is_light(project: Project) -> Iterator[Violation]:
    """``smcp connect`` goes through ``cli/__init__``, so that imports libraries only inside functions."""
    if entry := project.modules.get(f"{PACKAGE}.cli"):
        for imported in entry.imports():
            target = project.resolve(imported)
            light = target.place in LAYERS[0] if target else is_stdlib(imported)
            if not light and not imported.lazy:
                yield entry.violation(imported, f"{imported.target} is imported at every start")


def is_stdlib(imported: Import) -> bool:
    """Return whether an import is of the standard library."""
    return imported.target.partition(".")[0] in sys.stdlib_module_names


def _inside(project: Project) -> Iterator[tuple[Module, Import, Module]]:
    for module in project.modules.values():
        for imported in module.imports():
            if target := project.resolve(imported):
                yield module, imported, target
