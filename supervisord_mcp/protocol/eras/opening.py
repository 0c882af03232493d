"""The first words with a fresh child, until it is known in which era to talk with it (protocol.md 3.4, 6.1 D2, D3).

    pinned, or known          `initialize` or `server/discover`, as it is known to work
    not known                 `server/discover`: an answer says modern, an error or silence is followed by `initialize`
    modern, hosts are legacy  the child is replaced, and the next one is tried with `initialize`: it may speak both
    died of the first words   the next child is spoken to in the other era

What was tried in vain is remembered until a child got ready, so that a server that always dies is not tried for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from supervisord_mcp.protocol import jsonrpc, mcp
from supervisord_mcp.protocol.alarms import Alarms
from supervisord_mcp.protocol.commands import Alarm, Command, Judged, Refused, Respawn
from supervisord_mcp.protocol.eras import envelope, probe
from supervisord_mcp.protocol.eras.envelope import Envelope
from supervisord_mcp.protocol.eras.probe import Again, Foreign, Modern, Terms, Verdict
from supervisord_mcp.protocol.jsonrpc import Members, Message, Text
from supervisord_mcp.protocol.mcp import Era

#: Sends a request of the daemon's own and calls back with the answer.
Ask = Callable[[str, Text | None, Callable[[Message], list[Command]]], list[Command]]


@dataclass(frozen=True, slots=True)
class Opened:
    """The child is ready in this era and revision; ``result`` is what it said of itself."""

    era: Era
    version: str
    result: Members


class Opening:
    """One child at a time; ``opened`` is called once with what it turned out to be."""

    def __init__(self, ask: Ask, alarms: Alarms, opened: Callable[[Opened], list[Command]]) -> None:
        self._ask = ask
        self._alarms = alarms
        self._opened = opened
        self._terms = Terms()
        self._hello = b""
        self._caller = Envelope(mcp.NEWEST_MODERN, {})
        # What the children of this start said, so far as it is not confirmed by one that got ready.
        self._learnt = probe.UNKNOWN
        # The era in which this child was spoken to last and has not answered yet, and what it refused before.
        self._trying: Era | None = None
        self._tried: set[Era] = set()
        self._reason = ""
        self._alarm: Alarm | None = None

    def begin(self, terms: Terms, hello: bytes, client: Envelope) -> list[Command]:
        """A child runs. ``hello`` are the parameters of `initialize`, ``client`` is the envelope of the other way."""
        self._terms, self._hello, self._caller = terms, hello, client
        self._tried, self._reason = set(), ""
        if self._learnt == probe.UNKNOWN:
            self._learnt = terms.verdict
        return self._discover() if probe.first(terms, self._learnt) == "modern" else self._initialize()

    @property
    def doubtful(self) -> bool:
        """Whether a death of the child now only says that it does not know the era it was spoken to in (pitfall 17)."""
        if self._terms.pinned is not None or self._trying is None:
            return False
        if self._trying == "modern":
            return self._learnt.modern is None and not self._tried
        # It may have died of the probe that came before, or this is the first time that it is tried so.
        return "modern" in self._tried or (self._learnt.modern is True and self._learnt.legacy is None)

    def child_lost(self, *, blameless: bool) -> None:
        """The child is gone; if that was its answer to the first words, it does not speak that era."""
        if blameless and self.doubtful:
            self._learn("modern" if self._trying == "modern" or self._tried else "legacy", False)
        self.stop()

    def stop(self) -> None:
        """Nothing more is said to this child."""
        self._alarms.forget(self._alarm)
        self._trying = self._alarm = None

    def _learn(self, era: Era | None, speaks: bool) -> None:
        if era == "modern":
            self._learnt = replace(self._learnt, modern=speaks)
        else:
            self._learnt = replace(self._learnt, legacy=speaks)

    # Modern

    def _discover(self, version: str = mcp.NEWEST_MODERN) -> list[Command]:
        self._trying = "modern"
        params = envelope.write(None, replace(self._caller, version=version))
        asked = self._ask("server/discover", params, lambda answer: self._discovered(answer, version))
        return [*asked, *self._wait()]

    def _discovered(self, answer: Message, asked: str) -> list[Command]:
        if self._trying != "modern":
            return []  # too late: the child was taken for a legacy one meanwhile, and has the last word on that itself
        self.stop()
        found = probe.outcome(answer)
        match found:
            case Modern(version, result):
                return self._is_modern(version, result)
            case Again(version) if version != asked:
                return self._discover(version)
            case Again(version):
                return self._refuse(f"does not serve the revision {version}, which it says it serves")
            case Foreign(versions):
                text = ", ".join(versions) or "none that it names"
                return self._refuse(f"speaks only revisions that smcp does not know: {text}")
            case _:
                return self._not_in("modern", found.reason)

    def _is_modern(self, version: str, result: Members) -> list[Command]:
        self._learn("modern", True)
        terms = self._terms
        if terms.pinned is None and terms.preferred == "legacy" and self._learnt.legacy is None:
            # Servers that speak both are bound to the era of their first words: only another child can tell.
            return [Respawn(), *self._judged()]
        return self._done(Opened("modern", version, result))

    # Legacy

    def _initialize(self) -> list[Command]:
        self._trying = "legacy"
        asked = self._ask("initialize", self._hello, self._initialized)
        is_trial = self._learnt.modern is True and self._learnt.legacy is None
        return [*asked, *(self._wait() if is_trial else [])]

    def _initialized(self, answer: Message) -> list[Command]:
        if self._trying != "legacy":
            return []
        self.stop()
        if "result" in answer.members:
            return self._is_legacy(jsonrpc.members_of(answer.members["result"]))
        reason = f"answered initialize with an error: {probe.error_text(answer)}"
        if not probe.refuses_version(answer):
            return self._not_in("legacy", reason)
        if self._terms.pinned is not None:
            return self._refuse(f'{reason}\nIt speaks no revision with a handshake; write era = "modern" or "auto".')
        # A slow server that had heard the probe is bound to it: only one that heard nothing else has no handshake.
        self._learnt = Verdict(None if self._tried else False, True)
        self._tried.add("legacy")
        return self._discover()

    def _is_legacy(self, result: Members) -> list[Command]:
        version = jsonrpc.value_of(result.get("protocolVersion"))
        if version not in mcp.LEGACY_VERSIONS:
            return self._refuse(f"speaks protocol version {version!r}, which smcp does not know")
        self._learnt = Verdict(True, bool(self._learnt.modern))
        return self._done(Opened("legacy", version, result))

    # Both

    def _wait(self) -> list[Command]:
        """Be woken if the child says nothing, where there is something else to try."""
        if self._terms.pinned is not None or self._tried:
            return []
        self._alarm = self._alarms.after(self._terms.patience, self._silent)
        return [self._alarm]

    def _silent(self) -> list[Command]:
        self._alarm = None
        if self._trying == "modern":
            self._tried.add("modern")
            return self._initialize()
        return self._not_in("legacy", "did not answer initialize")

    def _not_in(self, era: Era, reason: str) -> list[Command]:
        """The child does not speak this era: try the other one, or give up."""
        self._reason = self._reason or reason
        other: Era = "legacy" if era == "modern" else "modern"
        if self._terms.pinned is not None or other in self._tried:
            return self._refuse(self._reason)
        self._tried.add(era)
        if era == "modern" or self._learnt.modern:
            self._learn(era, False)
        return self._initialize() if other == "legacy" else self._discover()

    def _refuse(self, reason: str) -> list[Command]:
        self._learnt = probe.UNKNOWN
        return [Refused(reason)]

    def _done(self, opened: Opened) -> list[Command]:
        judged = self._judged()
        self._learnt = probe.UNKNOWN
        return [*judged, *self._opened(opened)]

    def _judged(self) -> list[Command]:
        if self._terms.pinned is not None or self._learnt == self._terms.verdict:
            return []
        return [Judged(self._learnt)]
