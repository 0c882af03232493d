"""What answers to a probe mean, and what is done with what is known: tables without a conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol import jsonrpc
from supervisord_mcp.protocol.eras import probe
from supervisord_mcp.protocol.eras.probe import UNKNOWN, Again, Foreign, Legacy, Modern, Terms, Verdict
from supervisord_mcp.protocol.mcp import Era
from tests.kit.conversation import discovered, error, result

MODERN = "2026-07-28"
BOTH = Verdict(True, True)
known = st.builds(Verdict, *[st.none() | st.booleans()] * 2)
eras = st.sampled_from(["legacy", "modern"])


def said(message: Any) -> jsonrpc.Message:
    """Return an answer as it is read."""
    return jsonrpc.parse(json.dumps(message).encode())


def refusal(supported: Any) -> dict[Any, Any]:
    """Return the error of a modern server for a revision."""
    message = error(1, -32022, "no", {"supported": supported})
    return message if supported is not ... else {**message, "error": {"code": -32022, "message": "no"}}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (result(1, discovered()), (Modern, MODERN)),
        (result(1, discovered(supportedVersions=[MODERN, "2025-11-25"])), (Modern, MODERN)),
        (result(1, discovered(supportedVersions=["2099-01-01", MODERN])), (Modern, MODERN)),
        (result(1, discovered(supportedVersions=["2025-11-25"])), (Legacy, ...)),
        (result(1, discovered(supportedVersions=["2099-01-01"])), (Foreign, ("2099-01-01",))),
        (result(1, discovered(supportedVersions=[])), (Foreign, ())),
        (result(1, discovered(supportedVersions=MODERN)), (Legacy, ...)),
        (result(1, discovered(supportedVersions=None)), (Legacy, ...)),
        (result(1, {"supportedVersions": [MODERN]}), (Legacy, ...)),
        (result(1, []), (Legacy, ...)),
        (refusal([MODERN]), (Again, MODERN)),
        (refusal(["2025-11-25", MODERN]), (Again, MODERN)),
        (refusal(["2025-11-25"]), (Legacy, ...)),
        (refusal(["2099-01-01"]), (Foreign, ("2099-01-01",))),
        (refusal("none"), (Foreign, ())),
        (refusal(...), (Foreign, ())),
        # Whatever the code is, the kinds that only modern servers know among them (pitfall 19).
        *[
            (error(1, code, "no", {}), (Legacy, ...))
            for code in (-32601, -32602, -32600, -32000, -32001, -32020, -32021, 0)
        ],
        ({"jsonrpc": "2.0", "id": 1, "error": "bad"}, (Legacy, ...)),
    ],
)
def test_19_what_an_answer_to_the_probe_means(answer: Any, expected: Any) -> None:
    kind, value = expected
    found = probe.outcome(said(answer))
    match found:
        case Modern(version, members):
            assert (kind, value) == (Modern, version)
            assert "capabilities" in members
        case Again(version):
            assert (kind, value) == (Again, version)
        case Foreign(versions):
            assert (kind, value) == (Foreign, versions)
        case Legacy(reason):
            assert kind is Legacy
            assert reason


@given(st.sampled_from([None, "legacy", "modern"]), eras, known)
def test_what_is_pinned_is_never_probed(pinned: Era | None, host: Era, verdict: Verdict) -> None:
    era = probe.first(Terms(pinned, host, verdict), verdict)
    if pinned is not None:
        assert era == pinned
        assert probe.preferred(pinned, host, verdict) == pinned
    elif verdict.only is not None:
        assert era == verdict.only
        assert probe.preferred(pinned, host, verdict) == "legacy"
    else:
        assert probe.preferred(pinned, host, verdict) == host


@pytest.mark.parametrize(
    ("verdict", "host", "era"),
    [
        (UNKNOWN, "legacy", "modern"),
        (UNKNOWN, "modern", "modern"),
        (BOTH, "legacy", "legacy"),
        (BOTH, "modern", "modern"),
        (Verdict(None, True), "legacy", "legacy"),
        (Verdict(None, True), "modern", "modern"),
        (Verdict(False, True), "legacy", "modern"),
        (Verdict(True, False), "modern", "legacy"),
        (Verdict(None, False), "modern", "legacy"),
        (Verdict(True, None), "legacy", "modern"),
    ],
)
def test_what_is_tried_first(verdict: Verdict, host: Era, era: Era) -> None:
    assert probe.first(Terms(None, host), verdict) == era
