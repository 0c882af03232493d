"""Images as an engine has them: what one is, by its digest, and how one is fetched from its registry."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.container.engine import Engine, EngineRefusedError

if TYPE_CHECKING:
    import docker

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Where engines look for a name without a registry; some write it out, and some do not.
_USUAL = ("docker.io/library/", "docker.io/")
#: How often progress is told: whenever so much more of the whole is there, in percent.
_STEP = 10
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

    When this is cancelled, the engine is told at the next sign of life from it, and nobody waits for that.
    """
    fetching = _Fetching(reference, progress)
    try:
        await anyio.to_thread.run_sync(functools.partial(engine.do, fetching.run), abandon_on_cancel=True)
    except EngineRefusedError as error:
        raise _not_fetched(reference, error.message) from error
    finally:
        fetching.wanted = False
    if fetching.problem:
        raise _not_fetched(reference, fetching.problem)


@dataclass(slots=True)
class _Fetching:
    """One pull, in a thread of its own, with what its parts have told."""

    reference: str
    progress: Callable[[str], None]
    wanted: bool = True
    problem: str = ""
    _sizes: dict[str, tuple[int, int]] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _told: str = ""

    def run(self, client: docker.APIClient) -> None:
        name, tag = self.reference, None
        if "@" not in name:
            name, tag = repository(name), self.reference.removeprefix(repository(name)).removeprefix(":") or "latest"
        news: Iterator[Mapping[str, Any]] = client.pull(name, tag=tag, stream=True, decode=True)
        for each in news:
            if not self.wanted:
                # With the answer the connection is closed, and with that the engine stops.
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
        there, whole = (sum(part[n] for part in self._sizes.values()) for n in (0, 1))
        percent = int(100 * there / whole) // _STEP * _STEP if whole else 0
        layers = f"{len(self._done & self._sizes.keys())} of {len(self._sizes)} layers"
        size = f", {percent} % of {max(1, whole // _MEGABYTE)} MB" if whole else ""
        text = f"pulling {self.reference}: {layers}{size}"
        if text != self._told:
            self._told = text
            anyio.from_thread.run_sync(self.progress, text)


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
