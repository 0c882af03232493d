"""``smcp image``: what each image was when it was first used, and whether its name stands for another one by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from supervisord_mcp.cli.client import paths
from supervisord_mcp.cli.output import console, print_json, print_table, printable
from supervisord_mcp.cli.parameters import AsJson, ServerName
from supervisord_mcp.cli.registered import unknown
from supervisord_mcp.errors import SmcpError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from supervisord_mcp.config.models import ServerConfig
    from supervisord_mcp.images.pins import Name, Pins

#: How much of a digest tells it from others, for a table.
_SHORT = len("sha256:") + 12


def list_images(as_json: AsJson = False) -> None:
    """Show what runs for each name of an image, since when, and for whom.

    A tag is resolved once, when it is first used; what it was then runs. FOUND is what it stands for by now, where that
    is something else: see smcp image accept.
    """
    from supervisord_mcp.images.pins import Pins

    users = _users()
    rows = [
        {
            "image": name.reference,
            "engine": name.engine,
            "servers": users.get(name, []),
            "since": pin.since,
            "digest": pin.held.shown,
            "found": pin.found.shown if pin.found is not None else "",
        }
        for name, pin in sorted(Pins.of(paths()).all().items())
    ]
    if as_json:
        print_json(msgspec.json.encode(rows))
    elif rows:
        columns = ("IMAGE", "ENGINE", "SINCE", "RUNS", "FOUND", "SERVERS")
        cells = [
            (
                str(row["image"]),
                str(row["engine"] or "-"),
                str(row["since"]),
                str(row["digest"])[:_SHORT],
                str(row["found"])[:_SHORT] or "-",
                ", ".join(row["servers"]) or "-",
            )
            for row in rows
        ]
        print_table(columns, cells)
    else:
        console().print("no image was used yet")


def accept(name: ServerName) -> None:
    """Let a server run what the name of its image stands for by now.

    It does so from its next start: smcp restart NAME.
    """
    image, pins = _image_of(name)
    pin = pins.accept(image)
    if pin is None:
        known = pins.get(image)
        if known is None:
            raise UsageError(
                f"the image of '{name}', {image.reference}, was not used yet", remedy="its first start records it"
            )
        console().print(printable(f"{image.reference} is still {known.held.shown}, as far as is known"), soft_wrap=True)
        return
    console().print(printable(f"{image.reference} is {pin.held.shown} from the next start on"), soft_wrap=True)


def forget(name: ServerName) -> None:
    """Forget what the image of a server was; what it is at the next start is recorded anew."""
    image, pins = _image_of(name)
    if not pins.forget(image):
        raise UsageError(f"nothing is recorded of {image.reference}", remedy="smcp image list shows what is")


def _image_of(name: str) -> tuple[Name, Pins]:
    """Return the image of a server, and the record. Raise `SmcpError` where there is no such server, or no image."""
    from supervisord_mcp.contained import wish_of
    from supervisord_mcp.images.pins import Pins

    servers = _servers()
    config = servers.get(name)
    if config is None:
        raise unknown(name, servers)
    if config.runtime != "container":
        raise UsageError(
            f"'{name}' runs in no container: its runtime is {config.runtime}", remedy="smcp list shows what each one is"
        )
    return wish_of(name, config, config.argv)[0].name, Pins.of(paths())


def _users() -> dict[Name, list[str]]:
    """Return the servers of each image; a configuration that cannot be read has none."""
    from supervisord_mcp.contained import wish_of

    found: dict[Name, list[str]] = {}
    try:
        servers = _servers()
    except SmcpError:
        return found
    for name, config in sorted(servers.items()):
        if config.runtime == "container":
            try:
                found.setdefault(wish_of(name, config, config.argv)[0].name, []).append(name)
            except SmcpError:
                continue
    return found


def _servers() -> Mapping[str, ServerConfig]:
    from supervisord_mcp.config.load import load

    return load(paths()).config.servers
