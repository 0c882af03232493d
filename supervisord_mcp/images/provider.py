"""The image for a start: there or fetched, and the one that its name stood for when it was first used.

A tag is resolved once. What it was then runs until a person accepts another one; a change is told, whoever made it, for
what runs decides what a server does with what it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import anyio
from anyio import to_thread

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.images.pins import Known, Name, Pin, Pins
from supervisord_mcp.runtimes.container import images
from supervisord_mcp.runtimes.container.engine import Engine, Engines
from supervisord_mcp.runtimes.container.images import Image

Pull = Literal["missing", "always", "never"]


@dataclass(frozen=True, slots=True)
class Change:
    """A name stands for another image than the one that runs; both as a person reads them."""

    server: str
    reference: str
    held: str
    found: str


@dataclass(frozen=True, slots=True)
class Telling:
    """Who is told: that an image is fetched, how far that is, and that a name stands for something else."""

    installing: Callable[[], None]
    progress: Callable[[str], None]
    changed: Callable[[Change], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """The image that a server wants: its name, in which engine, and when it is fetched."""

    server: str
    reference: str
    engine: str = ""
    pull: Pull = "missing"

    @property
    def name(self) -> Name:
        """What is recorded of it."""
        return Name(self.engine, self.reference)


class Images:
    """The images of one daemon: two servers with the same one wait for one pull."""

    def __init__(self, pins: Pins, engines: Engines) -> None:
        self._pins = pins
        self._engines = engines
        self._turns: dict[Name, anyio.Lock] = {}

    def engine(self, word: str) -> Engine:
        """Return the engine that is meant by a word of the configuration."""
        return self._engines.of(word)

    def standing(self, name: Name) -> Pin | None:
        """Return what is recorded of a name. Raise `SmcpError` where the record cannot be read."""
        return self._pins.get(name)

    async def provide(self, wish: Wish, telling: Telling) -> Image:
        """Return the image to run. Raise `LaunchError` where there is none that may."""
        engine = self._engines.of(wish.engine)
        turn = self._turns.setdefault(wish.name, anyio.Lock())
        if turn.locked():
            telling.installing()
            telling.progress(f"waits for another start that fetches {wish.reference}")
        async with turn:
            there = await images.look(engine, wish.reference)
            if images.is_pinned(wish.reference):
                return there or await self._fetched(engine, wish, wish.reference, telling)
            pin = await to_thread.run_sync(self._pins.get, wish.name)
            if wish.pull == "always" or (there is None and pin is None):
                there = await self._refreshed(engine, wish, there, telling)
            if pin is not None:
                return await self._held(engine, wish, Found(pin, there), telling)
            assert there is not None, "what was fetched is there"
            await to_thread.run_sync(self._pins.hold, wish.name, Known.of(there))
            telling.progress(f"image {wish.reference} is {Known.of(there).shown} from now on")
            return there

    async def _refreshed(self, engine: Engine, wish: Wish, there: Image | None, telling: Telling) -> Image | None:
        """Fetch what a name stands for now; where that cannot be had, what is there will do."""
        try:
            return await self._fetched(engine, wish, wish.reference, telling)
        except LaunchError as error:
            if there is None:
                raise
            telling.progress(f"{wish.reference} was not refreshed: {error.message}")
            return there

    async def _held(self, engine: Engine, wish: Wish, found: Found, telling: Telling) -> Image:
        """Return the image that a name stood for when it was first used."""
        held, there = found.pin.held, found.there
        if there is not None and there.is_same(held.id, held.digest):
            await to_thread.run_sync(self._pins.note, wish.name, None)
            return there
        if there is not None:
            await self._report(wish, found.pin, Known.of(there), telling)
            if wish.pull == "never":
                raise _refused(wish, held, "is not what its name stands for any more")
        own = await images.look(engine, held.id)
        if own is None and held.digest:
            exact = images.by_digest(wish.reference, held.digest)
            own = await images.look(engine, exact)
            if own is None and wish.pull != "never":
                own = await self._exact(engine, wish, exact, telling)
        if own is None and there is None and wish.pull != "never":
            # It was made here and removed: whatever its name stands for in a registry is another one, which is told.
            there = await self._fetched(engine, wish, wish.reference, telling)
            await self._report(wish, found.pin, Known.of(there), telling)
        if own is None:
            if wish.pull == "never" and there is None:
                raise _missing(wish)
            raise _refused(wish, held, "is not to be had any more")
        return own

    async def _exact(self, engine: Engine, wish: Wish, exact: str, telling: Telling) -> Image | None:
        try:
            return await self._fetched(engine, wish, exact, telling)
        except LaunchError as error:
            if error.retryable:
                raise
            return None

    async def _fetched(self, engine: Engine, wish: Wish, reference: str, telling: Telling) -> Image:
        if wish.pull == "never":
            raise _missing(wish)
        telling.installing()
        telling.progress(f"pulling {reference}")
        await images.pull(engine, reference, telling.progress)
        found = await images.look(engine, reference)
        if found is None:
            raise LaunchError(f"{reference} was pulled, and is not there: somebody removed it")
        return found

    async def _report(self, wish: Wish, pin: Pin, found: Known, telling: Telling) -> None:
        telling.progress(_changed(wish, pin.held, found))
        if await to_thread.run_sync(self._pins.note, wish.name, found):
            telling.changed(Change(wish.server, wish.reference, pin.held.shown, found.shown))


@dataclass(frozen=True, slots=True)
class Found:
    """What is recorded of a name, and what it stands for in the engine, if anything."""

    pin: Pin
    there: Image | None


def _changed(wish: Wish, held: Known, found: Known) -> str:
    return f"image {wish.reference} is {found.shown} by now, and {held.shown} runs; {_accept(wish)}"


def _accept(wish: Wish) -> str:
    return f"to run the new one: smcp image accept {wish.server}"


def _missing(wish: Wish) -> LaunchError:
    return LaunchError(
        f'the engine has no image {wish.reference}, and pull = "never"',
        remedy=f'Bring it there (docker pull {wish.reference}), or say pull = "missing".',
        retryable=False,
    )


def _refused(wish: Wish, held: Known, why: str) -> LaunchError:
    return LaunchError(
        f"the image {wish.reference} that was used so far ({held.shown}) {why}",
        remedy=f"Look at what the name stands for now, and {_accept(wish)}",
        retryable=False,
    )
