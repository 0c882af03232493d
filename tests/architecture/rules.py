"""The registry of rules: a rule is a function from a project to the places that break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.architecture.source import Project, Violation

Rule = Callable[[Project], Iterator[Violation]]

RULES: dict[str, Rule] = {}


def rule(function: Rule) -> Rule:
    """Register a rule under the name of its function."""
    RULES[function.__name__] = function
    return function
