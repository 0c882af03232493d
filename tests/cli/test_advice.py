"""Advice about what a configuration names and the machine does not have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from supervisord_mcp.cli.advice import advice
from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.load import Loaded
from supervisord_mcp.config.models import Config


def told(servers: dict[str, Any], tmp_path: Path, **environ: str) -> list[str]:
    config = Config.model_validate({"servers": servers})
    loaded = Loaded(config, origins={name: Origin(Path("/c.toml"), 3) for name in servers})
    return [str(problem) for problem in advice(loaded, {"HOME": str(tmp_path), "PATH": "", **environ}, "/src/site")]


def test_what_is_there_needs_no_advice(tmp_path: Path) -> None:
    fine = {"command": ["sh", "${A}"], "cwd": "/tmp", "mounts": [{"path": "/usr"}, {"path": "${project}/data"}]}
    optional = {"command": ["/bin/sh"], "mounts": [{"path": "/no/such/place", "optional": True}]}
    # uvx itself is not needed: pip installs the package where it is missing.
    assert told({"a": fine, "b": optional, "c": {"command": ["uvx", "mcp-server-time"]}}, tmp_path, A="1") == []


def test_what_an_image_has_is_not_looked_for_here(tmp_path: Path) -> None:
    whole = {"runtime": "container", "image": "a", "cwd": "/app", "mounts": [{"path": "/no/mount"}]}
    (mount,) = told({"a": whole, "b": {"runtime": "container", "command": ["npx", "-y", "x"]}}, tmp_path)
    assert mount.endswith("/no/mount does not exist")


def test_what_is_missing_is_told_with_its_place(tmp_path: Path) -> None:
    servers = {
        "a": {"command": ["nosuchprogram"]},
        "b": {"command": ["sh"], "cwd": "/no/cwd", "mounts": [{"path": "/usr"}, {"path": "/no/mount"}]},
        "c": {"command": ["sh"], "env": {"TOKEN": "${NO_SUCH_TOKEN}"}},
    }
    program, mount, cwd, variable = told(servers, tmp_path)
    assert program.startswith("/c.toml:3: servers.a.command: command not found: nosuchprogram")
    assert mount == "/c.toml:3: servers.b.mounts[1].path: /no/mount does not exist"
    assert cwd == "/c.toml:3: servers.b.cwd: /no/cwd does not exist"
    assert variable.startswith("/c.toml:3: servers.c.env.TOKEN: ${NO_SUCH_TOKEN} is not set")


def test_a_package_of_node_needs_node(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    node = tmp_path / "bin" / "node"
    node.write_text("#!/bin/sh\n")
    os.chmod(node, 0o755)
    assert told({"a": {"command": ["npx", "-y", "some-mcp"]}}, tmp_path, PATH=str(node.parent)) == []


def test_a_secret_in_plain_text_is_told_and_not_refused(tmp_path: Path) -> None:
    servers = {"a": {"command": ["sh"], "env": {"GITHUB_TOKEN": "hush-hush", "PLAIN": "1"}}}
    [text] = told(servers, tmp_path)
    assert text.startswith("/c.toml:3: servers.a.env.GITHUB_TOKEN: holds a secret, by its name, in plain text;")
    assert "smcp secret set" in text
    assert text.endswith("(not refused)")
    assert "hush-hush" not in text
