"""Images as an engine has them: what one is, by its digest, and how one is fetched from its registry."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.container.engine import Engine, EngineRefusedError

if TYPE_CHECKING:
    import docker

    from supervisord_mcp.runtimes.container.wiring import Cut

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Where engines look for a name without a registry; some write it out, and some do not.
_USUAL = ("docker.io/library/", "docker.io/")
#: How often progress is told: whenever so much more of the whole is there, in percent.
_STEP = 10
#: How often it is told that nothing was, in seconds.
_SILENCE_SECONDS = 30.0
#: How long a pull that was cut may take to end: nobody waits for it then.
_CUT_SECONDS = 5.0
_NOT_THERE = re.compile(r"not found|manifest unknown|does not exist|name unknown|unauthorized|denied", re.IGNORECASE)
_MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Image:
    """An image that an engine has.

    ``reference`` is what it was asked for by, ``id`` stands for its content in this engine. ``digest`` is the one that
    its registry knows it by, and that every engine can check; empty for an image that was made here.
    """

    reference: str
    id: str
    digest: str = ""

    def is_same(self, id_: str, digest: str) -> bool:
        """Return whether it is the image that has an id, or a digest."""
        return self.id == id_ or bool(digest and self.digest == digest)


def repository(reference: str) -> str:
    """Return the name of an image without its tag and its digest."""
    name = reference.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def is_pinned(reference: str) -> bool:
    """Return whether a name can only ever mean one image."""
    return bool(_DIGEST.search(reference)) or reference.startswith("sha256:")


def by_digest(reference: str, digest: str) -> str:
    """Return the name that means the image with a digest, from the same registry."""
    return f"{repository(reference)}@{digest}"


async def look(engine: Engine, reference: str) -> Image | None:
    """Return the image that an engine has under a name, or None. Raise `EngineError`."""
    try:
        found = await engine.call(lambda client: client.inspect_image(reference))  # type: ignore[no-untyped-call]
    except EngineRefusedError as error:
        if error.status == 404:
            return None
        raise
    return Image(reference, str(found["Id"]), _digest_of(reference, found.get("RepoDigests") or ()))


async def pull(engine: Engine, reference: str, progress: Callable[[str], None]) -> None:
    """Fetch an image; ``progress`` is told how far it is. Raise `LaunchError` that says why it cannot be had.

    A registry may say nothing for any time: that is told as well, and when this is cancelled, the connection to the
    engine is cut, which then stops.
    """
    fetching = _Fetching(engine, reference, progress)
    # As long as it takes it must take no thread from anybody else.
    alone = anyio.CapacityLimiter(1)
    running = asyncio.ensure_future(anyio.to_thread.run_sync(engine.do, fetching.run, limiter=alone))
    try:
        while not running.done():
            await asyncio.wait((running,), timeout=_SILENCE_SECONDS)
            if not running.done():
                fetching.tell_silence()
        await running
    except EngineRefusedError as error:
        raise _not_fetched(reference, error.message) from error
    finally:
        fetching.stop()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((running,), timeout=_CUT_SECONDS)
        if running.done() and not running.cancelled():
            running.exception()
    if fetching.problem:
        raise _not_fetched(reference, fetching.problem)


@dataclass(slots=True)
class _Fetching:
    """One pull, in a thread of its own, with what its parts have told."""

    engine: Engine
    reference: str
    progress: Callable[[str], None]
    wanted: bool = True
    problem: str = ""
    _cut: Cut | None = None
    _sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _told: str = ""
    _there: int = 0

    def run(self, _client: docker.APIClient) -> None:
        """Fetch it, on a connection of its own. Raise in the words of the library."""
        from supervisord_mcp.runtimes.container.wiring import Cut

        with contextlib.closing(self.engine.connect()) as client:
            self._cut = Cut(client)
            if not self.wanted:
                return
            try:
                self._fetch(client)
            except Exception:
                # What was cut fails in many ways, and none of them is a reason.
                if self.wanted:
                    raise

    def stop(self) -> None:
        """End it, whatever it waits for. Idempotent."""
        self.wanted = False
        if self._cut is not None:
            self._cut.now()

    def tell_silence(self) -> None:
        """Tell how much came since this was told last: the registry may be the reason why that is nothing."""
        there, _ = self._sum()
        came, self._there = there - self._there, there
        much = f"{max(1, came // 1024)} KB" if came > 0 else "nothing"
        self.progress(f"{self._told or f'pulling {self.reference}'} ({much} in the last {_SILENCE_SECONDS:.0f} s)")

    def _fetch(self, client: docker.APIClient) -> None:
        name, tag = self.reference, None
        if "@" not in name:
            name, tag = repository(name), self.reference.removeprefix(repository(name)).removeprefix(":") or "latest"
        news: Iterator[Mapping[str, Any]] = client.pull(name, tag=tag, stream=True, decode=True)
        for each in news:
            if not self.wanted:
                return
            if problem := each.get("error"):
                self.problem = str(problem)
                return
            self._take(each)

    def _take(self, news: Mapping[str, Any]) -> None:
        layer, status, detail = news.get("id"), str(news.get("status", "")), news.get("progressDetail") or {}
        if not layer or not isinstance(layer, str):
            return
        if status == "Downloading" and detail.get("total"):
            self._sizes[layer] = int(detail.get("current", 0)), int(detail["total"])
        elif status in ("Pulling fs layer", "Waiting"):
            self._sizes.setdefault(layer, (0, 0))
        elif status in ("Download complete", "Pull complete", "Already exists"):
            self._done.add(layer)
            self._sizes[layer] = (self._sizes.get(layer, (0, 0))[1],) * 2
        else:
            return
        self._tell()

    def _tell(self) -> None:
        there, whole = self._sum()
        percent = int(100 * there / whole) // _STEP * _STEP if whole else 0
        layers = f"{len(self._done & self._sizes.keys())} of {len(self._sizes)} layers"
        size = f", {percent} % of {max(1, whole // _MEGABYTE)} MB" if whole else ""
        text = f"pulling {self.reference}: {layers}{size}"
        if text != self._told:
            self._told = text
            anyio.from_thread.run_sync(self.progress, text)

    def _sum(self) -> tuple[int, int]:
        """Return how many bytes are there, and how many there are in all, as far as that is known."""
        parts = list(self._sizes.values())
        return sum(part[0] for part in parts), sum(part[1] for part in parts)


def _digest_of(reference: str, names: Sequence[str]) -> str:
    """Return the digest that the registry of a name has for an image, among all that an engine knows."""
    wanted = _usual(repository(reference))
    found = [name.partition("@") for name in names]
    own = [digest for name, _, digest in found if _usual(name) == wanted]
    asked = reference.partition("@")[2]
    return asked if asked in own else next(iter(sorted(own)), "")


def _usual(name: str) -> str:
    return next((name.removeprefix(prefix) for prefix in _USUAL if name.startswith(prefix)), name)


def _not_fetched(reference: str, said: str) -> LaunchError:
    if _NOT_THERE.search(said):
        remedy = "Check the name and the tag; where its registry wants a login: docker login, or podman login."
        return LaunchError(f"cannot pull {reference}: {said}", remedy=remedy, retryable=False)
    remedy = "Check the network of the engine, and its settings for a proxy."
    return LaunchError(f"cannot pull {reference}: {said}", remedy=remedy, unreachable=True)
