"""Who wants updates of which resource (protocol.md 6.4): a set of hosts per URI, one subscription upstream."""

from __future__ import annotations

from dataclasses import dataclass, field

from supervisord_mcp.protocol.commands import SessionKey

#: A host's request to subscribe that waits for the server's answer.
Waiter = tuple[SessionKey, bytes]


@dataclass(slots=True)
class Subscription:
    """One URI: the hosts that hold it, and those that wait for the first one's answer.

    ``asking`` is true while a `resources/subscribe` is on its way; ``confirmed`` once the server accepted it.
    """

    holders: set[SessionKey] = field(default_factory=set)
    waiters: list[Waiter] = field(default_factory=list)
    asking: bool = False
    confirmed: bool = False


class Subscriptions:
    """All subscriptions of one instance."""

    def __init__(self) -> None:
        self._by_uri: dict[str, Subscription] = {}

    def __bool__(self) -> bool:
        return bool(self._by_uri)

    def of(self, session: SessionKey) -> list[str]:
        """Return the URIs a host holds, sorted."""
        return sorted(uri for uri, entry in self._by_uri.items() if session in entry.holders)

    def subscribe(self, session: SessionKey, identity: bytes, uri: str) -> tuple[bool, bool]:
        """Note a host's wish; return (answer it now, ask the server now)."""
        entry = self._by_uri.setdefault(uri, Subscription())
        if entry.confirmed:
            entry.holders.add(session)
            return True, False
        entry.waiters.append((session, identity))
        ask = not entry.asking
        entry.asking = True
        return False, ask

    def accepted(self, uri: str) -> tuple[list[Waiter], bool]:
        """The server accepted; return (hosts to answer, whether nobody wants it any more)."""
        entry = self._by_uri.setdefault(uri, Subscription())
        entry.asking, entry.confirmed = False, True
        waiters, entry.waiters = entry.waiters, []
        entry.holders.update(session for session, _ in waiters)
        unwanted = not entry.holders
        if unwanted:
            del self._by_uri[uri]
        return waiters, unwanted

    def rejected(self, uri: str) -> tuple[Waiter | None, bool]:
        """The server refused; return (the host whose request that was, whether to ask again for the next one)."""
        entry = self._by_uri.setdefault(uri, Subscription())
        entry.asking = False
        first = entry.waiters.pop(0) if entry.waiters else None
        again = bool(entry.waiters)
        entry.asking = again
        if not again:
            # Holders without confirmation stem from before a restart: the server no longer has the resource.
            self._by_uri.pop(uri, None)
        return first, again

    def unsubscribe(self, session: SessionKey, uri: str) -> bool:
        """A host lets go; return whether the server has to be told (the last one left)."""
        entry = self._by_uri.get(uri)
        if entry is None or session not in entry.holders:
            return False
        entry.holders.discard(session)
        if entry.holders or entry.waiters:
            return False
        del self._by_uri[uri]
        return entry.confirmed

    def cancel(self, session: SessionKey, identity: bytes) -> None:
        """A host no longer waits for its subscription."""
        for entry in self._by_uri.values():
            entry.waiters = [waiter for waiter in entry.waiters if waiter != (session, identity)]

    def leave(self, session: SessionKey) -> list[str]:
        """A host is gone; return the URIs that the server has to be told nobody wants any more."""
        gone = []
        for uri, entry in list(self._by_uri.items()):
            entry.waiters = [waiter for waiter in entry.waiters if waiter[0] != session]
            if session in entry.holders and self.unsubscribe(session, uri):
                gone.append(uri)
        return gone

    def restore(self, session: SessionKey, uris: list[str]) -> None:
        """Take over what a host held before the daemon was restarted."""
        for uri in uris:
            self._by_uri.setdefault(uri, Subscription()).holders.add(session)

    def child_lost(self) -> None:
        """The child is gone and its subscriptions with it; those who waited for an answer were told so."""
        for uri, entry in list(self._by_uri.items()):
            entry.asking = entry.confirmed = False
            entry.waiters.clear()
            if not entry.holders:
                del self._by_uri[uri]

    def to_replay(self) -> list[str]:
        """Return the URIs to subscribe again at a new child, and note that they are being asked for."""
        uris = [uri for uri, entry in self._by_uri.items() if not entry.confirmed and not entry.asking]
        for uri in uris:
            self._by_uri[uri].asking = True
        return uris

    def interested(self, uri: str) -> set[SessionKey]:
        """Given the URI of an update, return the hosts to tell.

        An update may name a sub-resource of what was subscribed (pitfall 24): without an exact match the longest
        subscribed prefix is meant, and failing that every subscriber.
        """
        entry = self._by_uri.get(uri)
        if entry is not None:
            return entry.holders
        prefixes = [known for known in self._by_uri if uri.startswith(known)]
        if prefixes:
            return self._by_uri[max(prefixes, key=len)].holders
        return {session for entry in self._by_uri.values() for session in entry.holders}
