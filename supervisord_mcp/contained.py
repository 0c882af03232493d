"""An entry that runs in a container: what of it the engine is asked for, and how its image comes to be there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from supervisord_mcp.config.container import OPENINGS
from supervisord_mcp.config.models import ServerConfig
from supervisord_mcp.errors import LaunchError, SmcpError
from supervisord_mcp.images.pins import Known
from supervisord_mcp.images.provider import Change, Images, Telling, Wish
from supervisord_mcp.packages.requests import Request, recognise
from supervisord_mcp.runtimes.base import Container, LaunchSpec


@dataclass(frozen=True, slots=True)
class Contained:
    """The image of an entry. ``request`` is a package that is installed in it, if it is an image for packages."""

    wish: Wish
    images: Images
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

    async def provided(
        self, spec: LaunchSpec, installing: Callable[[], None], progress: Callable[[str], None]
    ) -> LaunchSpec:
        """Return the spec with the image that the engine has now. Raise `LaunchError` where it cannot have it."""
        image = await self.images.provide(self.wish, Telling(installing, progress, self.changed))
        container = spec.container
        assert container is not None, "it is the spec of a container"
        return replace(spec, container=replace(container, image=image.id))


def contain(
    name: str, config: ServerConfig, argv: Sequence[str], images: Images, changed: Callable[[Change], None]
) -> Contained | None:
    """Return how the entry of a server is contained, None where it is not. Raise `LaunchError` where it has no image.

    ``argv`` is its command without variables, ``changed`` is told when a name stands for another image.
    """
    if config.runtime != "container":
        return None
    wish, request = wish_of(name, config, argv)
    return Contained(wish, images, request, changed)


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


def words_of(container: Container | None) -> tuple[str, ...]:
    """Return what tells containers apart, for the digest of an instance."""
    if container is None:
        return ()
    return (container.image, container.engine, container.user, *sorted(container.allow), str(container.entrypoint))
