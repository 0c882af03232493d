"""Which values are secret: every sink asks this before it shows a text."""

from __future__ import annotations

import threading


class Masker:
    """Knows the secrets of this process. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()

    def learn(self, value: str, name: str) -> None:
        """Mask a value from now on; ``name`` stands in its place."""
        with self._lock:
            self._names[value] = name

    def forget(self, value: str) -> None:
        """Mask a value no longer."""
        with self._lock:
            self._names.pop(value, None)

    def mask(self, text: str) -> str:
        """Return a text with every secret in it replaced."""
        with self._lock:
            for value, name in self._names.items():
                text = text.replace(value, f"[secret {name}]")
        return text


#: The one of this process.
masker = Masker()
