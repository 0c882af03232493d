"""The instances of a daemon with what they were made from, and which of them tell nothing any more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from supervisord_mcp.facts import Facts
from supervisord_mcp.launch import Launch
from supervisord_mcp.policy.sharing import InstanceKey
from supervisord_mcp.protocol.eras.probe import Verdict
from supervisord_mcp.reports import matters
from supervisord_mcp.server import ManagedServer

#: What has ended for good unless a person, or for EXITED a call, wants it again.
_GAVE_UP = ("FATAL", "EXITED")


@dataclass(slots=True)
class Housing:
    """An instance with what it was made from.

    It is ``outdated`` once its command is found to be something else: no new session comes to it.
    """

    instance: ManagedServer
    facts: Facts
    launch: Launch
    outdated: bool = False


@dataclass(frozen=True, slots=True)
class Displaced:
    """An instance that the new configuration has no place for; ``removed`` if its server is gone altogether."""

    instance: ManagedServer
    removed: bool


def counterpart(
    housed: Mapping[InstanceKey, Housing], key: InstanceKey, launch: Launch, known: Verdict
) -> Housing | None:
    """Return the instance with another key that serves a session just as well, by what is known of the server by now.

    A legacy child serves hosts of both eras, but was told once what they can be asked, so that has to be the same; a
    modern one is told with each request (protocol.md 6.1 D2, D5).
    """
    for other, housing in housed.items():
        if housing.outdated or replace(other, digest=key.digest) != key:
            continue
        there = housing.launch
        if known.only == "legacy":
            fits = there.digests == launch.digests
        else:
            fits = there.digests["modern"] == launch.digests["modern"]
            fits &= known.only == "modern" or (known.modern is True and there.era == launch.era == "modern")
        if fits:
            return housing
    return None


def forgettable(housed: Mapping[InstanceKey, Housing]) -> Iterator[InstanceKey]:
    """Return the instances that nobody uses, that do not run, and that tell nothing.

    The last one of a shared server stays, to tell how it was. One that gave up stays as well, so that it is not tried
    again behind the back of a person; but once another instance of the server runs or is used, it tells nothing of the
    server, only of what somebody once asked for, such as a project that does not suit it.
    """
    count = Counter(key.server for key in housed)
    live = {key.server for key, housing in housed.items() if matters(housing.instance)}
    for key, housing in housed.items():
        if matters(housing.instance):
            continue
        gave_up = housing.instance.state in _GAVE_UP
        if key.server in live if gave_up else key.project is not None or count[key.server] > 1:
            yield key
            count[key.server] -= 1
