"""What is known of a session's origin."""

from __future__ import annotations

import pytest

from supervisord_mcp.facts import NOWHERE, Facts, Whence, user


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


def test_the_users_of_hosts_are_told_apart() -> None:
    assert len({user(0), user(1), user(10), Facts("s").principal}) == 4


def test_only_a_narrow_word_is_about_one_project() -> None:
    facts = Facts("", "/project", environ={"A": "1"})
    assert (Whence(facts).project, Whence(facts, narrow=True).project, NOWHERE.project) == (None, "/project", None)
    assert Whence(facts).to("files") == Facts("files", "/project", environ={"A": "1"})
