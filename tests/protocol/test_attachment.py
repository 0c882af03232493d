"""One host: its handshake in every order, its batches, and what of it survives the daemon."""

from __future__ import annotations

import msgspec
import pytest

from supervisord_mcp.protocol.attachment import Attachment, Batch, Greeting, State
from supervisord_mcp.protocol.calls import Call
from supervisord_mcp.protocol.commands import ToSession, Weight

CHANGED = ToSession(1, b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n', Weight.REPEATED)


def answered() -> Attachment:
    attachment = Attachment(1, Greeting.ASKED)
    assert attachment.welcomed() == []
    return attachment


def stage(attachment: Attachment) -> tuple[bool, bool]:
    return attachment.greeted, attachment.done


def test_a_handshake_in_its_order() -> None:
    attachment = Attachment(1)
    assert stage(attachment) == (False, False)
    attachment.greeting = Greeting.ASKED
    assert stage(attachment) == (True, False)
    attachment.welcomed()
    assert stage(attachment) == (True, False)
    attachment.confirmed()
    assert stage(attachment) == (True, True)
    assert attachment.confirmed() == []
    assert stage(attachment) == (True, True)


def test_a_host_may_be_done_before_it_is_answered() -> None:
    attachment = Attachment(1, Greeting.ASKED)
    assert attachment.confirmed() == attachment.confirmed() == []
    assert stage(attachment) == (True, False)
    attachment.welcomed()
    assert stage(attachment) == (True, True)


def test_a_host_that_never_asked_is_never_done() -> None:
    attachment = Attachment(1)
    attachment.confirmed()
    assert stage(attachment) == (False, False)


def test_a_refused_handshake_can_be_tried_again() -> None:
    attachment = Attachment(1, Greeting.ASKED)
    attachment.confirmed()
    attachment.refused()
    assert not attachment.greeted
    assert attachment.state([], {}) == State()


def test_a_change_is_told_when_the_host_can_be_told() -> None:
    attachment = Attachment(1)
    assert attachment.list_changed("tools") == []
    attachment = answered()
    assert attachment.list_changed("tools") == []
    assert attachment.confirmed() == [CHANGED]
    assert attachment.list_changed("tools") == []
    attachment.lists.asked("tools/list", None)
    assert attachment.list_changed("tools") == [CHANGED]


@pytest.mark.parametrize("done", [False, True])
def test_the_slow_state_survives(done: bool) -> None:
    attachment = answered()
    attachment.version, attachment.capabilities, attachment.client = "2025-06-18", {"roots": {}}, {"name": "h"}
    attachment.level, attachment.asked, attachment.told = "debug", 7, {"tools": {"listChanged": True}}
    if done:
        attachment.confirmed()
    kept = msgspec.json.decode(msgspec.json.encode(attachment.state(["u:1"], {})), type=State)
    restored = Attachment.restored(5, kept)
    assert restored.key == 5
    assert restored.done is done
    assert restored.greeting is (Greeting.DONE if done else Greeting.ANSWERED)
    assert restored.state(["u:1"], {}) == attachment.state(["u:1"], {})
    assert kept.uris == ["u:1"]
    assert kept.told == {"tools": {"listChanged": True}}
    assert Attachment.restored(5, kept, "somebody").principal == "somebody"


@pytest.mark.parametrize("greeting", list(Greeting))
def test_what_was_answered_counts_for_the_host(greeting: Greeting) -> None:
    assert Attachment(1, greeting).answered is (greeting in (Greeting.ANSWERED, Greeting.DONE))


def test_a_handshake_that_was_not_answered_is_kept_with_its_id_until_it_is_done() -> None:
    attachment = Attachment(1, Greeting.ASKED, version="2025-06-18", asking=b'"a"')
    assert attachment.state([], {}) == State(version="2025-06-18", asking='"a"')
    attachment.confirmed()
    assert attachment.state([], {}) == State(version="2025-06-18", initialized=True, asking='"a"')
    attachment.welcomed()
    assert attachment.state([], {}) == State(version="2025-06-18", initialized=True)
    assert not Attachment.restored(1, State()).greeted


def opened(*identities: bytes) -> dict[bytes, Call]:
    return {identity: Call(1, identity) for identity in identities}


def test_an_answer_closes_its_request() -> None:
    attachment = Attachment(1, open=opened(b"1"))
    assert attachment.answer(b"1", b"x\n") == [ToSession(1, b"x\n", closes=(Call(1, b"1"),))]
    assert not attachment.open
    attachment.opens(Call(1, b"2"))
    assert attachment.forget(b"2") == []
    assert not attachment.open


def test_the_answers_of_a_batch_are_one_array() -> None:
    attachment = Attachment(1, open=opened(b"1", b"2", b"3", b"4"))
    batch = Batch(waiting={b"1", b"2", b"3"})
    attachment.batches = {b"1": batch, b"2": batch, b"3": batch}
    assert attachment.answer(b"2", b"two\n") == []
    assert attachment.uses(b"2")  # for the host it is not answered yet
    batch.closed = True
    assert attachment.answer(b"4", b"four\n") == [ToSession(1, b"four\n", closes=(Call(1, b"4"),))]
    assert attachment.forget(b"1") == []
    assert attachment.answer(b"3", b"three\n") == [
        ToSession(1, b"[two,three]\n", closes=(Call(1, b"2"), Call(1, b"3")))
    ]
    assert not attachment.batches


def test_a_batch_whose_requests_were_all_cancelled_gets_no_answer() -> None:
    attachment = Attachment(1, open=opened(b"1"))
    attachment.batches[b"1"] = batch = Batch(waiting={b"1"}, closed=True)
    assert attachment.forget(b"1") == []
    assert attachment.finish(batch) == []


def test_the_last_cancel_of_a_batch_sends_the_rest() -> None:
    attachment = Attachment(1, open=opened(b"1"))
    batch = Batch(waiting={b"1"}, answered=[Call(1, b"0")], answers=[b"zero\n"], closed=True)
    attachment.batches = {b"0": batch, b"1": batch}
    assert attachment.forget(b"1") == [ToSession(1, b"[zero]\n", closes=(Call(1, b"0"),))]


def test_a_request_opens_once() -> None:
    attachment = Attachment(1)
    [first] = attachment.opens(Call(1, b"1", "tools/call"))
    assert attachment.opens(Call(1, b"1", upstream=7)) == []
    assert attachment.open[b"1"] is first
    assert (first.method, first.upstream) == ("tools/call", 7), "it is the same one, at the child by now"


def test_calls_are_what_nothing_was_sent_back_for() -> None:
    attachment = Attachment(1, open=opened(b"1", b"2", b"3"))
    batch = Batch(waiting={b"1", b"2"}, closed=True)
    attachment.batches = {b"1": batch, b"2": batch}
    attachment.answer(b"1", b"one\n")
    assert sorted(call.identity for call in attachment.calls) == [b"1", b"2", b"3"]
    attachment.answer(b"2", b"two\n")
    assert [call.identity for call in attachment.calls] == [b"3"]
