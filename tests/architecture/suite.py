"""What the tests themselves keep to: they mirror the source, do not hope, and do not measure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules import rule
from tests.architecture.source import PACKAGE, Function, Module, Project, Violation, called, dotted

#: Families of hosts: what each says is compared with files as people have them.
FAMILIES = (
    *("amazon_q", "amp", "antigravity", "claude_code", "claude_desktop", "cline", "codex", "continue_dev", "copilot"),
    *("crush", "cursor", "factory", "gemini", "goose", "junie", "kilo", "kiro", "lm_studio", "opencode", "roo", "trae"),
    *("vscode", "warp", "windsurf", "zed"),
)
#: Modules whose proof is a test of another name, and which.
WITNESSES: dict[str, str] = {
    **{f"hosts.families.{name}": "tests/hosts/test_catalogue.py" for name in FAMILIES},
    "packages.inside.python": "tests/packages/test_volumes.py",
    # They are the parts of one launch, which is only seen as a whole.
    **{
        f"runtimes.container.{name}": "tests/runtimes/container/test_runtime.py"
        for name in ("child", "entrance", "gate", "launching", "network", "starting", "sweeping", "watch")
    },
    # They run in a sandbox, and what came of each is what is tested.
    **{
        f"probes.inside.{name}": "tests/probes/test_trial.py"
        for name in ("calls", "files", "leaks", "processes", "rights", "run", "sockets", "trying")
    },
}

#: The cases from the field say within which time a person must have an answer; that is what they are about.
CASES = "tests/cases/"

CLOCKS = {
    "monotonic",
    "monotonic_ns",
    "perf_counter",
    "perf_counter_ns",
    "time",
    "time_ns",
    "current_time",
    "process_time",
}
CLOCK_OWNERS = {"time", "anyio", "loop", ""}
#: Seconds that are long enough to show that nothing happens, and those that stand for ever (something else ends them).
PAUSE, EVER = 1.0, 60.0
#: Ways to skip a test, and the one place that may.
SKIPS = {"pytest.skip", "pytest.importorskip", "pytest.mark.skip", "pytest.mark.skipif", "unittest.skipIf"}
ASKING = "tests/kit/required.py"
SLEEPS = {"time.sleep", "anyio.sleep", "asyncio.sleep", "sleep"}


@rule
def tests_mirror_the_source(project: Project) -> Iterator[Violation]:
    """The test of a module is found without searching."""
    for module in project.modules.values():
        if module.is_init or module.place == "__main__":
            continue
        path = Path(module.path).relative_to(PACKAGE)
        mirror = Path("tests", path.parent, f"test_{path.name}").as_posix()
        expected = WITNESSES.get(module.name.removeprefix(f"{PACKAGE}."), mirror)
        if not (project.root / expected).is_file():
            yield module.violation(1, f"its test {expected} is missing")


@rule
def no_hopeful_sleep(project: Project) -> Iterator[Violation]:
    """A test waits for what it needs in a bounded loop; a pause outside of one only shows that nothing happens."""
    for module in project.tests:
        looping = _inside_loops(module)
        awaited = {id(node.value) for node in ast.walk(module.tree) if isinstance(node, ast.Await)}
        for name, call in module.calls():
            if name not in SLEEPS or id(call) in looping:
                continue
            if name == "time.sleep" or (id(call) in awaited and PAUSE < _seconds(call) < EVER):
                yield module.violation(call, f"{name}() outside of a loop")


@rule
def no_assert_on_time(project: Project) -> Iterator[Violation]:
    """How long something takes is measured by the benchmark; a test that asserts it fails on a busy machine."""
    for module in project.tests:
        if module.path.startswith(CASES):
            continue
        looping = _inside_loops(module)
        for function in module.functions():
            timed = _names_of_times(function)
            for node in ast.walk(function):
                # In a loop the comparison is the bound of a wait.
                if isinstance(node, ast.Assert) and id(node) not in looping and _limits_time(node.test, timed):
                    yield module.violation(node, "asserts how long something took")


@rule
def no_silent_skip(project: Project) -> Iterator[Violation]:
    """What a test needs of the machine is asked for in one place, which fails where everything must be there."""
    for module in project.tests:
        if module.path == ASKING:
            continue
        for name, call in module.calls():
            if name in SKIPS and not _of_the_kind_of_machine(call):
                yield module.violation(call, f"{name}(); ask with need() of {ASKING}")


def _of_the_kind_of_machine(call: ast.Call) -> bool:
    """Return whether a mark skips a test for the processor, which no set-up can change."""
    return any(isinstance(node, ast.Attribute) and node.attr == "machine" for node in ast.walk(call))


def _inside_loops(module: Module) -> set[int]:
    loops = (node for node in ast.walk(module.tree) if isinstance(node, ast.For | ast.AsyncFor | ast.While))
    return {id(node) for loop in loops for node in ast.walk(loop)}


def _seconds(call: ast.Call) -> float:
    """Return how long a sleep takes; one that is computed counts as none."""
    match call.args:
        case [ast.Constant(value=int() | float() as seconds)]:
            return seconds
        case _:
            return 0.0


def _names_of_times(function: Function) -> set[str]:
    """Return the variables of a function that were computed from a clock, directly or through another one."""
    timed: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and _tells_time(node.value, timed):
            timed |= {dotted(target) for target in node.targets}
    return timed


def _limits_time(test: ast.expr, timed: set[str]) -> bool:
    """Return whether a test says that a time is short enough. That it is long enough is true on a slow machine too."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            left = node.left
            for operator, right in zip(node.ops, node.comparators, strict=True):
                small = right if isinstance(operator, ast.Gt | ast.GtE) else left
                if _tells_time(small, timed):
                    return True
                left = right
    return False


def _tells_time(node: ast.expr, timed: set[str]) -> bool:
    """Return whether an expression is a time; one that is only handed to a function is an argument like any other."""
    match node:
        case ast.Name(id=name):
            return name in timed
        case ast.Call():
            owner, _, name = called(node).rpartition(".")
            return name in CLOCKS and owner in CLOCK_OWNERS
        case ast.BinOp(left=left, right=right):
            return _tells_time(left, timed) or _tells_time(right, timed)
        case _:
            return False
