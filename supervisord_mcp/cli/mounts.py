"""How a mount is written on the command line: PATH, PATH:ro or PATH:rw."""

from __future__ import annotations


def mount_of(text: str) -> dict[str, str]:
    """Given a mount as a person writes it, return the entry of the configuration; only a known ending is an access."""
    path, _, access = text.rpartition(":")
    if path and access in ("ro", "rw"):
        return {"path": path, "access": access}
    return {"path": text}
