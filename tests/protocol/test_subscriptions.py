"""Sets of hosts per URI, and never more than one question to the server about each."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.protocol.subscriptions import Accepted, Holder, Subscriptions, Waiter


def holding(*sessions: int, uri: str = "u") -> Subscriptions:
    subscriptions = Subscriptions()
    for session in sessions:
        subscriptions.subscribe(session, b"1", uri)
    subscriptions.accepted(uri)
    return subscriptions


def test_the_first_asks_and_the_others_wait() -> None:
    subscriptions = Subscriptions()
    assert not subscriptions
    assert subscriptions.subscribe(1, b"1", "u") == (False, True)
    assert subscriptions.subscribe(2, b"1", "u") == (False, False)
    assert subscriptions.of(1) == []
    assert subscriptions.accepted("u") == Accepted([Waiter(1, b"1"), Waiter(2, b"1")], set(), unwanted=False)
    assert subscriptions.subscribe(3, b"1", "u") == (True, False)
    assert subscriptions.of(3) == ["u"]
    assert subscriptions.interested("u") == {1, 2, 3}


def test_a_refusal_goes_to_the_first_and_the_next_tries() -> None:
    subscriptions = Subscriptions()
    for session in (1, 2):
        subscriptions.subscribe(session, b"1", "u")
    assert subscriptions.rejected("u") == (Waiter(1, b"1"), True)
    assert subscriptions.rejected("u") == (Waiter(2, b"1"), False)
    assert not subscriptions


def test_only_the_last_one_is_told_to_the_server() -> None:
    subscriptions = holding(1, 2)
    assert not subscriptions.unsubscribe(3, "u")
    assert not subscriptions.unsubscribe(1, "other")
    assert not subscriptions.unsubscribe(1, "u")
    assert subscriptions.unsubscribe(2, "u")
    assert not subscriptions


def test_who_takes_it_back_before_the_answer_does_not_hold_it_after() -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(1, b"1", "u")
    assert not subscriptions.unsubscribe(1, "u")
    subscriptions.subscribe(2, b"1", "u")
    accepted = subscriptions.accepted("u")
    assert accepted.waiters == [Waiter(1, b"1", stays=False), Waiter(2, b"1")]
    assert subscriptions.interested("u") == {2}
    subscriptions = Subscriptions()
    subscriptions.subscribe(1, b"1", "u")
    subscriptions.subscribe(2, b"1", "u")
    subscriptions.unsubscribe(2, "u")
    subscriptions.accepted("u")
    assert subscriptions.interested("u") == {1}
    subscriptions = Subscriptions()
    subscriptions.subscribe(1, b"1", "u")
    subscriptions.unsubscribe(1, "u")
    assert subscriptions.accepted("u").unwanted
    assert not subscriptions


def test_who_cancels_or_leaves_is_not_answered() -> None:
    subscriptions = Subscriptions()
    for session in (1, 2, 3):
        subscriptions.subscribe(session, b"1", "u")
    subscriptions.cancel(1, b"1")
    subscriptions.cancel(2, b"other")
    assert subscriptions.leave(3) == []
    assert subscriptions.accepted("u").waiters == [Waiter(2, b"1")]


def test_a_question_on_its_way_is_not_asked_again() -> None:
    subscriptions = Subscriptions()
    subscriptions.subscribe(1, b"1", "u")
    subscriptions.leave(1)
    assert subscriptions.subscribe(2, b"1", "u") == (False, False)
    assert subscriptions.accepted("u").waiters == [Waiter(2, b"1")]
    subscriptions = Subscriptions()
    subscriptions.subscribe(1, b"1", "u")
    subscriptions.leave(1)
    assert subscriptions.rejected("u") == (None, False)
    assert not subscriptions


def test_leaving_tells_what_nobody_wants_any_more() -> None:
    subscriptions = holding(1, 2)
    for uri in ("v", "w"):
        subscriptions.subscribe(1, b"2", uri)
        subscriptions.accepted(uri)
    assert subscriptions.of(1) == ["u", "v", "w"]
    assert subscriptions.leave(1) == ["v", "w"]
    assert subscriptions.leave(1) == []
    assert subscriptions.leave(2) == ["u"]


def test_a_new_child_is_asked_for_what_hosts_hold() -> None:
    subscriptions = holding(1, uri="u")
    subscriptions.subscribe(2, b"1", "v")
    subscriptions.child_lost()
    subscriptions.restore(3, ["u", "w"])
    assert subscriptions.to_replay() == ["u", "w"]
    assert subscriptions.to_replay() == []
    assert subscriptions.subscribe(4, b"1", "u") == (False, False)
    assert subscriptions.accepted("u") == Accepted([Waiter(4, b"1")], {1, 3}, unwanted=False)
    assert subscriptions.rejected("w") == (None, False)
    assert subscriptions.of(3) == ["u"]
    assert subscriptions.to_replay() == []


def test_what_was_never_confirmed_is_forgotten_without_a_word() -> None:
    subscriptions = Subscriptions()
    subscriptions.restore(1, ["u"])
    assert subscriptions.leave(1) == []
    assert not subscriptions


def test_who_is_interested_in_a_part() -> None:
    subscriptions = holding(1, uri="file:///a")
    subscriptions.subscribe(2, b"1", "file:///a/b")
    assert subscriptions.interested("file:///a/b/c") == {1}  # the other one is not accepted yet
    assert subscriptions.interested("file:///a/b") == {1}
    subscriptions.accepted("file:///a/b")
    assert subscriptions.interested("file:///a/b/c") == {2}
    assert subscriptions.interested("file:///a/x") == {1}
    assert subscriptions.interested("other:") == {1, 2}
    assert Subscriptions().interested("u") == set()


MOVES = st.tuples(
    st.sampled_from(["subscribe", "unsubscribe", "cancel", "leave", "accept", "reject", "lost"]), st.integers(1, 3)
)


@given(st.lists(MOVES, max_size=40))
def test_one_question_at_a_time_and_the_server_holds_what_is_wanted(moves: list[tuple[str, int]]) -> None:
    subscriptions, asking, held, waiting = Subscriptions(), 0, False, Counter[tuple[Holder, bytes]]()
    for number, (move, session) in enumerate(moves):
        identity = b"%d" % number
        match move:
            case "subscribe":
                now, ask = subscriptions.subscribe(session, identity, "u")
                assert not (now and ask)
                asking += ask
                waiting[session, identity] += not now
            case "unsubscribe" | "leave":
                told = (
                    subscriptions.unsubscribe(session, "u")
                    if move == "unsubscribe"
                    else bool(subscriptions.leave(session))
                )
                assert not told or held
                held = held and not told
                if move == "leave":
                    waiting = Counter({key: count for key, count in waiting.items() if key[0] != session})
            case "cancel" if +waiting:
                key = next(iter(+waiting))
                subscriptions.cancel(*key)
                del waiting[key]
            case "accept" if asking:
                accepted = subscriptions.accepted("u")
                asking -= 1
                held = not accepted.unwanted
                waiting.subtract((waiter.session, waiter.identity) for waiter in accepted.waiters)
            case "reject" if asking:
                first, again = subscriptions.rejected("u")
                asking += again - 1
                waiting.subtract([(first.session, first.identity)] if first else [])
            case "lost":
                subscriptions.child_lost()
                waiting.clear()
                asking, held = len(subscriptions.to_replay()), False
        assert 0 <= asking <= 1
        assert min(waiting.values(), default=0) >= 0
        assert not +waiting or asking
        assert held or asking or not subscriptions


def test_a_subscription_that_nobody_holds_can_end_unnoticed() -> None:
    subscriptions = Subscriptions()
    subscriptions.lost("u")
    subscriptions.subscribe(1, b"1", "u")
    subscriptions.accepted("u")
    subscriptions.lost("u")
    assert subscriptions.to_replay() == ["u"]
