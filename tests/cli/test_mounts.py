"""Mounts on the command line."""

from __future__ import annotations

import pytest

from supervisord_mcp.cli.mounts import mount_of


@pytest.mark.parametrize(
    ("text", "mount"),
    [
        ("/a", {"path": "/a"}),
        ("/a:rw", {"path": "/a", "access": "rw"}),
        ("${project:-/x}:ro", {"path": "${project:-/x}", "access": "ro"}),
        ("/a:b", {"path": "/a:b"}),
        ("/a:b:rw", {"path": "/a:b", "access": "rw"}),
        (":rw", {"path": ":rw"}),
    ],
)
def test_mount_of(text: str, mount: dict[str, str]) -> None:
    assert mount_of(text) == mount
