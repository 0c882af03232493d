"""The rules of the architecture hold, and each of them can fail: a planted violation is found where it was planted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

# Imported for their rules, which register themselves.
from tests.architecture import imports, shape, suite, texts  # noqa: F401
from tests.architecture.rules import RULES
from tests.architecture.source import PACKAGE, Project, read

ROOT = Path(__file__).parents[1]

LONG_FUNCTION = "def f():\n" + "    x = 1\n" * 80
LOOP_WITH_BOUND = "def test():\n    end = monotonic() + 5\n    while f():\n        assert monotonic() < end"
DOCUMENTED = '"""Says what it is for."""\n'


@dataclass(frozen=True, slots=True)
class Plant:
    """Files that break exactly one rule, and the place where it must be found."""

    rule: str
    files: Mapping[str, str]
    found: str

    def __str__(self) -> str:
        return f"{self.rule}-{self.found}"


@dataclass(frozen=True, slots=True)
class Innocent:
    """Files that look like a violation and are none."""

    rule: str
    files: Mapping[str, str]


def source(path: str, text: str, **others: str) -> dict[str, str]:
    """Return files of the package: one at a path, and others as ``folder__module``."""
    files = {path: text} | {f"{name.replace('__', '/')}.py": content for name, content in others.items()}
    return {f"{PACKAGE}/{name}": content for name, content in files.items()}


FROM = f"from {PACKAGE}"

PLANTS = [
    Plant("layers", source("policy/a.py", f"{FROM}.protocol.b import c", protocol__b=""), "policy/a.py:1"),
    Plant("layers", source("pipes.py", f"def f():\n    {FROM} import server", server=""), "pipes.py:2"),
    Plant("layers", source("logs.py", f"import {PACKAGE}.launch", launch=""), "logs.py:1"),
    Plant("layers", source("runtimes/a.py", f"{FROM}.policy import b", policy__b=""), "runtimes/a.py:1"),
    Plant(
        "layers",
        source("errors.py", f"import importlib\nimportlib.import_module('{PACKAGE}.shim')", shim=""),
        "errors.py:2",
    ),
    Plant("every_module_has_a_layer", source("gadgets/a.py", ""), "gadgets/a.py:1"),
    Plant(
        "no_cycles", source("cli/a.py", f"{FROM}.cli import b", cli__b=f"def f():\n    import {PACKAGE}.cli.a"), "cli/"
    ),
    Plant("absolute_imports", source("cli/a.py", "from . import b"), "cli/a.py:1"),
    Plant("absolute_imports", source("cli/a.py", "from ..errors import SmcpError"), "cli/a.py:1"),
    Plant("heavy_libraries_have_one_home", source("server.py", "import matplotlib"), "server.py:1"),
    Plant(
        "heavy_libraries_have_one_home",
        source("daemon.py", "def f():\n    from rich.table import Table"),
        "daemon.py:2",
    ),
    Plant("heavy_libraries_have_one_home", source("runtimes/bwrap.py", "import docker"), "runtimes/bwrap.py:1"),
    Plant("heavy_libraries_have_one_home", source("policy/a.py", "import pydantic"), "policy/a.py:1"),
    Plant("pure_folders", source("protocol/a.py", "import os"), "protocol/a.py:1"),
    Plant("pure_folders", source("policy/a.py", "import math\nfrom time import monotonic"), "policy/a.py:2"),
    Plant("pure_folders", source("policy/a.py", "from urllib import request"), "policy/a.py:1"),
    Plant("pure_folders", source("protocol/a.py", "from pathlib import Path"), "protocol/a.py:1"),
    Plant("pure_folders", source("protocol/a.py", "import anyio"), "protocol/a.py:1"),
    Plant("pure_folders", source("protocol/a.py", "def f(p):\n    return open(p)"), "protocol/a.py:2"),
    Plant("shim_is_light", source("shim.py", "import os\nimport json"), "shim.py:2"),
    Plant("shim_is_light", source("shim.py", f"{FROM}.errors import SmcpError", errors=""), "shim.py:1"),
    Plant("shim_is_light", source("shim.py", "def f():\n    import anyio"), "shim.py:2"),
    Plant("shim_is_light", source("shim.py", f"{FROM} import pump", pump=""), "shim.py:1"),
    Plant("shim_is_light", source("pump.py", f"{FROM} import errors", errors=""), "pump.py:1"),
    Plant("entry_point_is_light", source("cli/__init__.py", "import typer"), "cli/__init__.py:1"),
    Plant("entry_point_is_light", source("cli/__init__.py", f"{FROM} import daemon", daemon=""), "cli/__init__.py:1"),
    Plant(
        "init_files_hold_a_docstring", source("policy/__init__.py", DOCUMENTED + "import re"), "policy/__init__.py:2"
    ),
    Plant("init_files_hold_a_docstring", source("__init__.py", DOCUMENTED + "name = 'x'"), "__init__.py:2"),
    Plant("module_size", source("server.py", "x = 1\n" * 501), "server.py:501"),
    Plant("function_size", source("server.py", LONG_FUNCTION), "server.py:1"),
    Plant(
        "function_size",
        source("server.py", "class A:\n    async " + LONG_FUNCTION.replace("\n", "\n    ")),
        "server.py:2",
    ),
    Plant("parameters", source("server.py", "def f(a, b, /, c, d, *, e, f): ..."), "server.py:1"),
    Plant("parameters", source("server.py", "class A:\n    def f(self, a, b, c, d, e, f): ..."), "server.py:2"),
    Plant("docstrings", source("server.py", "x = 1"), "server.py:1"),
    Plant("docstrings", source("server.py", DOCUMENTED + "def f(): ..."), "server.py:2"),
    Plant(
        "docstrings", source("server.py", DOCUMENTED + "class A:\n    '''A.'''\n    def f(self): ..."), "server.py:4"
    ),
    Plant("names", source("cli/path_utils.py", ""), "cli/path_utils.py:1"),
    Plant("names", source("server.py", "class ServerManager: ..."), "server.py:1"),
    Plant("names", source("server.py", "def _quote_helper(): ..."), "server.py:1"),
    Plant("only_commands_print", source("server.py", "print('x')"), "server.py:1"),
    Plant("only_commands_print", source("control.py", "import sys\nsys.stderr.write('x')"), "control.py:2"),
    Plant("only_programs_exit", source("supervisor.py", "import sys\nsys.exit(1)"), "supervisor.py:2"),
    Plant("only_programs_exit", source("supervisor.py", "raise SystemExit(1)"), "supervisor.py:1"),
    Plant("tests_mirror_the_source", source("policy/a.py", ""), "policy/a.py:1"),
    Plant("no_hopeful_sleep", {"tests/test_a.py": "import time\ntime.sleep(0.1)"}, "tests/test_a.py:2"),
    Plant(
        "no_hopeful_sleep", {"tests/a/test_b.py": "async def test():\n    await anyio.sleep(5)"}, "tests/a/test_b.py:2"
    ),
    Plant(
        "no_assert_on_time",
        {"tests/test_a.py": "def test():\n    t = time.monotonic()\n    d = time.monotonic() - t\n    assert d < 1"},
        "tests/test_a.py:4",
    ),
    Plant(
        "no_silent_skip", {"tests/test_a.py": "import pytest\ndef test():\n    pytest.skip('x')"}, "tests/test_a.py:3"
    ),
    Plant(
        "no_silent_skip",
        {"tests/test_a.py": "@pytest.mark.skipif(True, reason='x')\ndef test(): ..."},
        "tests/test_a.py:1",
    ),
    Plant("no_registry_hosts", {"profiles/a.toml": "x = 1\nallow = ['" + "pypi" + ".org']"}, "profiles/a.toml:2"),
    Plant("no_registry_hosts", {"README.md": "registry." + "npmjs" + ".org"}, "README.md:1"),
]

INNOCENTS = [
    Innocent("layers", source("server.py", f"{FROM}.policy.b import c\n{FROM} import logs", policy__b="", logs="")),
    Innocent("layers", source("policy/a.py", f"{FROM}.policy import b\n{FROM} import __version__", policy__b="")),
    Innocent("no_cycles", source("cli/a.py", f"{FROM}.cli import b", cli__b="import typer")),
    Innocent("heavy_libraries_have_one_home", source("cli/a.py", "import typer, rich.table")),
    Innocent("pure_folders", source("policy/a.py", f"import collections.abc, msgspec\n{FROM}.errors import b")),
    Innocent("pure_folders", source("runtimes/a.py", "import os")),
    Innocent("shim_is_light", source("shim.py", "import sys\ndef f():\n    import subprocess")),
    Innocent("shim_is_light", source("shim.py", f"def f():\n    {FROM}.pump import P", pump="import subprocess")),
    Innocent("entry_point_is_light", source("cli/__init__.py", "import sys\ndef main():\n    import typer")),
    Innocent("init_files_hold_a_docstring", source("__init__.py", DOCUMENTED + "__version__ = '1'")),
    Innocent("parameters", source("server.py", "class A:\n    def f(self, a, b, c, d, e, *args, **kwargs): ...")),
    Innocent("parameters", source("cli/a.py", "def f(a, b, c, d, e, f): ...")),
    Innocent("docstrings", source("server.py", DOCUMENTED + "def _f(): ...\ndef g():\n    '''G.'''\n    def h(): ...")),
    Innocent(
        "docstrings",
        source(
            "runtimes/a.py",
            DOCUMENTED + "class B(Base):\n    '''B.'''\n    def f(self): ...",
            runtimes__base=DOCUMENTED + "class Base:\n    '''Base.'''\n    def f(self):\n        '''F.'''",
        ),
    ),
    Innocent("names", source("server.py", "class ManagedServer: ...\nfrom contextlib import contextmanager")),
    Innocent("only_commands_print", source("cli/a.py", "print('x')")),
    Innocent("only_programs_exit", source("daemon.py", "import sys\nsys.exit(1)")),
    Innocent("tests_mirror_the_source", source("policy/a.py", "") | {"tests/policy/test_a.py": ""}),
    Innocent("no_hopeful_sleep", {"tests/test_a.py": "while f():\n    time.sleep(0.1)"}),
    Innocent(
        "no_assert_on_time", {"tests/test_a.py": "def test():\n    t = time.monotonic()\n    assert f(now=t).state"}
    ),
    Innocent("no_silent_skip", {"tests/kit/required.py": "pytest.skip('x')"}),
    Innocent("no_silent_skip", {"tests/test_a.py": "pytest.mark.skipif(os.uname().machine != 'x86_64')"}),
    Innocent("no_registry_hosts", {"README.md": "@npm and @pypi"}),
]


@pytest.fixture(scope="session")
def project() -> Project:
    """The project itself."""
    return read(ROOT)


@pytest.mark.parametrize("rule", RULES)
def test_rule_holds(project: Project, rule: str) -> None:
    violations = list(map(str, RULES[rule](project)))
    assert not violations, f"{RULES[rule].__doc__}\n" + "\n".join(violations)


@pytest.mark.parametrize("plant", PLANTS, ids=str)
def test_planted_violation_is_found(tmp_path: Path, plant: Plant) -> None:
    expected = plant.found if plant.found.startswith(("tests", "README", "profiles")) else f"{PACKAGE}/{plant.found}"
    found = list(violations_of(tmp_path, plant))
    assert found
    assert all(violation.startswith(expected) for violation in found), found


@pytest.mark.parametrize("innocent", INNOCENTS, ids=lambda innocent: innocent.rule)
def test_innocent_code_is_left_alone(tmp_path: Path, innocent: Innocent) -> None:
    assert list(violations_of(tmp_path, innocent)) == []


def test_every_rule_has_a_planted_violation() -> None:
    assert {plant.rule for plant in PLANTS} == RULES.keys()


def violations_of(root: Path, case: Plant | Innocent) -> Iterator[str]:
    """Write the files of a case and yield what its rule finds in them."""
    for name, text in case.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return map(str, RULES[case.rule](read(root)))
