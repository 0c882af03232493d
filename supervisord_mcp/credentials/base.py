"""What every source of secrets is: something that reads a value by its name, or says why not and what to do.

No source may hang its caller: a keyring asks a person, a program waits for a network. So reading is done in a thread of
its own that is left behind when it takes too long.
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

import anyio

from supervisord_mcp.errors import SecretError

T = TypeVar("T")

#: How long a source may take to read one secret, in seconds; a person may have to unlock it meanwhile.
PATIENCE: Final = 30.0
#: The longest value, in bytes: Linux takes no longer string in an environment (MAX_ARG_STRLEN).
LONGEST: Final = (128 << 10) - 512


class Source(ABC):
    """A place where secrets are."""

    @abstractmethod
    def read(self, name: str) -> str:
        """Return the value of a secret. Raise `SecretError`, which never holds the value. May block."""


def checked(value: str) -> str:
    """Return a value that a process can be given. Raise `SecretError` where it is none."""
    if not value.strip():
        raise SecretError("the value is empty", remedy="Store the value itself; to have no secret, remove the grant.")
    if "\0" in value:
        raise SecretError("it has a NUL character, which no process can be given", remedy="Store it as text.")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise SecretError("it is no valid text", remedy="Store it as UTF-8.") from None
    if size > LONGEST:
        raise SecretError(f"it is longer than {LONGEST} bytes", remedy="Name a file that holds the secret alone.")
    return value


def text_of(content: bytes) -> str:
    """Return what a file or a program gave, without the newline at its end. Raise `SecretError` where it is no text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        # The error would quote a byte of it.
        raise SecretError("it is not UTF-8", remedy="Store it as text, in base64 for example.") from None
    return checked(text.removesuffix("\n").removesuffix("\r"))


def begin(function: Callable[[], T]) -> Future[T]:
    """Call a function in a thread of its own that nothing waits for in the end, and return what will come of it."""
    future: Future[T] = Future()

    def run() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = function()
        except BaseException as error:  # noqa: BLE001 (raised by whoever waits)
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="secret", daemon=True).start()
    return future


def within(function: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Call a function that may hang, and return what it does. Raise `SecretError` where it takes too long."""
    try:
        return begin(function).result(timeout=seconds)
    except TimeoutError:
        raise too_slow(seconds) from None


async def within_async(function: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Do the same as `within`, without holding up the event loop."""
    try:
        with anyio.fail_after(seconds):
            return await asyncio.wrap_future(begin(function))
    except TimeoutError:
        raise too_slow(seconds) from None


def too_slow(seconds: float) -> SecretError:
    """Return the error for a source that did not answer."""
    return SecretError(
        f"no answer within {seconds:g} s",
        remedy="It may be locked and wait for you, or for a network: try it by hand, then start the server again.",
    )
