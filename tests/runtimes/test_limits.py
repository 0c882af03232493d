"""Which means enforces which limit: every limit has exactly one, the best there is, or is said to have none."""

from __future__ import annotations

import resource
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.limits import (
    CONTROLLERS,
    DEFAULTS,
    UNLIMITED,
    Available,
    Limits,
    amount_text,
    breached,
    counts_for_namespaces,
    excess,
    plan,
    size_text,
)

MIB = 1 << 20
SIZES = st.none() | st.integers(1, 1 << 40)
LIMITS = st.builds(
    Limits,
    memory=SIZES,
    pids=st.none() | st.integers(1, 10000),
    cpu=st.none() | st.floats(0.01, 64),
    nofile=st.none() | st.integers(16, 10000),
    fsize=SIZES,
    tmp=SIZES,
    shm=SIZES,
    home=SIZES,
    core=st.sampled_from([None, 0]),
)
AVAILABLE = st.builds(
    Available,
    version=st.sampled_from([None, 1, 2]),
    controllers=st.frozensets(st.sampled_from(CONTROLLERS)),
    own_users=st.booleans(),
    places=st.booleans(),
    sized=st.booleans(),
)


def test_the_lines_of_a_report() -> None:
    limits = Limits(memory=512 * MIB, pids=64, cpu=1.5, fsize=None)
    places = ("tmp 256M by tmpfs", "shm 64M by tmpfs", "home 256M by tmpfs")
    v2 = Available(2, frozenset(CONTROLLERS), True, True, True)
    assert plan(limits, v2).report == (
        *("memory 512M by cgroup v2", "pids 64 by cgroup v2", "cpu 1.5 by cgroup v2"),
        *("nofile 1024 by rlimit", "core 0 by rlimit"),
        *places,
    )
    assert plan(limits, replace(v2, version=None)).report[:3] == (
        *("memory 512M by watcher", "pids 64 by rlimit", "cpu 1.5 by watcher"),
    )
    assert plan(limits, Available(1, frozenset({"pids"}))).report[:2] == (
        *("memory 512M by watcher", "pids 64 by cgroup v1"),
    )


@given(LIMITS, AVAILABLE)
def test_every_limit_has_one_means(limits: Limits, available: Available) -> None:
    wanted = {name for name in Limits.__slots__ if getattr(limits, name) is not None}
    if not available.places:
        wanted -= {"tmp", "shm", "home"}
    held_by_memory = limits.memory is not None and available.group("memory") is not None
    if wanted & {"tmp", "shm", "home"} and not available.sized and not held_by_memory:
        with pytest.raises(IsolationError, match=r"limit (tmp|shm|home)"):
            plan(limits, available)
        return
    made = plan(limits, available)
    assert {e.limit for e in made.enforcements} == wanted
    assert len(made.enforcements) == len(wanted)
    means = {e.limit: e.means for e in made.enforcements}
    assert "watcher" not in {by for name, by in means.items() if name not in CONTROLLERS}
    grouped = {name for name in CONTROLLERS if name in wanted and available.group(name)}
    # A hundred processes in a group have the share of one, whether the server has a limit for processors or not.
    assert made.grouped == (grouped | {"cpu"} if grouped and available.group("cpu") else grouped)
    assert made.watched == {name for name in wanted if means[name] == "watcher"}
    numbers = dict(made.rlimits)
    assert resource.RLIMIT_AS not in numbers
    assert (resource.RLIMIT_NPROC in numbers) == (means.get("pids") == "rlimit")
    # What counts for the whole person is never limited.
    assert resource.RLIMIT_NPROC not in numbers or available.own_users
    kept = {resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE} & set(numbers)
    assert len(kept) == (2 if available.own_users and limits.memory is not None else 0)
    assert (resource.RLIMIT_DATA in numbers) == (means.get("memory") == "watcher")


def test_no_limit_is_nothing_to_do() -> None:
    made = plan(UNLIMITED, Available(2, frozenset(CONTROLLERS), True, True, True))
    assert (made.report, made.rlimits, made.grouped, made.watched) == ((), (), frozenset(), frozenset())


def test_a_real_server_fits_into_the_defaults() -> None:
    # Measured: a Node server has twelve threads, npx runs npm and a shell before it, and 64 descriptors are too few.
    assert (DEFAULTS.pids or 0) >= 64
    assert (DEFAULTS.nofile or 0) >= 256
    assert DEFAULTS.core == 0


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0"), (1000, "1000"), (1 << 10, "1K"), (1536 * MIB, "1536M"), (1 << 30, "1G")]
)
def test_sizes_are_written_as_in_the_configuration(size: int, text: str) -> None:
    assert size_text(size) == text


@pytest.mark.parametrize(
    ("release", "counts"),
    [("5.13.9", False), ("5.14.0-rc1", True), ("6.1.0-50-cloud", True), ("4.19", False), ("x", False)],
)
def test_kernels_that_count_for_namespaces(release: str, counts: bool) -> None:
    assert counts_for_namespaces(release) is counts


@pytest.mark.parametrize(
    ("cause", "limit"),
    [
        ("memory limit 512M", "memory"),
        ("process limit 64", "pids"),
        ("processor limit 0.5", "cpu"),
        ("file size limit 2G", "fsize"),
        ("open files limit 1024", "nofile"),
        ("a protected file was replaced", ""),
        ("limit", ""),
        ("", ""),
    ],
)
def test_a_cause_names_its_limit(cause: str, limit: str) -> None:
    assert breached(cause) == limit
    if limit:
        assert excess(limit, cause.rpartition(" ")[2]) == cause


def test_amounts_are_written_as_in_the_configuration() -> None:
    assert [amount_text("memory", 512 * MIB), amount_text("pids", 64), amount_text("cpu", 0.5)] == ["512M", "64", "0.5"]
