"""Attempts adopt orphans as the daemon does."""

from __future__ import annotations

from tests.runtimes.conftest import subreaper

__all__ = ["subreaper"]
