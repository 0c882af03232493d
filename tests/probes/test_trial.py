"""Every attempt in every isolation: what should be denied is, what should work does, and each could have succeeded.

The table in the README is made of the same runs (``python -m contrib.probes``).
"""

from __future__ import annotations

import functools

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.probes import trial
from supervisord_mcp.probes.expected import Situation, wanted
from supervisord_mcp.probes.trial import Result
from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.bwrap import BwrapRuntime
from tests.kit.bounded import bounded
from tests.kit.required import as_root
from tests.probes import columns
from tests.probes.columns import Results

pytestmark = [pytest.mark.bwrap, pytest.mark.slow]

SANDBOX, REDUCED = Situation(), Situation(reduced=True)
#: Errors that say of an attempt without isolation that there is nothing of the kind on this machine.
_NOTHING_THERE = {"ENOENT", "ENOSYS", "EAFNOSUPPORT", "ENXIO", "ENODEV", "EIO", "ECONNREFUSED"}
#: What not even root may do on every machine: the kernel, or a container around it, forbids it to all.
_FOR_NOBODY = {
    "the namespaces of the first process",
    "read a secret through the root of the first process",
    "the environment of the first process",
    "write into the memory of the first process",
    "the descriptors of the first process",
    "set the number of user namespaces",
    "a lower score for the killer of processes",
    "more open files",
    "a call that nobody knows",
    "pings",
}


@functools.cache
def _column(name: str) -> Results:
    """Return what comes of all attempts, from one run for all tests."""
    match name:
        case "nothing":
            return columns.nothing()
        case "nothing, a person":
            return columns.as_person(columns.nothing)
        case "bwrap":
            return columns.sandboxed(columns.bwrap)
        case "bwrap, a person":
            return columns.as_person(lambda: columns.sandboxed(columns.bwrap))
        case "landlock":
            return columns.sandboxed(columns.landlock)
        case _:
            return columns.as_person(lambda: columns.sandboxed(columns.landlock))


def _wrong(results: Results, situation: Situation) -> dict[str, Result]:
    fits = {"deny": {"denied", "absent"}, "allow": {"open"}, "free": {"open", "denied", "absent"}}
    return {name: result for name, result in results.items() if result.outcome not in fits[wanted(name, situation)]}


@pytest.mark.parametrize(
    ("name", "situation"),
    [
        ("bwrap", SANDBOX),
        ("bwrap, a person", SANDBOX),
        ("landlock", REDUCED),
        ("landlock, a person", REDUCED),
    ],
)
@pytest.mark.usefixtures("subreaper")
def test_what_should_be_denied_is_and_what_should_work_does(name: str, situation: Situation) -> None:
    if name.startswith("bwrap") and situation is SANDBOX:
        # Paths in a project that hosts run later are closed by a mount of their own, see the tests of projects.
        results = {attempt: result for attempt, result in _column(name).items() if not attempt.startswith("change .")}
    else:
        results = _column(name)
    assert _wrong(results, situation) == {}


@as_root
def test_every_attempt_that_is_denied_could_have_succeeded() -> None:
    free, person = _column("nothing"), _column("nothing, a person")
    unproven = {
        name
        for name in free
        if "open" not in {free[name].outcome, person[name].outcome} and free[name].detail not in _NOTHING_THERE
    }
    assert {name for name in unproven if wanted(name, SANDBOX) == "deny"} - _FOR_NOBODY == set()
    proven = {name for name in free if "open" in {free[name].outcome, person[name].outcome}}
    assert len(proven & {name for name in free if wanted(name, SANDBOX) == "deny"}) >= 130


def test_there_are_enough_and_each_has_its_own_name() -> None:
    assert len(set(trial.names())) == len(trial.names()) >= 200
    assert {name for group in trial.groups() for name in group.names} == set(trial.names())


@bounded(60)
@pytest.mark.usefixtures("subreaper")
async def test_a_sandbox_in_which_nothing_can_be_tried_is_an_error() -> None:
    spec = LaunchSpec("probe", ("/bin/sh", "-c", "echo no >&2; exit 3"), env=(("PATH", "/bin"),))
    with pytest.raises(RuntimeError, match=r"ended early.*no"):
        await trial.tried(BwrapRuntime(), spec, {}, trial.names()[:5])
    with pytest.raises(LaunchError):
        await trial.tried(BwrapRuntime(), LaunchSpec("probe", ("/nowhere",)), {}, trial.names()[:5])
