"""The one masker of a process: it knows the values that no text of ours may show, and every sink asks it.

Sinks are the log files of servers, what is kept of their stderr, the daemon's own log with what a crash prints, events,
`status`, and the errors that hosts are told. What servers and hosts say to each other is not ours: it is never altered,
and never looked at but for `warn_on_echo`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TextIO

from supervisord_mcp.credentials.forms import MIN_LENGTH, forms, is_ordinary

if TYPE_CHECKING:
    from supervisord_mcp.credentials.needles import Needles

Span = tuple[int, int]

#: What stands in the place of a value.
MASK = "***"
_MASK = MASK.encode()
#: What is more than one word.
_IS_TEXT = re.compile(r"[\s=]|://")


class Masker:
    """Values with their names. It may be asked and taught by any thread; while it knows nothing it costs nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[str, frozenset[str]] = {}
        self._patterns: dict[bytes, frozenset[str]] = {}
        #: Those of values that are no ordinary words (`is_ordinary`).
        self._telling: dict[bytes, frozenset[str]] = {}
        #: None where there is something to look for that is not made ready yet.
        self._needles: Needles | None = None
        self._telling_needles: Needles | None = None

    def learn(self, value: str, name: str) -> bool:
        """Mask a value from now on, under a name for those who look it up. Return whether it is long enough."""
        value = value.strip()
        if name in self._names.get(value, ()):
            return True
        found = forms(value)
        if not found:
            return False
        with self._lock:
            self._names[value] = self._names.get(value, frozenset()) | {name}
            self._patterns = _added(self._patterns, found, frozenset({name}))
            if not is_ordinary(value):
                self._telling = _added(self._telling, found, frozenset({name}))
            self._needles = self._telling_needles = None
        return True

    def forget(self, value: str) -> None:
        """Mask a value no more."""
        with self._lock:
            self._names.pop(value.strip(), None)
            patterns: dict[bytes, frozenset[str]] = {}
            telling: dict[bytes, frozenset[str]] = {}
            for known, names in self._names.items():
                found = forms(known)
                patterns = _added(patterns, found, names)
                if not is_ordinary(known):
                    telling = _added(telling, found, names)
            self._patterns, self._telling = patterns, telling
            self._needles = self._telling_needles = None

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._names, self._patterns, self._telling = {}, {}, {}
            self._needles = self._telling_needles = None

    def mask(self, text: str, *, cut: bool = False) -> str:
        """Return a text without values. ``cut`` says that its end is missing: there may be a part of one there."""
        if not self._patterns:
            return text
        data = text.encode("utf-8", "surrogatepass")
        masked = self.mask_bytes(data, cut=cut)
        return text if masked is data else masked.decode("utf-8", "surrogatepass")

    def mask_bytes(self, data: bytes, *, cut: bool = False) -> bytes:
        """Return bytes without values; the same object where there are none."""
        if not self._patterns:
            return data
        needles = self._ready()
        spans = needles.spans(data)
        if cut:
            spans = _with_part(spans, needles.begun(data), len(data))
        return _without(data, spans) if spans else data

    def mask_data(self, data: Any) -> Any:
        """Return plain JSON values without values in their texts; the same object where nothing is known.

        A single word is a name, a state or a key: an ordinary word is left in it, for programs rely on it.
        """
        if not self._patterns:
            return data
        match data:
            case str():
                return self.mask(data) if _IS_TEXT.search(data) else self._mask_name(data)
            case Mapping():
                return {self.mask_data(key): self.mask_data(value) for key, value in data.items()}
            case list() | tuple():
                return [self.mask_data(item) for item in data]
            case _:
                return data

    def mask_json(self, line: bytes) -> bytes:
        """Return a line of JSON without values in its texts; the same object where there are none.

        Raise `ValueError` where that cannot be JSON again, as with a number that is too large for a float.
        """
        if not self.names(line):
            return line
        return json.dumps(self.mask_data(json.loads(line)), ensure_ascii=False, allow_nan=False).encode() + b"\n"

    def names(self, data: bytes | str) -> frozenset[str]:
        """Return the names of the values that are in a text, in whatever form."""
        if not self._patterns:
            return frozenset()
        return self._ready().names(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))

    def names_telling(self, data: bytes | str) -> frozenset[str]:
        """Return the names of the values in a text that cannot be there by chance: those that are no ordinary words."""
        if not self._telling:
            return frozenset()
        return self._ready_telling().names(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))

    def names_of(self, value: str) -> frozenset[str]:
        """Return the names of one value, of an ordinary word too."""
        return self._names.get(value.strip(), frozenset())

    def _mask_name(self, text: str) -> str:
        if not self._telling:
            return text
        data = text.encode("utf-8", "surrogatepass")
        spans = self._ready_telling().spans(data)
        return _without(data, spans).decode("utf-8", "surrogatepass") if spans else text

    def _ready_telling(self) -> Needles:
        if len(self._telling) == len(self._patterns):
            return self._ready()
        if (needles := self._telling_needles) is None:
            from supervisord_mcp.credentials.needles import Needles

            with self._lock:
                needles = self._telling_needles = Needles(self._telling)
        return needles

    def _ready(self) -> Needles:
        if (needles := self._needles) is None:
            # Loaded with the first value: a daemon without secrets does not pay for it.
            from supervisord_mcp.credentials.needles import Needles

            with self._lock:
                needles = self._needles = Needles(self._patterns)
        return needles

    def survey(self, data: bytes) -> tuple[list[Span], int]:
        """Return the parts of bytes that values take up, and where the end begins that may be the start of one."""
        if not self._patterns:
            return [], len(data)
        needles = self._ready()
        return needles.spans(data), needles.begun(data)


