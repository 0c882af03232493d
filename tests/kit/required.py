"""What a test needs of the machine: where it is missing the test is skipped, but continuous integration must have it.

No test decides by itself to be skipped (`tests.architecture.suite` looks): a machine without a compiler, without Node
or without cgroups would hide that a part is not tested any more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., object])

#: Marks tests of what only the superuser can do. Whoever runs the tests is one or the other, and both are supported.
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")
#: Marks tests of what does not stop the superuser.
as_person = pytest.mark.skipif(os.geteuid() == 0, reason="nothing stops root")
#: Marks tests of a service manager with control groups of version 2, which hardly any machine for tests has.
in_machine = pytest.mark.skipif(not os.environ.get("SMCP_VM"), reason="in a virtual machine: python -m contrib.vm")
#: Marks tests that take minutes and much of the machine: run where somebody wants them.
on_demand = pytest.mark.skipif(not os.environ.get("SMCP_SLOW"), reason="takes minutes: SMCP_SLOW=1 runs it")


def need(there: object, what: str) -> None:
    """Given whether something is there, end the test if it is not: with a failure in continuous integration."""
    if there:
        return
    if os.environ.get("CI", "") not in ("", "0", "false"):
        pytest.fail(f"needs {what}, which continuous integration must have", pytrace=False)
    pytest.skip(f"needs {what}")


def not_here(reason: str) -> None:
    """End a test of what this kind of machine does otherwise, which other tests look at."""
    pytest.skip(reason)
