"""Environments in command lines."""

from __future__ import annotations

from supervisord_mcp.runtimes.shown import environment_words


def test_only_the_base_environment_has_values() -> None:
    env = (("PATH", "/a b"), ("LC_ALL", "C"), ("TOKEN", "s3cret"), ("HOME", "/h"))
    assert environment_words(env) == ["PATH='/a b'", "LC_ALL=C", 'TOKEN="$TOKEN"', "HOME=/h"]
