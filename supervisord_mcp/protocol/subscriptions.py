"""Who wants updates of which resource (protocol.md 6.4): a set of hosts per URI, one subscription upstream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from supervisord_mcp.protocol.calls import SessionKey


class ListenKey(NamedTuple):
    """A `subscriptions/listen` of a modern host: it holds resources of its own, apart from the host's other listens."""

    session: SessionKey
    identity: bytes


#: Who wants a resource: a legacy host, or one listen of a modern one.
Holder: TypeAlias = SessionKey | ListenKey


@dataclass(slots=True)
class Waiter:
    """A request to subscribe that waits for the server; not ``stays`` where the holder took it back since."""

    session: Holder
    identity: bytes
    stays: bool = True


@dataclass(slots=True)
class Subscription:
    """One URI: who holds it, and who waits for the server's answer.

    ``asking`` is true while a `resources/subscribe` is on its way; ``confirmed`` once the server accepted it. While
    one is on its way (and only then hosts wait) the entry stays though nobody wants it any more: there are never two.
    """

    holders: set[Holder] = field(default_factory=set)
    waiters: list[Waiter] = field(default_factory=list)
    asking: bool = False
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Accepted:
    """What follows when the server accepts: whom to answer, who had it before, whether nobody wants it any more."""

    waiters: list[Waiter]
    before: set[Holder]
    unwanted: bool


class Subscriptions:
    """All subscriptions of one instance."""

    def __init__(self) -> None:
        self._by_uri: dict[str, Subscription] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uri)

    def of(self, session: SessionKey) -> list[str]:
        """Return the URIs a host holds, sorted."""
        return sorted(uri for uri, entry in self._by_uri.items() if session in entry.holders)

    def subscribe(self, session: Holder, identity: bytes, uri: str) -> tuple[bool, bool]:
        """Note a host's wish; return (answer it now, ask the server now)."""
        entry = self._by_uri.setdefault(uri, Subscription())
        if entry.confirmed:
            entry.holders.add(session)
            return True, False
        entry.waiters.append(Waiter(session, identity))
        ask = not entry.asking
        entry.asking = True
        return False, ask

    def accepted(self, uri: str) -> Accepted:
        """The server accepted."""
        entry = self._by_uri[uri]
        entry.asking, entry.confirmed = False, True
        waiters, entry.waiters = entry.waiters, []
        before = set(entry.holders)
        entry.holders.update(waiter.session for waiter in waiters if waiter.stays)
        unwanted = not entry.holders
        if unwanted:
            del self._by_uri[uri]
        return Accepted(waiters, before, unwanted)

    def rejected(self, uri: str) -> tuple[Waiter | None, bool]:
        """The server refused; return (the host whose request that was, whether to ask again for the next one)."""
        entry = self._by_uri[uri]
        first = entry.waiters.pop(0) if entry.waiters else None
        entry.asking = bool(entry.waiters)
        if not entry.asking:
            # Holders without confirmation stem from before a restart: the server no longer has the resource.
            del self._by_uri[uri]
        return first, entry.asking

    def unsubscribe(self, session: SessionKey, uri: str) -> bool:
        """A host lets go; return whether the server has to be told (the last one left)."""
        entry = self._by_uri.get(uri)
        if entry is None:
            return False
        entry.holders.discard(session)
        for waiter in entry.waiters:
            if waiter.session == session:
                waiter.stays = False
        return self._release(uri, entry)

    def cancel(self, session: Holder, identity: bytes) -> None:
        """A host no longer waits for its subscription."""
        for entry in self._by_uri.values():
            entry.waiters = [w for w in entry.waiters if (w.session, w.identity) != (session, identity)]

    def leave(self, session: Holder) -> list[str]:
        """A host (or a listen) is gone; return the URIs that the server has to be told nobody wants any more."""
        gone = []
        for uri, entry in list(self._by_uri.items()):
            entry.holders.discard(session)
            entry.waiters = [waiter for waiter in entry.waiters if waiter.session != session]
            if self._release(uri, entry):
                gone.append(uri)
        return gone

    def _release(self, uri: str, entry: Subscription) -> bool:
        """Forget an entry that nobody wants; return whether the server holds it."""
        if entry.holders or entry.asking:
            return False
        del self._by_uri[uri]
        return entry.confirmed

    def restore(self, session: Holder, uris: Iterable[str]) -> None:
        """Take over what a host held before the daemon was restarted."""
        for uri in uris:
            self._by_uri.setdefault(uri, Subscription()).holders.add(session)

    def child_lost(self) -> None:
        """The child is gone and its subscriptions with it; those who waited for an answer were told so."""
        for uri, entry in list(self._by_uri.items()):
            entry.asking = entry.confirmed = False
            entry.waiters.clear()
            self._release(uri, entry)

    def holders(self, uri: str) -> set[Holder]:
        """Return who holds this very URI."""
        entry = self._by_uri.get(uri)
        return set() if entry is None else entry.holders

    def asking(self, uri: str) -> bool:
        """Whether the server was asked for a subscription and has not answered."""
        entry = self._by_uri.get(uri)
        return entry is not None and entry.asking

    def lost(self, uri: str) -> None:
        """The server ended a subscription; where it is still held it can be asked for again (`to_replay`)."""
        if uri in self._by_uri:
            self._by_uri[uri].confirmed = False

    def to_replay(self) -> list[str]:
        """Return the URIs to subscribe again at a new child, and note that they are being asked for."""
        uris = [uri for uri, entry in self._by_uri.items() if not entry.confirmed and not entry.asking]
        for uri in uris:
            self._by_uri[uri].asking = True
        return uris

    def interested(self, uri: str) -> set[Holder]:
        """Given the URI of an update, return whom to tell.

        An update may name a sub-resource of what was subscribed (pitfall 24): without an exact match the longest
        subscribed prefix is meant, and failing that every subscriber.
        """
        entry = self._by_uri.get(uri)
        if entry is not None and entry.holders:
            return entry.holders
        held = {known: entry.holders for known, entry in self._by_uri.items() if entry.holders}
        prefixes = [known for known in held if uri.startswith(known)]
        if prefixes:
            return held[max(prefixes, key=len)]
        return {session for holders in held.values() for session in holders}
