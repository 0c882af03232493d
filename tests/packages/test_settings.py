"""What installers get to know of the person's settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.packages import settings
from supervisord_mcp.packages.settings import Installer, Settings, find_settings
from supervisord_mcp.runtimes.base import Mount

ENVIRON = {
    "npm_config_registry": "https://npm.test",
    "NPM_CONFIG_CACHE": "/cache",
    "npm_config_ignore_scripts": "false",
    "PIP_INDEX_URL": "https://pip.test/simple",
    "PIP_TARGET": "/elsewhere",
    "UV_DEFAULT_INDEX": "https://uv.test/simple",
    "UV_CACHE_DIR": "/cache",
    "HTTPS_PROXY": "http://proxy.test",
    "no_proxy": "localhost",
    "SECRET": "hidden",
    "LD_PRELOAD": "/x",
    "NODE_OPTIONS": "--x",
    "PYTHONPATH": "/x",
}


@pytest.fixture(autouse=True)
def _no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    homes = {name: replace(home, system=()) for name, home in settings._HOMES.items()}
    monkeypatch.setattr(settings, "_HOMES", homes)


@pytest.mark.parametrize(
    ("installer", "own"), [("npm", "npm_config_registry"), ("pip", "PIP_INDEX_URL"), ("uv", "UV_DEFAULT_INDEX")]
)
def test_only_settings_of_the_installer_are_taken(tmp_path: Path, installer: Installer, own: str) -> None:
    found = find_settings(installer, ENVIRON, str(tmp_path))
    assert found.env == {name: ENVIRON[name] for name in (own, "HTTPS_PROXY", "no_proxy")}
    assert found.without_proxies() == {own: ENVIRON[own]}
    assert found.registries.urls == (ENVIRON[own],)
    assert (found.files, found.mounts) == ((), ())
    assert ENVIRON[own] not in repr(found)


def _mounts(installer: Installer, environ: dict[str, str], home: Path) -> tuple[Mount, ...]:
    return find_settings(installer, environ, str(home)).mounts


def test_files_of_the_home_are_shown_in_the_home_of_the_sandbox(tmp_path: Path) -> None:
    for place in (".npmrc", ".config/pip/pip.conf", ".config/uv/uv.toml", "other/pip/pip.conf", "one"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    top = str(tmp_path)
    assert _mounts("npm", {}, tmp_path) == (Mount(f"{top}/.npmrc", "ro", "/home/mcp/.npmrc"),)
    assert _mounts("pip", {}, tmp_path) == (
        Mount(f"{top}/.config/pip/pip.conf", "ro", "/home/mcp/.config/pip/pip.conf"),
    )
    assert _mounts("uv", {}, tmp_path) == (Mount(f"{top}/.config/uv/uv.toml", "ro", "/home/mcp/.config/uv/uv.toml"),)
    moved = _mounts("pip", {"XDG_CONFIG_HOME": f"{top}/other"}, tmp_path)
    assert moved == (Mount(f"{top}/other/pip/pip.conf", "ro", "/home/mcp/.config/pip/pip.conf"),)
    for installer, variable, place in (("npm", "NPM_CONFIG_USERCONFIG", ".npmrc"), ("uv", "UV_CONFIG_FILE", "x")):
        (mount,) = find_settings(installer, {variable: f"{top}/one"}, top).mounts  # type: ignore[arg-type]
        assert mount.path == f"{top}/one"
        assert mount.target == ("/home/mcp/.npmrc" if place == ".npmrc" else "/home/mcp/.config/uv/uv.toml")


def _urls(installer: Installer, home: Path, environ: dict[str, str] | None = None, prefix: str = "") -> tuple[str, ...]:
    return find_settings(installer, environ or {}, str(home), prefix).registries.urls


def test_later_files_win(tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    (prefix / "etc").mkdir(parents=True)
    (prefix / "etc/npmrc").write_text("registry=https://global.test")
    assert _urls("npm", tmp_path, prefix=str(prefix)) == ("https://global.test",)
    (tmp_path / ".npmrc").write_text("registry=https://user.test")
    assert _urls("npm", tmp_path, prefix=str(prefix)) == ("https://user.test",)
    assert f"{prefix}/etc/npmrc" in find_settings("npm", {}, str(tmp_path), str(prefix)).files
    assert _urls("npm", tmp_path, {"npm_config_registry": "https://env.test"}) == ("https://env.test",)
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text("[global]\nindex-url=https://user.test")
    (tmp_path / "one").write_text("[global]\nindex-url=https://one.test")
    assert _urls("pip", tmp_path, {"PIP_CONFIG_FILE": str(tmp_path / "one")}) == ("https://one.test",)
    assert _urls("pip", tmp_path, {"PIP_CONFIG_FILE": "/dev/null"}) == ()


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
    index = find_settings("pip", {"PIP_INDEX_URL": f"file://{tmp_path}/index/simple"}, str(home)).files
    assert {f"{tmp_path}/index", f"{tmp_path}/index/simple"} <= set(index)
    environ = {"TOKEN": "s3cret", "OTHER": "x", "SSL_CERT_FILE": f"{tmp_path}/bundle.pem"}
    npm = find_settings("npm", environ, str(home))
    assert set(npm.files) == {f"{tmp_path}/{name}" for name in ("ca.pem", "bundle.pem")}
    assert npm.env == {"TOKEN": "s3cret", "SSL_CERT_FILE": f"{tmp_path}/bundle.pem"}
    pip: Settings = find_settings("pip", environ, str(home))
    assert set(pip.files) == {f"{tmp_path}/{name}" for name in ("constraints.txt", "bundle.pem", "wheels")}
    assert pip.env == {"SSL_CERT_FILE": f"{tmp_path}/bundle.pem"}, "a token of npm is none of pip's business"
