"""What installers get to know of the person's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisord_mcp.packages import settings
from supervisord_mcp.packages.settings import find_settings
from supervisord_mcp.runtimes.base import Mount


@pytest.fixture(autouse=True)
def _no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "_SYSTEM", ())


def test_only_settings_of_installers_are_taken(tmp_path: Path) -> None:
    environ = {
        "npm_config_registry": "https://example.test",
        "NPM_CONFIG_CACHE": "/cache",
        "PIP_INDEX_URL": "https://example.test/simple",
        "PIP_TARGET": "/elsewhere",
        "UV_DEFAULT_INDEX": "https://example.test/simple",
        "UV_CACHE_DIR": "/cache",
        "HTTPS_PROXY": "http://proxy.test",
        "no_proxy": "localhost",
        "SECRET": "hidden",
        "LD_PRELOAD": "/x",
        "NODE_OPTIONS": "--x",
        "PYTHONPATH": "/x",
    }
    found = find_settings(environ, str(tmp_path))
    names = {"npm_config_registry", "PIP_INDEX_URL", "UV_DEFAULT_INDEX", "HTTPS_PROXY", "no_proxy"}
    assert found.env == {name: environ[name] for name in names}
    assert (found.files, found.mounts) == ((), ())


def test_files_of_the_home_are_shown_in_the_home_of_the_sandbox(tmp_path: Path) -> None:
    for place in (".npmrc", ".config/pip/pip.conf", ".config/uv/uv.toml", "other/pip/pip.conf"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    assert find_settings({}, str(tmp_path)).mounts == (
        Mount(f"{tmp_path}/.npmrc", "ro", "/home/mcp/.npmrc"),
        Mount(f"{tmp_path}/.config/pip/pip.conf", "ro", "/home/mcp/.config/pip/pip.conf"),
        Mount(f"{tmp_path}/.config/uv/uv.toml", "ro", "/home/mcp/.config/uv/uv.toml"),
    )
    moved = find_settings({"XDG_CONFIG_HOME": f"{tmp_path}/other"}, str(tmp_path)).mounts
    assert moved[1] == Mount(f"{tmp_path}/other/pip/pip.conf", "ro", "/home/mcp/.config/pip/pip.conf")


def test_what_settings_refer_to_is_shown_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    for name in ("ca.pem", "constraints.txt", "bundle.pem", "home/secret"):
        (tmp_path / name).write_text("")
    (tmp_path / "wheels").mkdir()
    (home / ".npmrc").write_text(
        f"cafile={tmp_path}/ca.pem\n//example.test/:_authToken=${{TOKEN}}\nprefix={home}\nx=/\n"
    )
    (home / ".pip").mkdir()
    (home / ".pip/pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/constraints.txt\nfind-links = file://{tmp_path}/wheels\nx = /nowhere/y\n"
    )
    (tmp_path / "index/simple").mkdir(parents=True)
    index = find_settings({"PIP_INDEX_URL": f"file://{tmp_path}/index/simple"}, str(home)).files
    assert {f"{tmp_path}/index", f"{tmp_path}/index/simple"} <= set(index)
    found = find_settings({"TOKEN": "s3cret", "OTHER": "x", "SSL_CERT_FILE": f"{tmp_path}/bundle.pem"}, str(home))
    assert set(found.files) == {f"{tmp_path}/{name}" for name in ("ca.pem", "constraints.txt", "bundle.pem", "wheels")}
    assert found.env == {"TOKEN": "s3cret", "SSL_CERT_FILE": f"{tmp_path}/bundle.pem"}
