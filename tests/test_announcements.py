"""What is told of one instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.announcements import Announcements
from supervisord_mcp.logs import MAX_LINE, ServerLog
from supervisord_mcp.observer import Observers
from supervisord_mcp.policy import events as life
from supervisord_mcp.policy.lifecycle import Lifecycle, State
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.commands import LogMessage

KEY = InstanceKey("s", "0" * 16)


class Told:
    """The announcements of one instance, and what came of them."""

    def __init__(self, directory: Path) -> None:
        self.log = ServerLog(directory / "s.log", max_size=1 << 20, keep=1)
        self.observers = Observers()
        self.tell = Announcements(KEY, self.observers, self.log)

    @property
    def lines(self) -> list[str]:
        return [line.split(" ", 1)[1] for line in self.log.last(99)]

    @property
    def events(self) -> list[tuple[str, dict[str, object]]]:
        assert all(event.server == "s" for event in self.observers.recent)
        assert all(event.data.pop("instance") == str(KEY) for event in self.observers.recent)
        return [(event.kind, event.data) for event in self.observers.recent]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_a_state_has_what_was_before_and_the_cause(told: Told) -> None:
    fatal = Lifecycle(State.FATAL, cause="exit status 3\nand more", generation=4)
    told.tell.state("STARTING", fatal, life.Exited(4, False, ""), 2)
    told.tell.state("STOPPED", Lifecycle(State.SPAWNING, cause="of a run before", generation=5), life.Demand(), 1)
    first, second = told.events
    data = {"generation": 4, "from": "STARTING", "to": "FATAL", "why": "exited", "sessions": 2}
    assert first == ("state", {**data, "cause": "exit status 3\nand more"})
    data = {"generation": 5, "from": "STOPPED", "to": "STARTING", "why": "demand", "sessions": 1}
    assert second == ("state", {**data, "cause": ""})
    assert told.lines[0].startswith("smcp STARTING -> FATAL: exit status 3")
    assert told.lines[-1] == "smcp STOPPED -> STARTING"


def test_a_start_that_failed_blamelessly_has_its_cause(told: Told) -> None:
    asleep = Lifecycle(State.ASLEEP, cause="no container engine\n  Start it", generation=4)
    told.tell.state("STARTING", asleep, life.SpawnFailed(4, True, "", blameless=True), 1)
    told.tell.state("STOPPING", asleep, life.SpawnFailed(4, True, "", blameless=True), 1)
    assert [data["cause"] for _, data in told.events] == ["no container engine\n  Start it", ""]
    assert told.lines == ["smcp STARTING -> STOPPED: no container engine", "smcp STOPPING -> STOPPED"]


def test_a_child_that_is_ended_to_try_the_other_era_is_told_as_that(told: Told) -> None:
    told.tell.state("STARTING", Lifecycle(State.CLOSING, cause="", generation=1), life.Replace(1), 1)
    assert told.events[0][1]["why"] == "replace"
    (line,) = told.lines
    assert line.startswith("smcp STARTING -> STOPPING: another process is to tell whether it speaks the older era")


def test_health_is_told_when_it_changes(told: Told) -> None:
    for trouble in ("", "it does not answer", "", ""):
        told.tell.health(trouble)
    assert told.events == [("health", {"trouble": "it does not answer"}), ("health", {"trouble": ""})]
    assert told.lines == ["smcp not healthy: it does not answer", "smcp healthy again"]


def test_a_catalogue_names_the_lists_that_differ(told: Told) -> None:
    told.tell.catalogue(("tools", "prompts"))
    assert told.events == [("catalogue", {"changed": ["tools", "prompts"]})]


def test_log_messages_are_recorded_whoever_is_shown_them(told: Told) -> None:
    told.tell.said(LogMessage("warning", "db", "slow\nquery", (3,)))
    told.tell.said(LogMessage("", "", '{"a":1}', ()))
    told.tell.said(LogMessage("info", "", "x" * (MAX_LINE + 1), (3, 4)))
    assert told.lines[:3] == ["message[session-3] warning db: slow", "message[session-3] query", 'message -: {"a":1}']
    whole = f"info: {'x' * (MAX_LINE + 1)}"
    assert told.lines[3] == f"message {whole[:MAX_LINE]} … (cut, {len(whole)} characters)"
    assert told.events == []
