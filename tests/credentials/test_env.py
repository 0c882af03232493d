"""Secrets in the daemon's environment."""

from __future__ import annotations

import pytest

from supervisord_mcp.credentials.env import EnvironmentSource
from supervisord_mcp.errors import SecretError


def test_a_variable_of_the_daemon() -> None:
    source = EnvironmentSource({"TOKEN": "s3cret\n", "EMPTY": ""})
    assert source.read("TOKEN") == "s3cret\n"
    with pytest.raises(SecretError, match="no variable OTHER") as caught:
        source.read("OTHER")
    assert "smcp secret set other" in caught.value.remedy
    # One that is started by a host or by ``smcp up`` has no such variable, whatever stands in their environment.
    assert "smcp run" in caught.value.remedy
    with pytest.raises(SecretError) as caught:
        source.read("__Key")
    assert caught.value.remedy.endswith("smcp secret set key")
    with pytest.raises(SecretError, match="empty"):
        source.read("EMPTY")
