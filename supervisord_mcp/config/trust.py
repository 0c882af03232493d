"""Which project files a person trusts, each bound to its content: a changed file asks again.

A project file comes with a checkout, so anybody who can change the project could name a command in it. What it names
runs only after a person looked at it, and only while it says what it said then.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from supervisord_mcp.config.files import locked, read_file, replace_file
from supervisord_mcp.config.paths import Paths
from supervisord_mcp.errors import NotTrustedError, SmcpError

#: ``changed``: it was trusted with another content. ``missing``: there is no such file, or it cannot be read.
Standing = Literal["trusted", "changed", "unknown", "missing"]

_REMEDY = "read it, and if you agree with what it runs: smcp trust {}"


class Trusted(msgspec.Struct, frozen=True):
    """The content that a file had when it was trusted (SHA-256), and when that was (ISO 8601, UTC)."""

    digest: str
    since: str


@dataclass(frozen=True, slots=True)
class Trust:
    """The record of trusted files, read anew for every question: people change it while a daemon runs."""

    file: Path
    lock: Path

    @classmethod
    def of(cls, paths: Paths) -> Trust:
        """Return the record of a person."""
        return cls(paths.trust_file, paths.edit_lock)

    def files(self) -> Mapping[Path, Trusted]:
        """Return the trusted files. Raise `SmcpError` where the record cannot be read."""
        try:
            found = msgspec.json.decode(read_file(self.file), type=dict[str, Trusted])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SmcpError(
                f"cannot read which project files are trusted: {self.file}: {error}",
                remedy="remove that file, and trust again what you use",
            ) from error
        return {Path(name): trusted for name, trusted in found.items()}

    def standing(self, path: Path) -> Standing:
        """Return how a file stands as it is now."""
        place = placed(path)
        try:
            now = digest(read_file(place))
        except OSError:
            return "missing"
        trusted = self.files().get(place)
        if trusted is None:
            return "unknown"
        return "trusted" if trusted.digest == now else "changed"

    def knows(self, path: Path, content: bytes) -> bool:
        """Return whether a file is trusted with this content."""
        trusted = self.files().get(placed(path))
        return trusted is not None and trusted.digest == digest(content)

    def check(self, path: Path) -> None:
        """Raise `NotTrustedError` unless a file is trusted as it is now."""
        match self.standing(path):
            case "trusted":
                return
            case "missing":
                raise NotTrustedError(
                    f"the project file {path} is not there any more, or cannot be read",
                    remedy="remove the server with smcp remove, or bring the file back",
                )
            case "changed":
                raise NotTrustedError(
                    f"the project file {path} was changed since you trusted it", remedy=_REMEDY.format(path)
                )
            case "unknown":
                raise NotTrustedError(f"the project file {path} is not trusted", remedy=_REMEDY.format(path))

    def add(self, path: Path, content: bytes) -> None:
        """Trust a file with the content that the person has seen."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        self._change(placed(path), Trusted(digest(content), since))

    def revoke(self, path: Path) -> bool:
        """Trust a file no more; return whether it was trusted."""
        return self._change(placed(path), None)

    def _change(self, place: Path, trusted: Trusted | None) -> bool:
        with locked(self.lock):
            files = dict(self.files())
            was = files.pop(place, None) is not None
            if trusted is not None:
                files[place] = trusted
            try:
                self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_file(self.file, msgspec.json.encode({str(name): one for name, one in files.items()}))
            except (OSError, UnicodeEncodeError) as error:
                raise SmcpError(f"cannot keep which project files are trusted: {self.file}: {error}") from error
            return was


def placed(path: Path) -> Path:
    """Return the one name of a file, in its real directory; the file itself may be a link, which can be changed."""
    whole = Path(os.path.abspath(path))
    return Path(os.path.realpath(whole.parent)) / whole.name


def digest(content: bytes) -> str:
    """Return what stands for the content of a file."""
    return hashlib.sha256(content).hexdigest()