class MaskedStream:
    """Masks bytes that come in pieces: an end that may be the beginning of a value waits for the next piece."""

    def __init__(self, masker: Masker) -> None:
        self._masker = masker
        self._held = b""
        #: So much of what is held belongs to a value whose mask was already written.
        self._masked = 0

    def feed(self, piece: bytes) -> bytes:
        """Return what is known to be safe by now, masked."""
        data = self._held + piece if self._held else piece
        spans, begun = self._masker.survey(data)
        if not spans and begun == len(data) and not self._masked:
            self._held = b""
            return data
        return self._take(data, spans, begun)

    def finish(self) -> bytes:
        """Return what was held: nothing comes after it. Of a value that began, what is long enough stays masked."""
        spans, begun = self._masker.survey(self._held)
        return self._take(self._held, _with_part(spans, begun, len(self._held)), len(self._held))

    def _take(self, data: bytes, spans: list[Span], begun: int) -> bytes:
        out: list[bytes] = []
        at = self._masked
        for start, stop in spans:
            if start >= begun:
                break
            if start >= at:
                out += (data[at:start], _MASK)
            at = max(at, stop)
        out.append(data[at:begun])
        self._held, self._masked = data[begun:], max(0, at - begun)
        return b"".join(out)


class MaskedText:
    """A stream for text that shows no value: what stands in the place of the stderr of a daemon."""

    def __init__(self, stream: TextIO, masker: Masker) -> None:
        self._stream = stream
        self._masker = masker

    def write(self, text: str) -> int:
        """Write a text, masked; return its length."""
        self._stream.write(self._masker.mask(text))
        return len(text)

    def writelines(self, texts: Iterable[str]) -> None:
        """Write texts, masked as one."""
        self.write("".join(texts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _added(
    patterns: Mapping[bytes, frozenset[str]], found: Iterable[bytes], names: frozenset[str]
) -> dict[bytes, frozenset[str]]:
    return {**patterns, **{form: patterns.get(form, frozenset()) | names for form in found}}


def _with_part(spans: list[Span], begun: int, end: int) -> list[Span]:
    """Return spans with what may be a part of a value at the end of a text, unless it is too short to be one."""
    return spans if end - begun < MIN_LENGTH else _joined([*spans, (begun, end)])


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return joined


def _without(data: bytes, spans: list[Span]) -> bytes:
    out: list[bytes] = []
    at = 0
    for start, stop in spans:
        out += (data[at:start], _MASK)
        at = stop
    return b"".join((*out, data[at:]))


#: The masker of this process.
masker = Masker()
