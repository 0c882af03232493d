"""What each attempt should come to."""

from __future__ import annotations

import pytest

from supervisord_mcp.probes import trial
from supervisord_mcp.probes.expected import Situation, Want, wanted, why


@pytest.mark.parametrize(
    ("name", "situation", "want"),
    [
        ("read a private key of ssh", Situation(), "deny"),
        ("read a private key of ssh", Situation(unix=True, network="host", userns=True, ptrace=True), "deny"),
        ("write the project", Situation(), "allow"),
        ("a unix socket", Situation(), "deny"),
        ("a unix socket", Situation(unix=True), "allow"),
        ("a socket of the file system", Situation(unix=True), "deny"),
        ("the loopback of the machine", Situation(network="rules"), "deny"),
        ("the loopback of the machine", Situation(network="host"), "free"),
        ("its own loopback", Situation(), "allow"),
        ("its own loopback", Situation(inet=False), "free"),
        ("a user namespace of its own", Situation(), "deny"),
        ("a user namespace of its own", Situation(userns=True), "free"),
        ("trace a child", Situation(ptrace=True), "free"),
        ("the name of the machine", Situation(), "deny"),
        ("the name of the machine", Situation(reduced=True), "free"),
    ],
)
def test_grants_decide(name: str, situation: Situation, want: Want) -> None:
    assert wanted(name, situation) == want


@pytest.mark.parametrize("reduced", [False, True])
def test_whatever_may_end_either_way_without_a_grant_has_a_reason(reduced: bool) -> None:
    situation = Situation(reduced=reduced)
    exempt = {"its own loopback"} if reduced else set()
    free = {name for name in trial.names() if wanted(name, situation) == "free"} - exempt
    assert free
    assert all(why(name, situation) for name in free)
    assert not any(why(name, situation) for name in trial.names() if wanted(name, situation) == "deny")


def test_every_name_with_a_reason_is_tried() -> None:
    named = {name for name in trial.names() if why(name, Situation(reduced=True))}
    assert len(named) >= 15
