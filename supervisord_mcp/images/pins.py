"""Which image each name stood for when it was first used: a tag can be moved by whoever may write to a registry.

The record is read anew for every question, for people accept a change while a daemon runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from supervisord_mcp.config.files import locked, read_file, replace_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import SmcpError
from supervisord_mcp.runtimes.container.images import Image


class Known(msgspec.Struct, frozen=True):
    """An image: its id in the engine, and the digest in its registry, empty where it is from none."""

    id: str
    digest: str = ""

    @classmethod
    def of(cls, image: Image) -> Known:
        """Return how an image is known again."""
        return cls(image.id, image.digest)

    @property
    def shown(self) -> str:
        """What a person is told: the digest, else the id."""
        return self.digest or self.id


class Pin(msgspec.Struct, frozen=True):
    """What a name stands for since when (ISO 8601, UTC), and what else it was found to stand for by now."""

    held: Known
    since: str
    found: Known | None = None


@dataclass(frozen=True, slots=True, order=True)
class Name:
    """The name of an image in an engine; the empty engine is the one that is found."""

    engine: str
    reference: str

    @property
    def text(self) -> str:
        """The key of the record: no name of an image has a space in it."""
        return f"{self.reference} {self.engine}".rstrip()

    @classmethod
    def parse(cls, text: str) -> Name:
        """Return the name that a key of the record means."""
        reference, _, engine = text.partition(" ")
        return cls(engine, reference)


@dataclass(frozen=True, slots=True)
class Pins:
    """The record of a person, in a file of the state directory."""

    file: Path
    lock: Path

    @classmethod
    def of(cls, paths: Paths) -> Pins:
        """Return the record of a person."""
        return cls(paths.images_file, paths.images_lock)

    def all(self) -> Mapping[Name, Pin]:
        """Return what is recorded. Raise `SmcpError` where the record cannot be read."""
        return {Name.parse(text): pin for text, pin in self._read().items()}

    def get(self, name: Name) -> Pin | None:
        """Return what a name stands for, or None. Raise `SmcpError` where the record cannot be read."""
        return self._read().get(name.text)

    def hold(self, name: Name, image: Known) -> None:
        """Record what a name stands for from now on. Raise `SmcpError` where that cannot be kept."""
        self._write(name, Pin(image, datetime.now(UTC).isoformat(timespec="seconds")))

    def note(self, name: Name, found: Known | None) -> bool:
        """Record that a name was found to stand for something else (or not any more); return whether that is news."""
        pin = self.get(name)
        if pin is None or pin.found == found:
            return False
        self._write(name, msgspec.structs.replace(pin, found=found))
        return found is not None

    def accept(self, name: Name) -> Pin | None:
        """Let a name stand for what it was found to stand for; return what is recorded now, None where it was not."""
        pin = self.get(name)
        if pin is None or pin.found is None:
            return None
        self.hold(name, pin.found)
        return self.get(name)

    def forget(self, name: Name) -> bool:
        """Let a name stand for whatever it stands for at the next start; return whether it was recorded."""
        if self.get(name) is None:
            return False
        self._write(name, None)
        return True

    def _read(self) -> dict[str, Pin]:
        try:
            return msgspec.json.decode(read_file(self.file), type=dict[str, Pin])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SmcpError(
                f"cannot read which images were used: {self.file}: {error}",
                remedy="remove that file; every image is recorded anew as it is then",
            ) from error

    def _write(self, name: Name, pin: Pin | None) -> None:
        with locked(self.lock, what="record of images"):
            pins = {text: one for text, one in self._read().items() if text != name.text}
            if pin is not None:
                pins[name.text] = pin
            try:
                replace_file(self.file, msgspec.json.format(msgspec.json.encode(pins)))
            except OSError as error:
                raise SmcpError(f"cannot record which image is used: {self.file}: {error}") from error
