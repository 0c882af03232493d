"""What tests of credentials share: paths of a home of their own, and a keyring in memory."""

from __future__ import annotations

import os
from pathlib import Path

from supervisord_mcp.config.paths import Paths, create_directories
from supervisord_mcp.credentials.keyring import KeyringSource
from supervisord_mcp.errors import SecretError


def paths_in(folder: Path) -> Paths:
    """Return paths below a folder, with their directories made."""
    paths = Paths(folder / "config", folder / "state", folder / "run", folder / "cache")
    create_directories(paths, os.getuid())
    return paths


class MemoryKeyring(KeyringSource):
    """A keyring that is there or not, open or locked, as a test says; the real ones have tests of their own."""

    def __init__(self, *, there: bool = True) -> None:
        super().__init__()
        self.there = there
        self.locked = False
        self.forgets = False
        self.entries: dict[str, str] = {}

    @property
    def available(self) -> bool:
        return self.there

    def read(self, name: str) -> str:
        self._look()
        if name not in self.entries:
            raise SecretError(f"the keyring has no entry {name!r}")
        return self.entries[name]

    def has(self, name: str) -> bool:
        self._look()
        return name in self.entries

    def put(self, name: str, value: str) -> None:
        self._look()
        self.entries[name] = "else" if self.forgets else value

    def remove(self, name: str) -> None:
        self._look()
        del self.entries[name]

    def _look(self) -> None:
        if not self.there:
            raise SecretError("there is no keyring")
        if self.locked:
            raise SecretError("the keyring is locked", remedy="Unlock it.")
