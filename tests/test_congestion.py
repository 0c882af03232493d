"""Who is held back because a child does not read: those whose words wait, and nobody else."""

from __future__ import annotations

from collections import deque
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.congestion import ENOUGH, SHARE, SHARES, Congestion
from supervisord_mcp.session import SessionLink


class Host:
    """A session that only knows whether it is read from."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.paused = False

    def pause(self) -> None:
        assert not self.paused
        self.paused = True

    def resume(self) -> None:
        assert self.paused
        self.paused = False


class Hosts:
    """Some hosts and the congestion they make."""

    def __init__(self, count: int) -> None:
        self.hosts = {key: Host(key) for key in range(count)}
        self.sessions = {key: cast("SessionLink", host) for key, host in self.hosts.items()}
        self.congestion = Congestion(self.sessions)

    def says(self, key: int, size: int) -> None:
        self.congestion.settle(self.congestion.waiting + size, key)

    def reads(self, size: int) -> None:
        self.congestion.settle(self.congestion.waiting - size)

    def leaves(self, key: int) -> None:
        self.congestion.leave(self.sessions.pop(key))

    @property
    def paused(self) -> list[int]:
        return [key for key, host in self.hosts.items() if host.paused]


def test_only_the_host_above_its_share_is_held_back_until_enough_of_it_was_taken() -> None:
    crowd = Hosts(2)
    crowd.says(0, SHARE)
    crowd.says(1, 100)
    assert crowd.paused == []
    crowd.says(0, 1)
    assert crowd.paused == [0]
    crowd.reads(SHARE - ENOUGH)
    assert crowd.paused == [0]
    crowd.reads(1)
    assert crowd.paused == []
    crowd.reads(crowd.congestion.waiting)
    assert crowd.congestion.waiting == 0


def test_what_is_taken_is_the_oldest() -> None:
    crowd = Hosts(2)
    crowd.says(0, SHARE + 1)
    crowd.says(1, SHARE + 1)
    crowd.reads(SHARE + 1)
    assert crowd.paused == [1]


def test_one_message_however_long_is_no_crowd() -> None:
    crowd = Hosts(2)
    crowd.says(0, SHARE * SHARES * 4)
    assert crowd.paused == [0]
    assert not crowd.congestion.crowded


def test_many_full_shares_are_a_crowd() -> None:
    crowd = Hosts(SHARES)
    for key in range(SHARES):
        assert not crowd.congestion.crowded
        crowd.says(key, SHARE)
    assert crowd.congestion.crowded
    assert crowd.paused == [], "who is not above its share gets its answers"
    crowd.reads(1)
    assert not crowd.congestion.crowded


@pytest.mark.parametrize("size", [10, SHARE + 1])
def test_what_a_host_left_behind_is_nobodys(size: int) -> None:
    crowd = Hosts(2)
    crowd.says(0, size)
    crowd.says(1, SHARE + 1)
    crowd.leaves(0)
    assert crowd.paused == [1]
    crowd.says(0, 50)
    crowd.reads(size)
    assert crowd.paused == [1]
    crowd.reads(SHARE + 51)
    assert crowd.paused == []


def test_what_the_daemon_says_holds_nobody_back() -> None:
    crowd = Hosts(1)
    crowd.congestion.settle(SHARE * SHARES * 2)
    assert (crowd.paused, crowd.congestion.crowded) == ([], False)


MOVES = st.one_of(
    st.tuples(st.just("says"), st.integers(0, 3), st.integers(1, SHARE)),
    st.tuples(st.just("reads"), st.just(0), st.integers(1, 2 * SHARE)),
    st.tuples(st.just("leaves"), st.integers(0, 3), st.just(0)),
)


@given(st.lists(MOVES, max_size=40))
def test_it_agrees_with_a_queue_of_single_pieces(moves: list[tuple[str, int, int]]) -> None:
    crowd = Hosts(4)
    queue: deque[list[int]] = deque()
    for move, key, size in moves:
        if move == "says" and key in crowd.sessions:
            queue.append([key, size])
            crowd.says(key, size)
        elif move == "leaves" and key in crowd.sessions:
            crowd.leaves(key)
            assert not crowd.hosts[key].paused
        elif move == "reads":
            taken = left = min(size, crowd.congestion.waiting)
            while left:
                part = min(left, queue[0][1])
                left -= part
                queue[0][1] -= part
                if not queue[0][1]:
                    queue.popleft()
            crowd.reads(taken)
        for one in crowd.sessions:
            own = sum(piece for owner, piece in queue if owner == one)
            assert not (own > SHARE and not crowd.hosts[one].paused)
            assert not (own <= ENOUGH and crowd.hosts[one].paused)
        assert crowd.congestion.waiting == sum(piece for _, piece in queue)
