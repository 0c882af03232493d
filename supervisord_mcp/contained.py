"""An entry that runs in a container: what of it the engine is asked for, and how its image comes to be there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from supervisord_mcp.config.container import OPENINGS
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.errors import LaunchError, SmcpError
from supervisord_mcp.images.pins import Known
from supervisord_mcp.images.provider import Change, Images, Telling, Wish
from supervisord_mcp.packages.phase import Surroundings
from supervisord_mcp.packages.requests import Request, recognise
from supervisord_mcp.packages.volumes import PLACE, Base, Kept, Volumes
from supervisord_mcp.runtimes.base import Access, Container, LaunchSpec


@dataclass(frozen=True, slots=True)
class Contained:
    """The image of an entry. ``request`` is a package that is installed in it, if it is an image for packages."""

    wish: Wish
    images: Images
    volumes: Volumes
    request: Request | None
    changed: Callable[[Change], None]

    @property
    def shown(self) -> str:
        """What a person is told of the image: its name, what that stands for, and whether it does not any more."""
        try:
            pin = self.images.standing(self.wish.name)
        except SmcpError:
            return self.wish.reference
        if pin is None:
            return self.wish.reference
        text = f"{self.wish.reference} {pin.held.shown}"
        return text if pin.found is None else f"{text}, by now {pin.found.shown}; smcp image accept {self.wish.server}"

    @property
    def identity(self) -> str:
        """What stands for the image: another one may well speak another era."""
        try:
            pin = self.images.standing(self.wish.name)
        except SmcpError:
            pin = None
        return f"{self.wish.reference} {(pin.held if pin else Known('')).id}"

    async def provided(self, spec: LaunchSpec, around: Surroundings) -> LaunchSpec:
        """Return the spec with the image and the package that the engine has now. Raise `LaunchError` without them."""
        telling = Telling(around.installing, around.progress, self.changed)
        image = await self.images.provide(self.wish, telling)
        if self.request is None:
            return _with(spec, image.id)
        kept = await self.volumes.provide(self.request, self._base(image.id), around)
        return self._running(spec, image.id, kept)

    def complete(self, spec: LaunchSpec, around: Surroundings) -> LaunchSpec:
        """Return the same as far as it is known without asking the engine. Raise `LaunchError` where it is not."""
        if self.request is None:
            return spec
        pin = self.images.standing(self.wish.name)
        kept = None if pin is None else self.volumes.installed(self.request, self._base(pin.held.id), around)
        if pin is None or kept is None:
            raise LaunchError(
                f"{self.request.shown} is not installed yet",
                remedy=f"It is before the first start: smcp start {self.wish.server}",
            )
        return self._running(spec, pin.held.id, kept)

    def _base(self, image: str) -> Base:
        wish = self.wish
        return Base(image, wish.reference, self.images.engine(wish.engine), wish.engine)

    def _running(self, spec: LaunchSpec, image: str, kept: Kept) -> LaunchSpec:
        assert self.request is not None, "something was installed"
        return _with(replace(spec, argv=(*kept.run, *self.request.args)), image, ((kept.volume, PLACE, "ro"),))


@dataclass(frozen=True, slots=True)
class Supply:
    """Where images and packages come from, and who is told when a name stands for another image."""

    images: Images
    volumes: Volumes
    changed: Callable[[Change], None]


def contain(name: str, config: ServerConfig, argv: Sequence[str], supply: Supply) -> Contained | None:
    """Return how the entry of a server is contained, None where it is not. Raise `LaunchError` where it has no image.

    ``argv`` is its command without variables.
    """
    if config.runtime != "container":
        return None
    wish, request = wish_of(name, config, argv)
    return Contained(wish, supply.images, supply.volumes, request, supply.changed)


def wish_of(name: str, config: ServerConfig, argv: Sequence[str]) -> tuple[Wish, Request | None]:
    """Return the image that an entry wants, and the package to install in it, if any. Raise `LaunchError` as above."""
    request = recognise(argv) if config.package or not config.image else None
    reference = config.image
    if reference is None:
        if request is None:
            raise LaunchError(
                f"server '{name}': {' '.join(argv[:3])} names no package that is understood, so its image is not known",
                remedy='Name the package (package = "npx:NAME@VERSION"), or an image that has it (image = "…").',
                retryable=False,
            )
        reference = config.container.npx if request.kind == "npm" else config.container.uvx
    return Wish(name, reference, config.engine or "", config.pull), request


def container_of(config: ServerConfig, contained: Contained) -> Container:
    """Return what the runtime is told of the container of an entry."""
    reference = contained.wish.reference
    return Container(
        image=reference,
        shown=reference,
        engine=config.engine or "",
        user=config.container.user,
        allow=frozenset(word for word in config.permit if word in OPENINGS or word.startswith("cap:")),
        entrypoint=not config.command and config.package is None,
    )


def _with(spec: LaunchSpec, image: str, volumes: tuple[tuple[str, str, Access], ...] = ()) -> LaunchSpec:
    container = spec.container
    assert container is not None, "it is the spec of a container"
    return replace(spec, container=replace(container, image=image, volumes=volumes))


def words_of(container: Container | None) -> tuple[str, ...]:
    """Return what tells containers apart, for the digest of an instance."""
    if container is None:
        return ()
    return (container.image, container.engine, container.user, *sorted(container.allow), str(container.entrypoint))
