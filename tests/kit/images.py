"""The images of servers that tests run, built from packages of Debian once and given to whichever engine asks."""

from __future__ import annotations

import functools
import hashlib
import io
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from contrib.images.layers import Builder, Image

if TYPE_CHECKING:
    import docker

KIT = Path(__file__).parent
RECIPES = KIT.parent.parent / "contrib" / "images"
#: Kept from run to run: archives have the name of what is in them.
CACHE = Path.home() / ".cache" / "smcp-tests" / "images"
#: The fake server in Python, a real one in Node, a loop of the shell that ignores SIGTERM, and the fake one with a user
#: that its image names.
NAMES = ("fake", "everything", "loop", "user")
_EVERYTHING = "@modelcontextprotocol/server-everything"


@functools.cache
def build(name: str) -> Image:
    """Return an image of a server; the first time on a machine it takes some seconds."""
    builder = Builder(CACHE, KIT / "recipes", RECIPES)
    return builder.build(name, [(_everything(), "/srv/server")] if name == "everything" else ())


def load(client: docker.APIClient, name: str, *more: str) -> str:
    """Give an image to an engine unless it has it, with ``more`` lines of a recipe; return the reference."""
    image = build(name)
    changes = [*image.changes, *more]
    content = hashlib.sha256("\n".join((image.archive.name, *changes)).encode()).hexdigest()[:12]
    repository = f"smcp-tests/{name}"
    if not client.images(f"{repository}:{content}", quiet=True):
        client.import_image_from_file(str(image.archive), repository, content, changes)
    return f"{repository}:{content}"


def _everything() -> Path:
    """Return the directory with the server for Node, installed by npm the first time."""
    place = CACHE / "everything"
    if not place.is_dir():
        unfinished = CACHE / "everything.part"
        shutil.rmtree(unfinished, ignore_errors=True)
        words = [
            "npm",
            "install",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
            str(unfinished),
            _EVERYTHING,
        ]
        subprocess.run(words, check=True, capture_output=True, timeout=300)
        unfinished.rename(place)
    return place


def tiny(client: docker.APIClient, name: str, content: bytes) -> str:
    """Make an image with one file in it, which nothing can run; return its id."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as files:
        info = tarfile.TarInfo("content")
        info.size = len(content)
        files.addfile(info, io.BytesIO(content))
    repository, _, tag = name.rpartition(":")
    client.import_image_from_data(archive.getvalue(), repository, tag)
    found = client.inspect_image(name)  # type: ignore[no-untyped-call]
    return str(found["Id"])
