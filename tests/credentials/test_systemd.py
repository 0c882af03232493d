"""Credentials in a directory as systemd lays it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.credentials.systemd import SystemdSource
from supervisord_mcp.errors import SecretError


def test_a_credential_of_the_unit(tmp_path: Path) -> None:
    # Files of mode 0400 (0440 with an access list) in a directory of mode 0500 on a file system of its own.
    directory = tmp_path / "smcp.service"
    directory.mkdir()
    (directory / "github").write_text("s3cret")
    (directory / "github").chmod(0o440)
    directory.chmod(0o500)
    source = SystemdSource({"CREDENTIALS_DIRECTORY": str(directory)})
    assert source.read("github") == "s3cret"
    with pytest.raises(SecretError, match="no credential jira") as caught:
        source.read("jira")
    assert "LoadCredential=jira:PATH" in caught.value.remedy


def test_a_daemon_that_systemd_did_not_start() -> None:
    with pytest.raises(SecretError, match="CREDENTIALS_DIRECTORY is not set") as caught:
        SystemdSource({}).read("github")
    assert "LoadCredential" in caught.value.remedy
