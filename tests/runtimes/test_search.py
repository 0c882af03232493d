"""Where commands are found, for people with nvm, pyenv, Volta and the like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.search import find_command, search_path


def _program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _find(name: str, home: Path, **environ: str) -> str:
    return find_command(name, search_path([], environ, str(home)), environ, str(home))


def test_the_order_of_directories(tmp_path: Path) -> None:
    for place in ("own", "mine", ".local/bin", ".cargo/bin", "from-path"):
        (tmp_path / place).mkdir(parents=True)
    found = search_path(
        [str(tmp_path / "own"), "~/mine", "/nowhere"],
        {"PATH": f"relative:.::{tmp_path}/from-path:/usr/bin:/nowhere/else"},
        str(tmp_path),
    )
    wanted = [f"{tmp_path}/{place}" for place in ("own", "mine", "from-path")]
    assert list(found[:5]) == [*wanted, "/usr/bin", f"{tmp_path}/.local/bin"]
    assert found.index(f"{tmp_path}/.cargo/bin") < found.index("/usr/local/bin")
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("aliases", "version"),
    [
        ({}, "v22.3.0"),
        ({"default": "v18.20.1"}, "v18.20.1"),
        ({"default": "18"}, "v18.20.10"),
        ({"default": "lts/*", "lts/*": "lts/iron", "lts/iron": "v20.9.0"}, "v20.9.0"),
        ({"default": "node"}, "v22.3.0"),
        ({"default": "system"}, "v22.3.0"),
        ({"default": "16"}, "v22.3.0"),
        ({"default": "default"}, "v22.3.0"),
    ],
)
def test_nvm_without_a_login_shell(tmp_path: Path, aliases: dict[str, str], version: str) -> None:
    for name in ("v18.20.1", "v18.20.10", "v20.9.0", "v22.3.0", "v9.0.0"):
        _program(tmp_path / f".nvm/versions/node/{name}/bin/mcp-node")
    for name, target in aliases.items():
        alias = tmp_path / ".nvm/alias" / name
        alias.parent.mkdir(parents=True, exist_ok=True)
        alias.write_text(f"{target}\n")
    assert _find("mcp-node", tmp_path) == f"{tmp_path}/.nvm/versions/node/{version}/bin/mcp-node"


def test_another_place_for_nvm(tmp_path: Path) -> None:
    program = _program(tmp_path / "nvm/versions/node/v20.0.0/bin/mcp-node")
    assert _find("mcp-node", tmp_path / "home", NVM_DIR=str(tmp_path / "nvm")) == program


def test_stand_ins_of_pyenv_are_seen_through(tmp_path: Path) -> None:
    root = tmp_path / ".pyenv"
    _program(root / "shims/mcp-python")
    programs = {v: _program(root / f"versions/{v}/bin/mcp-python") for v in ("3.11.7", "3.11.12", "3.12.1")}
    with pytest.raises(LaunchError):
        _find("mcp-python", tmp_path)
    (root / "version").write_text("system\n3.12.1\n")
    assert _find("mcp-python", tmp_path) == programs["3.12.1"]
    assert _find("mcp-python", tmp_path, PYENV_VERSION="3.11") == programs["3.11.12"]
    assert _find("mcp-python", tmp_path, PYENV_VERSION="2.7:3.11.7") == programs["3.11.7"]
    assert _find("mcp-python", Path("/nowhere"), PYENV_ROOT=str(root)) == programs["3.12.1"]


def test_stand_ins_of_volta_are_seen_through(tmp_path: Path) -> None:
    root = tmp_path / ".volta"
    shims = {name: _program(root / "bin" / name) for name in ("mcp-node", "npx", "other")}
    assert _find("mcp-node", tmp_path) == shims["mcp-node"]
    node = _program(root / "tools/image/node/20.1.0/bin/mcp-node")
    npx = _program(root / "tools/image/npm/10.2.0/bin/npx")
    platform = root / "tools/user/platform.json"
    platform.parent.mkdir(parents=True)
    platform.write_text(json.dumps({"node": {"runtime": "20.1.0", "npm": "10.2.0"}}))
    assert find_command("npx", [f"{root}/bin"], {}, str(tmp_path)) == npx
    assert _find("mcp-node", tmp_path) == node
    assert _find("other", tmp_path) == shims["other"]


def test_what_is_no_program_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a/mcp-x").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b/mcp-x").write_text("")
    program = _program(tmp_path / "c/mcp-x")
    assert find_command("mcp-x", [f"{tmp_path}/{name}" for name in "abc"], {}, "/") == program


def test_a_missing_command_names_what_was_searched(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=f"mcp-nowhere .searched in {tmp_path}:/usr/bin") as caught:
        find_command("mcp-nowhere", [str(tmp_path), "/usr/bin"], {}, "/")
    assert not caught.value.retryable
    assert "path" in caught.value.remedy
    with pytest.raises(LaunchError, match="command not found: /nowhere/x"):
        find_command("/nowhere/x", [], {}, "/")
    assert find_command("/bin/sh", [], {}, "/") == "/bin/sh"
