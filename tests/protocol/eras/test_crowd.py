"""Whatever legacy hosts and a modern child do in whatever order: nothing is crossed, lost, or left behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.eras.crowd import ModernCrowd


@given(st.data())
def test_every_request_is_answered_once_and_nothing_is_left(data: st.DataObject) -> None:
    crowd = ModernCrowd()
    for _ in range(data.draw(st.integers(0, 60))):
        moves = crowd.moves()
        name = data.draw(st.sampled_from(sorted(moves)))
        moves[name](data.draw)
    crowd.settle()
    crowd.go()
