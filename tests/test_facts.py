"""What is known of a session's origin."""

from __future__ import annotations

import pytest

from supervisord_mcp.facts import Facts


def test_the_environment_of_a_host_is_not_shown() -> None:
    facts = Facts("files", "/project", "/project/src", {"GITHUB_TOKEN": "ghp_secret"}, 12)
    assert "secret" not in repr(facts)
    assert "GITHUB_TOKEN" not in repr(facts)
    assert "/project/src" in repr(facts)


def test_facts_do_not_change() -> None:
    facts = Facts("files")
    with pytest.raises(AttributeError):
        facts.project = "/other"  # type: ignore[misc]
    assert (facts.project, facts.cwd, dict(facts.environ), facts.pid) == (None, "/", {}, 0)
