"""What is common to all sources: values that can be given to a process, and patience that ends."""

from __future__ import annotations

import threading

import anyio
import pytest

from supervisord_mcp.credentials.base import LONGEST, begin, checked, text_of, within, within_async
from supervisord_mcp.errors import SecretError
from tests.kit.bounded import bounded

BAD = {
    "empty": ("", "the value is empty"),
    "blanks": (" \n\t", "the value is empty"),
    "NUL": ("a\0b", "NUL"),
    "too long": ("x" * (LONGEST + 1), "longer than"),
    "no text": ("\ud800", "no valid text"),
}


@pytest.mark.parametrize("case", BAD)
def test_no_process_can_be_given(case: str) -> None:
    value, why = BAD[case]
    with pytest.raises(SecretError, match=why) as caught:
        checked(value)
    assert caught.value.remedy
    assert len(value) < 3 or value not in str(caught.value)


def test_a_newline_at_the_end_is_that_of_the_file() -> None:
    assert text_of(b"token\n") == text_of(b"token\r\n") == text_of(b"token") == "token"
    assert text_of(b"two\nlines\n\n") == "two\nlines\n"
    with pytest.raises(SecretError, match="UTF-8") as caught:
        text_of(b"secret\xff")
    assert "secret" not in str(caught.value)


def test_what_a_source_says_or_raises_arrives() -> None:
    assert within(lambda: "x") == "x"

    def fail() -> str:
        raise SecretError("no", remedy="yes")

    with pytest.raises(SecretError, match="no"):
        within(fail)


def test_one_that_hangs_is_left_behind() -> None:
    release = threading.Event()
    try:
        with pytest.raises(SecretError, match=r"no answer within 0.05 s") as caught:
            within(release.wait, 0.05)
        assert "locked" in caught.value.remedy
    finally:
        release.set()


@bounded(20)
async def test_the_event_loop_goes_on_meanwhile() -> None:
    release = threading.Event()
    assert await within_async(lambda: "x") == "x"
    with pytest.raises(SecretError, match="no answer"):
        await within_async(release.wait, 0.05)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(within_async, release.wait)
        release.set()


def test_one_that_nobody_waits_for_any_more_is_not_begun() -> None:
    started = threading.Event()
    future = begin(started.wait)
    started.set()
    assert future.result(10)
