"""The table of events is what the program really tells: every kind and every field, and nothing besides."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp.protocol.kinds import KINDS, reference
from tests.architecture.source import PACKAGE, Module, read

ROOT = Path(__file__).parents[2]


class UnclearError(AssertionError):
    """An event whose kind or data cannot be read from the source."""


def told(module: Module) -> Iterator[tuple[str, frozenset[str], int]]:
    """Yield the kind, the fields and the line of each event that a module makes. Raise `UnclearError`."""
    if not any(one.target == f"{PACKAGE}.observer.Event" for one in module.imports()) and module.place != "observer":
        return
    for scope in (*module.functions(), module.tree):
        for node in ast.walk(scope):
            match node:
                case ast.Call(func=ast.Name(id="Event"), args=[ast.Constant(value=str(kind)), *rest], keywords=words):
                    data = next((word.value for word in words if word.arg == "data"), rest[1] if rest[1:] else None)
                    if scope is not module.tree:
                        yield kind, fields(data, scope), node.lineno
                case ast.Call(func=ast.Name(id="Event")):
                    raise UnclearError(f"{module.path}:{node.lineno}: the kind is to be a text in the call")


def fields(data: ast.expr | None, scope: ast.AST) -> frozenset[str]:
    """Return the keys of the data of an event: a dictionary as it is written there, or in the same function."""
    match data:
        case None:
            return frozenset()
        case ast.Dict(keys=keys):
            return frozenset(str(key.value) for key in keys if isinstance(key, ast.Constant))
        case ast.Name(id=name):
            for node in ast.walk(scope):
                match node:
                    case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                        return fields(value, scope)
                    case ast.AnnAssign(target=ast.Name(id=found), value=ast.Dict() as value) if found == name:
                        return fields(value, scope)
    raise UnclearError(f"line {getattr(data, 'lineno', 0)}: the data is to be a dictionary in the same function")


@pytest.fixture(scope="module")
def found() -> list[tuple[str, frozenset[str], str]]:
    return [
        (kind, names, f"{module.path}:{line}")
        for module in read(ROOT).modules.values()
        for kind, names, line in told(module)
    ]


def test_every_event_is_in_the_table_with_its_fields(found: list[tuple[str, frozenset[str], str]]) -> None:
    unknown = [f"{where}: {kind}" for kind, _, where in found if kind not in KINDS]
    assert not unknown, "add it to supervisord_mcp/protocol/kinds.py"
    others = [
        f"{where}: {kind} has {sorted(names)}" for kind, names, where in found if names != set(KINDS[kind].fields)
    ]
    assert not others, "the table says something else"


def test_everything_in_the_table_is_told_somewhere(found: list[tuple[str, frozenset[str], str]]) -> None:
    assert {kind for kind, _, _ in found} == set(KINDS)


@pytest.mark.parametrize(
    ("text", "kind", "names"),
    [
        ("def f():\n    Event('a')", "a", []),
        ("def f():\n    Event('a', s, {'x': 1})", "a", ["x"]),
        ("def f():\n    data = {'x': 1, 'y': 2}\n    Event('a', data=data)", "a", ["x", "y"]),
        ("def f():\n    data: D = {'x': 1}\n    Event('a', s, data)", "a", ["x"]),
    ],
)
def test_the_fields_are_found(text: str, kind: str, names: list[str]) -> None:
    source = f"from {PACKAGE}.observer import Event\n{text}"
    assert [event[:2] for event in told(Module(PACKAGE, "a.py", source, ast.parse(source)))] == [
        (kind, frozenset(names))
    ]


@pytest.mark.parametrize("text", ["def f(kind):\n    Event(kind)", "def f(data):\n    Event('a', s, data)"])
def test_what_cannot_be_read_is_an_error(text: str) -> None:
    source = f"from {PACKAGE}.observer import Event\n{text}"
    with pytest.raises(UnclearError):
        list(told(Module(PACKAGE, "a.py", source, ast.parse(source))))


def test_the_reference_has_them_all() -> None:
    rows = reference().splitlines()
    assert len(rows) == len(KINDS) + 2
    assert all(row.count("|") == 4 for row in rows)
