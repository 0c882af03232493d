"""What bubblewrap inherits besides stdin, stdout and stderr: pipes, and arguments and files that show nowhere."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.sandbox import Bound, Data, Step


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a pipe: ours, and the one that is inherited."""

    ours: int
    theirs: int


class Descriptors(contextlib.AbstractContextManager["Descriptors"]):
    """The descriptors that bubblewrap inherits, and our ends of its pipes; all are closed in the end."""

    def __init__(self) -> None:
        self._inherited: list[int] = []
        self._ours: list[int] = []

    def __exit__(self, *details: object) -> None:
        self.close_inherited()
        while self._ours:
            os.close(self._ours.pop())

    @property
    def inherited(self) -> tuple[int, ...]:
        """What the child is to inherit, under the same numbers."""
        return tuple(self._inherited)

    def close_inherited(self) -> None:
        """Close what the child has by now, so that end of file is seen on its ends."""
        while self._inherited:
            os.close(self._inherited.pop())

    def inherit(self, descriptor: int) -> None:
        """Let the child inherit a descriptor, under the same number; it is closed here in the end."""
        self._inherited.append(descriptor)

    def keep(self, descriptor: int) -> None:
        """Close a descriptor of this process in the end."""
        self._ours.append(descriptor)

    def pipe_from_child(self) -> Ends:
        """Return a pipe that the child writes. Raise `LaunchError` where there is none to be had."""
        return self._pipe(theirs=1)

    def pipe_to_child(self) -> Ends:
        """Return a pipe that the child reads. Raise `LaunchError` where there is none to be had."""
        return self._pipe(theirs=0)

    def file(self, content: bytes) -> int:
        """Return a file without a name that the child reads. Raise `LaunchError` where there is none to be had."""
        with _launch_errors():
            descriptor = os.memfd_create("smcp", os.MFD_CLOEXEC)
        self._inherited.append(descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        return descriptor

    def render(self, built: Sequence[Step]) -> list[str]:
        """Return the words that make bubblewrap read the steps from a descriptor."""
        words: list[str] = []
        for step in built:
            match step:
                case Data():
                    words += ("--perms", step.mode, "--file", str(self.file(step.text.encode())), step.path)
                case Bound():
                    words += step.words
                case _:
                    words += step
        return ["--args", str(self.file(b"".join(os.fsencode(word) + b"\0" for word in words)))]

    def _pipe(self, theirs: int) -> Ends:
        with _launch_errors():
            ends = os.pipe2(os.O_CLOEXEC)
        self._inherited.append(ends[theirs])
        self._ours.append(ends[1 - theirs])
        os.set_blocking(ends[1 - theirs], False)
        return Ends(ends[1 - theirs], ends[theirs])


@contextlib.contextmanager
def _launch_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LaunchError(f"no descriptor for a new child: {error.strerror}") from error
