"""Credentials that systemd hands to the daemon: files in ``$CREDENTIALS_DIRECTORY`` (systemd.exec(5))."""

from __future__ import annotations

import os
from collections.abc import Mapping

from supervisord_mcp.credentials.base import Source, text_of
from supervisord_mcp.credentials.file import read_private
from supervisord_mcp.errors import SecretError

#: The variable that names the directory.
VARIABLE = "CREDENTIALS_DIRECTORY"


class SystemdSource(Source):
    """Reads credentials of the unit that the daemon runs in."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._directory = environ.get(VARIABLE, "")

    def read(self, name: str) -> str:
        """Return a credential. Raise `SecretError` where systemd gave none of that name."""
        if not self._directory:
            raise SecretError(
                f"systemd gave the daemon no credentials (${VARIABLE} is not set)",
                remedy=f"Let its unit start it, with LoadCredentialEncrypted={name} or LoadCredential={name}:PATH.",
            )
        path = os.path.join(self._directory, name)
        if not os.path.lexists(path):
            raise SecretError(
                f"there is no credential {name} in {self._directory}",
                remedy=f"Add LoadCredentialEncrypted={name} or LoadCredential={name}:PATH to the unit, restart it.",
            )
        # Mode and owner are systemd's concern: an access list that names the user can look like rights of a group.
        return text_of(read_private(path, managed=True))
