"""The difference of two configurations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.policy.reload import Plan, diff

configurations = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2))


def test_each_name_is_in_its_place_and_in_order() -> None:
    plan = diff({"z": 1, "same": 2, "edited": 3, "a": 4}, {"y": 5, "edited": 30, "same": 2, "b": 6})
    assert plan == Plan(added=("y", "b"), removed=("z", "a"), changed=("edited",), unchanged=("same",))
    assert not plan.empty


def test_nothing_to_do_is_empty_whatever_the_order() -> None:
    plan = diff({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert plan == Plan(unchanged=("b", "a"))
    assert plan.empty


@given(configurations, configurations)
def test_the_plan_leads_from_the_old_to_the_new(old: dict[str, int], new: dict[str, int]) -> None:
    plan = diff(old, new)
    names = [*plan.added, *plan.removed, *plan.changed, *plan.unchanged]
    assert sorted(names) == sorted(old.keys() | new.keys())
    running = {name: value for name, value in old.items() if name not in plan.removed}
    running |= {name: new[name] for name in (*plan.added, *plan.changed)}
    assert running == new
    assert plan.empty == (old == new)
