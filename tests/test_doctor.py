"""What the facts of a machine mean."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisord_mcp.doctor import Finding, can_isolate, judge, judge_room, numbers, worst
from supervisord_mcp.examination import Engine, Machine, Room
from supervisord_mcp.runtimes.base import Lack

WELL = Machine(
    kernel="6.18.0",
    root=False,
    namespaces={"/proc/sys/user/max_user_namespaces": "15000"},
    container="",
    bwrap="0.12.1",
    sandbox=(),
    landlock=7,
    reduced=(),
    groups=(2, frozenset({"memory", "pids", "cpu", "io"})),
    scopes=True,
    engines=(Engine("docker", "28.2.2"),),
    runc="1.3.6",
    node="20.20.2",
    uv="0.9.1",
)
BLOCKED = (Lack("a sandbox", "AppArmor keeps programs from it", "Install the profile."),)


def _about(machine: Machine, subject: str) -> list[Finding]:
    return [finding for finding in judge(machine) if finding.subject == subject]


def test_a_machine_that_has_everything_is_well() -> None:
    assert worst(judge(WELL)) == "ok"
    assert can_isolate(WELL)
    assert all(not finding.remedy for finding in judge(WELL))


def test_a_machine_without_a_sandbox_has_a_problem_with_its_remedy() -> None:
    machine = replace(WELL, sandbox=BLOCKED)
    assert not can_isolate(machine)
    assert worst(judge(machine)) == "problem"
    (finding,) = _about(machine, "sandbox")
    assert "AppArmor keeps programs from it" in finding.text
    assert finding.remedy == "Install the profile."


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("user/max_user_namespaces", "0", "max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
    ],
)
def test_a_setting_of_the_kernel_is_a_problem_only_where_it_keeps_the_sandbox_away(
    setting: str, value: str, remedy: str
) -> None:
    machine = replace(WELL, namespaces={f"/proc/sys/{setting}": value})
    assert [finding.verdict for finding in _about(machine, "user namespaces")] == ["ok"]
    (finding,) = _about(replace(machine, sandbox=BLOCKED), "user namespaces")
    assert finding.verdict == "problem"
    assert remedy in finding.remedy


def test_being_a_container_is_named_and_is_a_warning_where_it_keeps_the_sandbox_away() -> None:
    assert [finding.verdict for finding in _about(replace(WELL, container="docker"), "container")] == ["ok"]
    blocked = replace(WELL, container="docker", sandbox=BLOCKED)
    assert [finding.verdict for finding in _about(blocked, "container")] == ["warning"]


@pytest.mark.parametrize(("version", "named"), [("0.8.0", True), ("0.11.2", True), ("0.12.0", False), ("1.0", False)])
def test_a_vulnerability_of_bubblewrap_is_named_by_version(version: str, named: bool) -> None:
    (finding,) = _about(replace(WELL, bwrap=version), "bubblewrap")
    assert ("CVE-2026-87766" in finding.text) is named


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("1.1.5+ds1", "warning"), ("1.2.7", "warning"), ("1.2.8", "ok"), ("1.3.6", "ok"), ("", "ok")],
)
def test_an_old_runc_is_a_warning(version: str, verdict: str) -> None:
    assert [finding.verdict for finding in _about(replace(WELL, runc=version), "runc")] == [verdict]


def test_landlock_is_a_warning_where_it_is_missing_or_weak() -> None:
    missing = replace(WELL, landlock=0, reduced=(Lack("Landlock", "the kernel has none", "Switch it on."),))
    assert [(f.verdict, f.remedy) for f in _about(missing, "landlock")] == [("warning", "Switch it on.")]
    assert [f.verdict for f in _about(replace(WELL, landlock=5), "landlock")] == ["warning"]
    assert [f.verdict for f in _about(WELL, "landlock")] == ["ok"]


def test_missing_control_groups_have_a_remedy_that_fits() -> None:
    (finding,) = _about(replace(WELL, groups=None), "control groups")
    assert (finding.verdict, finding.remedy) == ("ok", "")
    assert "asks systemd" in finding.text
    (finding,) = _about(replace(WELL, groups=None, scopes=False), "control groups")
    assert finding.verdict == "warning"
    assert "smcp.service" in finding.remedy
    (finding,) = _about(replace(WELL, groups=(2, frozenset({"memory", "pids"}))), "control groups")
    assert finding.verdict == "warning"
    assert finding.text.endswith("without cpu")


def test_an_engine_that_does_not_answer_is_a_warning() -> None:
    machine = replace(WELL, engines=(Engine("podman", "4.3", "permission denied"),))
    (finding,) = _about(machine, "podman")
    assert finding.verdict == "warning"
    assert "permission denied" in finding.text


def test_programs_for_packages_are_looked_at() -> None:
    machine = replace(WELL, node=None, uv=None)
    found = {f.subject: f for f in judge(machine)}
    assert {name for name, f in found.items() if f.verdict == "warning"} == {"node"}
    assert "with pip" in found["uv"].text
    assert [f.verdict for f in _about(replace(WELL, node="16.1"), "node")] == ["warning"]


def test_root_is_told_that_servers_have_users_of_their_own() -> None:
    assert _about(WELL, "user") == []
    (finding,) = _about(replace(WELL, root=True), "user")
    assert "users of their own" in finding.text


@pytest.mark.parametrize(
    ("text", "found"), [("1.1.5+ds1", (1, 1, 5)), ("v20.20.2", (20, 20, 2)), ("28", (28,)), ("", ()), ("git", ())]
)
def test_numbers_of_a_version(text: str, found: tuple[int, ...]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("free", "files", "verdict", "text"),
    [
        (5 << 30, 10, "ok", "5120 MiB left for /state"),
        (5 << 30, None, "ok", "5120 MiB left for /state"),
        (99 << 20, 10, "warning", "99 MiB left for /state"),
        (1000, 10, "problem", "no room left for /state"),
        (5 << 30, 0, "problem", "no files left for /state"),
    ],
)
def test_a_disk_that_is_full_is_a_problem(free: int, files: int | None, verdict: str, text: str) -> None:
    found = judge_room(Room("/state", free, files))
    assert (found.subject, found.verdict) == ("disk", verdict)
    assert found.text.startswith(text)
    assert bool(found.remedy) is (verdict != "ok")
