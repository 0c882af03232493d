"""A project as the rules see it: its modules, what they import and what they define; read with ast, never imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "supervisord_mcp"

#: Files that are parts of another module, split off for their size.
PARTS = {"idlog": "journal", "pump": "shim", "starter": "shim"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Violation:
    """One place that breaks a rule."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name, absolute and dotted; ``level`` counts the dots of a relative import."""

    target: str
    line: int
    level: int = 0
    lazy: bool = False

    def within(self, *prefixes: str) -> bool:
        """Return whether the name is one of the given ones or lies below one."""
        return any(self.target == prefix or self.target.startswith(f"{prefix}.") for prefix in prefixes)


@dataclass(frozen=True, slots=True)
class Module:
    """One source file. ``name`` is dotted; that of a folder's ``__init__`` is the folder's."""

    name: str
    path: str
    text: str
    tree: ast.Module

    @property
    def place(self) -> str:
        """The part of the name by which the layer table knows the module: its folder, or its own name."""
        own = self.name.removeprefix(PACKAGE).strip(".").partition(".")[0]
        return PARTS.get(own, own)

    @property
    def is_init(self) -> bool:
        """Whether the file is the ``__init__`` of a folder."""
        return self.path.endswith("__init__.py")

    def imports(self) -> Iterator[Import]:
        """Yield everything the module imports, inside functions and by name too."""
        top = set(map(id, self.tree.body))
        for node in ast.walk(self.tree):
            lazy = id(node) not in top
            match node:
                case ast.Import():
                    for alias in node.names:
                        yield Import(alias.name, node.lineno, lazy=lazy)
                case ast.ImportFrom():
                    base = self._base(node)
                    for alias in node.names:
                        target = base if alias.name == "*" else f"{base}.{alias.name}"
                        yield Import(target, node.lineno, node.level, lazy)
                case ast.Call(args=[ast.Constant(value=str(target)), *_]) if called(node) in {
                    "importlib.import_module",
                    "import_module",
                    "__import__",
                }:
                    yield Import(target, node.lineno, lazy=lazy)

    def functions(self) -> Iterator[Function]:
        """Yield every function and method, nested ones too."""
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def calls(self) -> Iterator[tuple[str, ast.Call]]:
        """Yield every call with the dotted name of what is called."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and (name := called(node)):
                yield name, node

    def violation(self, node: ast.AST | Import | int, message: str) -> Violation:
        """Return a violation at a node, an import or a line of this module."""
        match node:
            case int(line) | Import(line=line):
                return Violation(self.path, line, message)
            case _:
                return Violation(self.path, getattr(node, "lineno", 1), message)

    def _base(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        kept = parts[: len(parts) - node.level + self.is_init]
        return ".".join([*kept, *filter(None, [node.module])])


@dataclass(frozen=True, slots=True)
class Project:
    """The sources of the package, the test files, and every other text a person ships."""

    root: Path
    modules: Mapping[str, Module] = field(repr=False)
    tests: tuple[Module, ...] = field(repr=False)

    def resolve(self, imported: Import) -> Module | None:
        """Return the module of the project that an import names or takes a name from, if it is one."""
        name = imported.target
        while name:
            if name in self.modules:
                return self.modules[name]
            name = name.rpartition(".")[0]
        return None


def read(root: Path) -> Project:
    """Given the top of a checkout, return its package and its tests."""
    modules = {module.name: module for module in _modules(root, PACKAGE)}
    tests = tuple(module for module in _modules(root, "tests") if Path(module.path).name.startswith("test_"))
    return Project(root, modules, tests)


def called(call: ast.Call) -> str:
    """Given a call, return the dotted name of what it calls; empty if that has none."""
    return dotted(call.func)


def dotted(node: ast.expr) -> str:
    """Given an expression, return it as a dotted name; empty if it is none."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attr):
            base = dotted(value)
            return f"{base}.{attr}" if base else ""
        case _:
            return ""


def _modules(root: Path, folder: str) -> Iterator[Module]:
    for path in sorted((root / folder).rglob("*.py")):
        relative = path.relative_to(root)
        text = path.read_text(encoding="utf-8")
        parts = relative.with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield Module(name, relative.as_posix(), text, ast.parse(text, relative.as_posix()))
