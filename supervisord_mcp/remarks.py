"""What the multiplexer remarks on the messages of one instance: counted for status, and the first of it in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.logs import Log

#: How many remarks are logged for each run; the rest is counted.
LOGGED = 100
#: How much of the first line of noise is told with the end of a run, in characters.
_SHOWN = 120
#: The kinds of remarks that stand for something of the server that reached nobody: lines that are no message, answers
#: and progress that came too late, answers to what was never asked, and notifications that belong to no host.
DROPPED = ("noise", "late", "unknown", "unrouted", "early")


class Remarks:
    """The remarks on one instance, over all its runs."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._dropped: Counter[str] = Counter()
        self._run = self._noise = 0
        self._first = ""

    @property
    def noise(self) -> str:
        """What the child of this run wrote that is no message, in words for a person; empty if there was nothing."""
        if not self._noise:
            return ""
        lines = "a line that is" if self._noise == 1 else f"{self._noise} lines that are"
        return f"it wrote {lines} not MCP to stdout, first: {self._first}"

    @property
    def dropped(self) -> Mapping[str, int]:
        """How much of the server reached nobody, by the kinds of `DROPPED` that there were."""
        return MappingProxyType(self._dropped)

    def take(self, kind: str, text: str) -> None:
        """Count one remark, and log it unless there were many in this run."""
        text = masker.mask(text, cut=True)  # what it quotes of a message may end anywhere
        if kind in DROPPED:
            self._dropped[kind] += 1
        if kind == "noise":
            self._first = self._first if self._noise else " ".join(text[:_SHOWN].split())
            self._noise += 1
        self._run += 1
        if self._run <= LOGGED:
            self._log.write("smcp", f"{kind}: {text}")

    def end_run(self) -> None:
        """The child is gone: say how much was not logged, and log the first of the next one again."""
        if self._run > LOGGED:
            self._log.write("smcp", f"and {self._run - LOGGED} more lines of noise that are not shown")
        self._run = self._noise = 0
