"""Secrets in the daemon's own environment: each server gets the variables that it is granted, and no other."""

from __future__ import annotations

from collections.abc import Mapping

from supervisord_mcp.credentials.base import Source, checked
from supervisord_mcp.errors import SecretError


class EnvironmentSource(Source):
    """Reads variables of the daemon, as they were when it started."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def read(self, name: str) -> str:
        """Return the value of a variable. Raise `SecretError` where it is not set or is empty."""
        value = self._environ.get(name)
        if value is None:
            stored = name.lower().lstrip("_") or "x"
            raise SecretError(
                f"the daemon has no variable {name}",
                remedy="Start the daemon itself with it, by smcp run or by Environment= in its unit (one that a host or"
                f" smcp up starts takes over no secrets), or store the secret: smcp secret set {stored}",
            )
        return checked(value)
