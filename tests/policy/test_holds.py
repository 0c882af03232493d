"""What a person stopped, where, and what the next word changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.policy.holds import FREE, Hold

PROJECTS = st.sampled_from([None, "/a", "/b", "/c"])


def test_nobody_stopped_it() -> None:
    assert not any(FREE.holds(project) for project in (None, "/a"))


def test_one_project_is_held_alone() -> None:
    hold = FREE.put(True, "/a")
    assert [hold.holds(project) for project in (None, "/a", "/b")] == [False, True, False]
    assert hold.put(False, "/a") == FREE


def test_one_project_is_let_go_alone() -> None:
    hold = FREE.put(True, None).put(False, "/a")
    assert [hold.holds(project) for project in (None, "/a", "/b")] == [True, False, True]
    assert hold.put(True, "/a") == Hold(everywhere=True)


@given(st.lists(st.tuples(st.booleans(), PROJECTS), max_size=12), PROJECTS)
def test_the_last_word_that_is_about_a_project_counts(
    words: list[tuple[bool, str | None]], project: str | None
) -> None:
    hold = FREE
    for held, where in words:
        hold = hold.put(held, where)
    about = [held for held, where in words if where in (None, project)]
    assert hold.holds(project) == (about[-1] if about else False)
