"""What a module looks like: size, names, docstrings, and what only some may do (print, exit)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.rules import rule
from tests.architecture.source import PACKAGE, Function, Module, Project, Violation, dotted

MODULE_LINES = 500
FUNCTION_LINES = 80
PARAMETERS = 5

#: Words that say nothing about what a thing is for.
VAGUE = {"common", "helper", "helpers", "manager", "managers", "misc", "util", "utils"}

PRINTS = {"cli"}
EXITS = {"cli", "daemon", "shim", "__main__"}

#: A method that only fulfils an interface or follows another definition is explained there.
EXPLAINED_ELSEWHERE = {"override", "overload", "setter", "deleter"}

Definition = Function | ast.ClassDef


@rule
def init_files_hold_a_docstring(project: Project) -> Iterator[Violation]:
    """A folder's ``__init__`` states the folder's rule and nothing else; the package's own adds the version."""
    for module in project.modules.values():
        if not module.is_init or module.place == "cli":
            continue
        for node in module.tree.body[1:] if ast.get_docstring(module.tree) else module.tree.body:
            version = isinstance(node, ast.Assign) and dotted(node.targets[0]) == "__version__"
            if module.name != PACKAGE or not version:
                yield module.violation(node, "an __init__ holds only its docstring")


@rule
def module_size(project: Project) -> Iterator[Violation]:
    """A module that no longer fits into a head is two modules."""
    for module in project.modules.values():
        if (lines := len(module.text.splitlines())) > MODULE_LINES:
            yield module.violation(lines, f"{lines} lines, at most {MODULE_LINES}")


@rule
def function_size(project: Project) -> Iterator[Violation]:
    """A function is read in one look."""
    for module in project.modules.values():
        for function in module.functions():
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > FUNCTION_LINES:
                yield module.violation(function, f"{function.name} has {lines} lines, at most {FUNCTION_LINES}")


@rule
def parameters(project: Project) -> Iterator[Violation]:
    """More than five parameters are a value that has no name yet; the options of a command are what people type."""
    for module in project.modules.values():
        if module.place == "cli":
            continue
        for function in module.functions():
            taken = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            own = taken[1:] if taken and taken[0].arg in {"self", "cls"} else taken
            if len(own) > PARAMETERS:
                yield module.violation(function, f"{function.name} has {len(own)} parameters, at most {PARAMETERS}")


@rule
def docstrings(project: Project) -> Iterator[Violation]:
    """Every module and every public class, function and method says what it is for."""
    explained = _interfaces(project)
    for module in project.modules.values():
        if not ast.get_docstring(module.tree):
            yield module.violation(1, "the module has no docstring")
        for definition, owner in _definitions(module.tree):
            if definition.name.startswith("_") or ast.get_docstring(definition):
                continue
            if EXPLAINED_ELSEWHERE & {dotted(mark).rpartition(".")[2] for mark in definition.decorator_list}:
                continue
            bases = {dotted(base).rpartition(".")[2] for base in owner.bases} if owner else set()
            if not any((base, definition.name) in explained for base in bases):
                yield module.violation(definition, f"{definition.name} has no docstring")


@rule
def names(project: Project) -> Iterator[Violation]:
    """Nothing is called after the fact that nobody knew where to put it."""
    for module in project.modules.values():
        if VAGUE & set(module.name.split(".")[-1].split("_")):
            yield module.violation(1, f"{module.name} is no name for a module")
        for node in ast.walk(module.tree):
            if isinstance(node, Definition) and VAGUE & _words(node.name):
                yield module.violation(node, f"{node.name} is a vague name")


@rule
def only_commands_print(project: Project) -> Iterator[Violation]:
    """Library code reports through return values, events and logs."""
    for module in project.modules.values():
        if module.place in PRINTS or _runs_elsewhere(module):
            continue
        for name, call in module.calls():
            if name in {"print", "pprint", "pprint.pprint", "sys.stdout.write", "sys.stderr.write"}:
                yield module.violation(call, f"{name}() outside of cli/")


def _runs_elsewhere(module: Module) -> bool:
    """Whether a module is a part of a program that runs in a sandbox: the one with attempts, or the gate."""
    return module.name.startswith(f"{PACKAGE}.probes.inside") or module.name == f"{PACKAGE}.runtimes.container.gate"


@rule
def only_programs_exit(project: Project) -> Iterator[Violation]:
    """Library code raises; the programs decide what a failure means for the process."""
    for module in project.modules.values():
        if module.place in EXITS or _runs_elsewhere(module):
            continue
        for name, call in module.calls():
            if name in {"exit", "quit", "sys.exit", "os._exit", "os.abort", "SystemExit"}:
                yield module.violation(call, f"{name}() in library code")


def _definitions(
    node: ast.Module | ast.ClassDef, owner: ast.ClassDef | None = None
) -> Iterator[tuple[Definition, ast.ClassDef | None]]:
    """Yield the classes, functions and methods that can be reached from outside, with the class they belong to."""
    for child in node.body:
        if isinstance(child, Function):
            yield child, owner
        elif isinstance(child, ast.ClassDef):
            yield child, owner
            if not child.name.startswith("_"):
                yield from _definitions(child, child)


def _interfaces(project: Project) -> set[tuple[str, str]]:
    """Return (class, method) of every documented method in the project."""
    return {
        (owner.name, definition.name)
        for module in project.modules.values()
        for definition, owner in _definitions(module.tree)
        if owner and ast.get_docstring(definition)
    }


def _words(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}
