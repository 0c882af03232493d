"""The private home and temporary directory of a server that has no mount namespace: on disk, gone when it is gone."""

from __future__ import annotations

import os
import secrets
import shutil

import anyio.to_thread

from supervisord_mcp.errors import IsolationError
from supervisord_mcp.runtimes.base import SecretFiles
from supervisord_mcp.runtimes.delivery import Delivery
from supervisord_mcp.runtimes.identity import Identity, own_directory

#: What a server must not be able to read: that is how its start is tried.
_CANARY = "forbidden"


class Places:
    """The private directories of one child, and its files with secrets. Made before it starts; closed when it ended."""

    def __init__(self, base: str, server: str, identity: Identity | None, files: SecretFiles = SecretFiles()) -> None:
        """Make them below ``base``, for the user that the server will be.

        Raise `IsolationError` where they cannot be made.
        """
        self.root = os.path.join(base, f"{server}-{secrets.token_hex(8)}")
        self.home = os.path.join(self.root, "home")
        self.tmp = os.path.join(self.root, "tmp")
        self.canary = os.path.join(self.root, _CANARY)
        self.delivery = Delivery(server, files, identity)
        try:
            os.makedirs(base, mode=0o711, exist_ok=True)
            # Its name is not to be guessed, so others may pass: the user of the server has to.
            os.mkdir(self.root, 0o711)
            for path in (self.home, self.tmp):
                if identity is None:
                    os.mkdir(path, 0o700)
                else:
                    own_directory(path, identity)
            with open(self.canary, "x", encoding="utf-8") as file:
                file.write("a server can read this only if nothing holds it back\n")
                os.fchmod(file.fileno(), 0o644)
        except OSError as error:
            self.close()
            raise IsolationError(
                f"server {server} was not started: no private home can be made for it: {error}",
                remedy=f"Make room in {base}, and let the daemon write there.",
            ) from error

    @property
    def roots(self) -> tuple[str, ...]:
        """What its user must be able to get to."""
        return (self.root, *filter(None, (self.delivery.directory,)))

    def close(self) -> None:
        """Take the secrets away. The rest not yet: processes that are being killed may still write there."""
        self.delivery.close()

    async def aclose(self) -> None:
        """Remove the directories with all that is in them. Idempotent."""
        self.delivery.close()
        await anyio.to_thread.run_sync(remove, self.root)


def remove(path: str) -> None:
    """Remove a directory with all that is in it, as far as that can be done; no link is followed."""
    shutil.rmtree(path, ignore_errors=True)
