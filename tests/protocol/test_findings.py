"""What follows from what a server was found to be."""

from __future__ import annotations

from typing import Any

import pytest

from supervisord_mcp.protocol.findings import Difference, Finding, Settings, differences, suggestions

NOW = Settings(scope="auto", callbacks="off", era="auto", uses_project=False)
LEGACY = Finding(era="legacy", spoken=True, lists={"tools": ("a",)})
MODERN = Finding(era="modern", spoken=True)
SILENT = Finding(era="modern", trouble="no")


def test_lists_differ_in_both_directions() -> None:
    without = {"tools": ("a", "b"), "prompts": ("p",), "resources": ()}
    within = {"tools": ("b", "c", "d"), "prompts": ("p",), "resourceTemplates": ("t",)}
    assert differences(without, within) == {
        "tools": Difference(more=("c", "d"), less=("a",)),
        "resourceTemplates": Difference(more=("t",)),
    }
    assert differences(without, without) == {}


def suggested(*findings: Finding, now: Settings = NOW) -> dict[str, str]:
    return {one.key: one.value for one in suggestions(findings, now)}


def test_nothing_is_suggested_for_a_server_that_never_spoke() -> None:
    assert suggestions((SILENT,), NOW) == ()


@pytest.mark.parametrize(
    ("findings", "era"),
    [((LEGACY, SILENT), "legacy"), ((Finding(era="legacy"), MODERN), "modern"), ((LEGACY, MODERN), "auto")],
)
def test_the_era_is_the_one_it_speaks(findings: Any, era: str) -> None:
    assert suggested(*findings)["era"] == era


@pytest.mark.parametrize(
    ("asks", "uses_project", "scope"),
    [
        ((), False, "global"),
        (("roots/list", "ping"), False, "global"),
        (("elicitation/create",), False, "session"),
        (("elicitation/create",), True, "project"),
    ],
)
def test_the_scope_is_for_those_who_can_share(asks: Any, uses_project: bool, scope: str) -> None:
    now = Settings(scope="auto", callbacks="off", era="auto", uses_project=uses_project)
    assert suggested(Finding(era="legacy", spoken=True, asks=asks), now=now)["scope"] == scope


@pytest.mark.parametrize(
    ("finding", "callbacks", "reason"),
    [
        (LEGACY, "off", "the same"),
        (MODERN, "off", "every request"),
        (Finding(era="legacy", spoken=True, asks=("roots/list",)), "on", "roots/list"),
        (Finding(era="legacy", spoken=True, asks=("ping",)), "off", "the same"),
        (Finding(era="legacy", spoken=True, difference={"tools": Difference(more=("ask",))}), "on", "hides ask"),
        (Finding(era="legacy", spoken=True, difference={"tools": Difference(less=("ask",))}), "on", "other ones"),
    ],
)
def test_callbacks_are_for_servers_that_need_them(finding: Finding, callbacks: str, reason: str) -> None:
    (one,) = [one for one in suggestions((finding,), NOW) if one.key == "callbacks"]
    assert (one.value, one.now) == (callbacks, "off")
    assert reason in one.reason
