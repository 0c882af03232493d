"""Installations adopt orphans as the daemon does, for as long as each test runs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import pytest

from supervisord_mcp.runtimes import orphans


@pytest.fixture
def subreaper() -> Iterator[None]:
    """Adopt orphans for the time of a test."""
    orphans.become_subreaper()
    yield
    orphans.reap_strangers()
    ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)
