"""The first words with a child: every way in which a server may answer them, be silent, or die of them (6.1 D3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from supervisord_mcp.protocol.commands import Judged, Ready, Refused, Respawn
from supervisord_mcp.protocol.eras.probe import PATIENCE, UNKNOWN, Again, Modern, Terms, Verdict
from supervisord_mcp.protocol.mcp import Era
from tests.kit.conversation import Talk, call, discovered, notification, request, result
from tests.protocol.eras.talking import meta

DISCOVER = request(..., "server/discover", ...)
INITIALIZE = request(..., "initialize", ...)
HANDSHAKE = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
BOTH = Verdict(True, True)
MODERN = Verdict(False, True)
LEGACY = Verdict(True, False)


def auto(verdict: Verdict = UNKNOWN, preferred: Era = "legacy") -> Talk:
    """A conversation that finds out the era."""
    return Talk(terms=Terms(None, preferred, verdict))


def judged(talk: Talk) -> list[Verdict]:
    return [command.verdict for command in talk.did(Judged) if isinstance(command, Judged)]


def refused(talk: Talk) -> str:
    last = talk.did(Refused)[-1]
    assert isinstance(last, Refused)
    return last.reason


def says_no(talk: Talk, asked: Any, code: int = -32601, data: Any = None) -> None:
    body = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
    talk.server.says({"jsonrpc": "2.0", "id": asked["id"], "error": body})


def greets(talk: Talk, asked: Any) -> None:
    talk.server.answers(asked, HANDSHAKE)
    talk.server.hears(notification("notifications/initialized"))


def runs(talk: Talk, era: Era) -> None:
    """The child got ready, once, in this era."""
    assert len(talk.did(Ready)) == 1
    assert (talk.mux.ready, talk.mux.era) == (True, era)


def dies(talk: Talk) -> None:
    """The child dies of the first words, and another takes its place."""
    assert talk.mux.doubtful
    talk.child_dies()


def test_the_probe_says_who_asks() -> None:
    with auto() as talk:
        talk.child_begins()
        talk.server.hears(request(..., "server/discover", {"_meta": meta({"name": "smcp", "version": ...}, {})}))


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, 0])
def test_19_any_error_to_the_probe_is_followed_by_a_handshake(code: int) -> None:
    with auto() as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER), code)
        greets(talk, talk.server.hears(INITIALIZE))
        runs(talk, "legacy")
        assert judged(talk) == [LEGACY]


def test_19_silence_to_the_probe_is_followed_by_a_handshake() -> None:
    with auto() as talk:
        talk.child_begins()
        asked = talk.server.hears(DISCOVER)
        talk.passes(PATIENCE - 1)
        talk.server.hears_nothing()
        talk.passes(1)
        opening = talk.server.hears(INITIALIZE)
        says_no(talk, asked)  # late, and of no interest any more
        greets(talk, opening)
        runs(talk, "legacy")
        assert judged(talk) == [LEGACY]


def test_18_a_slow_modern_server_refuses_the_handshake() -> None:
    with auto(preferred="modern") as talk:
        talk.child_begins()
        slow = talk.server.hears(DISCOVER)
        talk.passes(PATIENCE)
        opening = talk.server.hears(INITIALIZE)
        talk.server.answers(slow, discovered())
        says_no(talk, opening, -32022, {"supported": ["2026-07-28"]})
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
        # It was bound to the probe that it had heard: whether it knows handshakes too is still open.
        assert judged(talk) == [Verdict(None, True)]


def test_18_a_slow_server_is_tried_afresh_for_legacy_hosts() -> None:
    with auto() as talk:
        talk.child_begins()
        slow = talk.server.hears(DISCOVER)
        talk.passes(PATIENCE)
        opening = talk.server.hears(INITIALIZE)
        talk.server.answers(slow, discovered())
        says_no(talk, opening, -32022)
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        assert len(talk.did(Respawn)) == 1
        talk.child_stops()
        talk.child_dies()
        talk.child_begins()
        greets(talk, talk.server.hears(INITIALIZE))
        runs(talk, "legacy")
        assert judged(talk) == [Verdict(None, True), BOTH]


def test_17_a_server_that_dies_of_the_probe_is_started_again_for_a_handshake() -> None:
    with auto() as talk:
        a = talk.joins("a")
        a.initializes()
        talk.child_begins()
        talk.server.hears(DISCOVER)
        dies(talk)
        a.hears_nothing()  # it waits for the next one
        talk.child_begins()
        opening = talk.server.hears(INITIALIZE)
        assert not talk.mux.doubtful
        greets(talk, opening)
        a.hears(result("hello", ...))
        assert judged(talk) == [Verdict(True, False)]


def test_17_a_server_may_die_of_a_probe_that_it_refused_or_read_late() -> None:
    for refuses in (True, False):
        with auto() as talk:
            talk.child_begins()
            asked = talk.server.hears(DISCOVER)
            if refuses:
                says_no(talk, asked)
            else:
                talk.passes(PATIENCE)
            talk.server.hears(INITIALIZE)
            dies(talk)
            talk.child_begins()
            greets(talk, talk.server.hears(INITIALIZE))
            runs(talk, "legacy")


def test_a_server_that_always_dies_is_tried_once_more_and_no_further() -> None:
    with auto() as talk:
        talk.child_begins()
        talk.server.hears(DISCOVER)
        dies(talk)
        for _ in range(3):
            talk.child_begins()
            talk.server.hears(INITIALIZE)
            assert not talk.mux.doubtful
            talk.child_dies()


def test_a_server_of_both_eras_is_legacy_for_legacy_hosts() -> None:
    with auto() as talk:
        talk.child_begins()
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        assert talk.did(Respawn)
        assert not talk.mux.ready
        assert not talk.mux.doubtful
        talk.child_stops()
        talk.child_dies()
        talk.child_begins()
        greets(talk, talk.server.hears(INITIALIZE))
        runs(talk, "legacy")
        assert judged(talk) == [Verdict(None, True), BOTH]


@pytest.mark.parametrize("code", [-32022, -32601, -32602])
def test_a_server_without_handshakes_is_modern_for_legacy_hosts(code: int) -> None:
    with auto(Verdict(None, True)) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(INITIALIZE), code)
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
        assert judged(talk) == [MODERN]


def test_a_server_without_handshakes_may_be_silent_or_die() -> None:
    with auto(Verdict(None, True)) as talk:
        talk.child_begins()
        talk.server.hears(INITIALIZE)
        talk.passes(PATIENCE)
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
    with auto(Verdict(None, True)) as talk:
        talk.child_begins()
        talk.server.hears(INITIALIZE)
        dies(talk)
        talk.child_begins()
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
        assert judged(talk) == [MODERN]


def test_a_modern_host_has_a_modern_child_at_once() -> None:
    with auto(preferred="modern") as talk:
        talk.child_begins()
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
        assert judged(talk) == [Verdict(None, True)]


@pytest.mark.parametrize(
    ("verdict", "preferred", "era"),
    [
        (BOTH, "legacy", "legacy"),
        (BOTH, "modern", "modern"),
        (LEGACY, "modern", "legacy"),
        (MODERN, "legacy", "modern"),
    ],
)
def test_what_is_known_is_not_asked_again(verdict: Verdict, preferred: Era, era: Era) -> None:
    with auto(verdict, preferred) as talk:
        talk.child_begins()
        if era == "legacy":
            greets(talk, talk.server.hears(INITIALIZE))
        else:
            talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, era)
        assert judged(talk) == []


@pytest.mark.parametrize("code", [-32601, -32022, 0])
def test_what_turns_out_wrong_is_corrected(code: int) -> None:
    with auto(LEGACY) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(INITIALIZE), code)
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        if talk.did(Respawn):  # an error that says nothing of eras
            talk.child_stops()
            talk.child_dies()
            talk.child_begins()
            says_no(talk, talk.server.hears(INITIALIZE), code)
            talk.server.answers(talk.server.hears(DISCOVER), discovered())
        runs(talk, "modern")
        assert judged(talk)[-1].modern is True
    with auto(MODERN) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER))
        greets(talk, talk.server.hears(INITIALIZE))
        runs(talk, "legacy")
        assert judged(talk) == [LEGACY]


def test_a_server_of_no_known_era_is_refused_with_its_first_word() -> None:
    with auto() as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER))
        says_no(talk, talk.server.hears(INITIALIZE))
        assert refused(talk) == "answered server/discover with an error: no"
    with auto(LEGACY) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(INITIALIZE))
        says_no(talk, talk.server.hears(DISCOVER))
        assert refused(talk) == "answered initialize with an error: no"


# Pinned


def test_a_pinned_server_is_never_probed() -> None:
    with Talk(terms=Terms("legacy")) as talk:
        talk.child_begins()
        opening = talk.server.hears(INITIALIZE)
        talk.passes(2 * PATIENCE)
        talk.server.hears_nothing()
        says_no(talk, opening, -32022, {"supported": ["2026-07-28"]})
        assert 'era = "modern"' in refused(talk)
        assert not talk.mux.doubtful
    with Talk(terms=Terms("modern")) as talk:
        talk.child_begins()
        asked = talk.server.hears(DISCOVER)
        talk.passes(2 * PATIENCE)
        talk.server.hears_nothing()
        says_no(talk, asked)
        assert refused(talk) == "answered server/discover with an error: no"
        assert judged(talk) == []


def test_a_revision_that_is_offered_instead_is_taken_once() -> None:
    with Talk(terms=Terms("modern")) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER), -32022, {"supported": ["2026-07-28"]})
        assert "does not serve the revision 2026-07-28" in refused(talk)
    with Talk(terms=Terms("modern")) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER), -32022, {"supported": ["2099-01-01"]})
        assert refused(talk) == "speaks only revisions that smcp does not know: 2099-01-01"
    with Talk(terms=Terms("modern")) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER), -32022)
        assert refused(talk).endswith("none that it names")


def test_a_newer_revision_in_common_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [Again("2027-01-01"), Modern("2027-01-01", {"capabilities": Raw(b"{}")})]
    monkeypatch.setattr("supervisord_mcp.protocol.eras.probe.outcome", lambda _: answers.pop(0))
    with Talk(terms=Terms("modern")) as talk:
        talk.child_begins()
        says_no(talk, talk.server.hears(DISCOVER), -32022)
        second = talk.server.hears(DISCOVER)
        assert second["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2027-01-01"
        talk.server.answers(second, discovered())
        runs(talk, "modern")


def test_a_child_that_is_stopped_meanwhile_is_asked_nothing_more() -> None:
    with auto() as talk:
        a = talk.joins("a")
        a.initializes()
        talk.child_begins()
        asked = talk.server.hears(DISCOVER)
        talk.child_stops()
        talk.passes(2 * PATIENCE)
        says_no(talk, asked)
        talk.server.hears_nothing()
        assert not talk.mux.doubtful
        talk.child_dies()
        a.hears_nothing()
        talk.child_begins()
        talk.server.hears(DISCOVER)  # nothing was learnt
        talk.child_stops()
        talk.child_dies()
    with auto(LEGACY) as talk:
        talk.child_begins()
        opening = talk.server.hears(INITIALIZE)
        talk.child_stops()
        talk.server.answers(opening, HANDSHAKE)
        assert not talk.mux.ready


def test_what_waits_for_a_child_gets_the_one_that_takes_its_place() -> None:
    with auto() as talk:
        a = talk.host_first("a")
        a.says(call(1))
        talk.child_begins()
        talk.server.answers(talk.server.hears(DISCOVER), discovered())
        talk.child_stops()
        talk.child_dies()
        a.hears_nothing()
        talk.child_begins()
        talk.server.answers(talk.server.hears(INITIALIZE), HANDSHAKE)
        talk.server.hears(notification("notifications/initialized"))
        a.hears(result("hello", ...))
        talk.server.answers(talk.server.hears(call(...)))
        a.hears(result(1))


class Server:
    """A server that answers first words as it is made: in which eras, with which error, never, or by dying."""

    def __init__(self, eras: set[str], refusal: str, *, locks: bool) -> None:
        self.eras = eras
        self.refusal = refusal
        self.locks = locks
        self.bound = ""

    def answer(self, asked: Any) -> Any:
        """Return its answer, None for silence, or "dies"."""
        era = "modern" if asked["method"] == "server/discover" else "legacy"
        if era not in self.eras:
            return self.no(era)
        if self.locks and self.bound not in ("", era):
            return {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}} if era == "legacy" else {}
        self.bound = self.bound or era
        return "ok"

    def no(self, era: str) -> Any:
        """Return how it refuses an era."""
        if era == "legacy" and self.refusal == "named":
            return {"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}}
        return {"error": {"code": -32601, "message": "no"}, "named": {"code": -32602, "message": "no"}}.get(
            self.refusal, self.refusal
        )


@given(
    st.sets(st.sampled_from(["legacy", "modern"]), min_size=1),
    st.sampled_from(["error", "named", "silent", "dies"]),
    st.booleans(),
    st.sampled_from(["legacy", "modern"]),
    st.builds(Verdict, *[st.none() | st.booleans()] * 2),
)
def test_every_server_is_ready_in_the_era_that_suits_its_hosts(
    eras: set[str], refusal: str, locks: bool, preferred: Era, believed: Verdict
) -> None:
    stale = refusal in ("silent", "dies") and (
        (believed.legacy and "legacy" not in eras) or (believed.modern and "modern" not in eras)
    )
    if stale or believed == Verdict(False, False):
        return  # a verdict that was never true of a server which does not answer: it expires
    talk = auto(believed, preferred)
    server = Server(eras, refusal, locks=locks)
    starts = respawns = 0
    talk.child_begins()
    for _ in range(20):
        if talk.mux.ready:
            break
        if len(talk.did(Respawn)) > respawns:
            respawns += 1
            starts += 1
            talk.child_stops()
            talk.child_dies()
            server.bound = ""
            talk.child_begins()
            continue
        if not talk.server.inbox:
            talk.passes(PATIENCE)
            continue
        asked = talk.server.hears(request(..., ..., ...))
        answer = server.answer(asked)
        if answer == "ok":
            talk.server.answers(asked, HANDSHAKE if asked["method"] == "initialize" else discovered())
        elif answer == "dies":
            dies(talk)
            starts += 1
            server.bound = ""
            talk.child_begins()
        elif isinstance(answer, dict):
            says_no(talk, asked, answer.get("code", -32601), answer.get("data"))
    assert talk.mux.ready
    assert talk.mux.era in eras
    assert starts <= 2
    if believed in (UNKNOWN, Verdict("legacy" in eras, "modern" in eras)):
        assert talk.mux.era == (preferred if preferred in eras else next(iter(eras)))
