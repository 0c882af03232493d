"""What the person told npm, pip and uv: registries, certificates and proxies are named there and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from supervisord_mcp.egress.registries import Registries, npm_registries, pip_registries, uv_registries
from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.sandbox import HOME

Installer = Literal["npm", "pip", "uv"]

_PROXIES = frozenset({"http_proxy", "https_proxy", "no_proxy", "all_proxy"})
_COMMON = frozenset({"ssl_cert_file", "ssl_cert_dir", "requests_ca_bundle", "curl_ca_bundle", "node_extra_ca_certs"})
#: What an installer gets of the daemon's own proxy instead.
_PROXY_SETTINGS = _PROXIES | {"npm_config_proxy", "npm_config_https_proxy", "npm_config_noproxy", "pip_proxy"}
#: These say where something is installed or kept, and what runs meanwhile, which is decided here.
_OURS = frozenset(
    {"npm_config_cache", "npm_config_prefix", "npm_config_global", "npm_config_location", "npm_config_userconfig"}
    | {"npm_config_local_prefix", "npm_config_tmp", "npm_config_workspace", "npm_config_workspaces"}
    | {"npm_config_ignore_scripts", "npm_config_script_shell", "npm_config_globalconfig"}
    | {"pip_target", "pip_prefix", "pip_root", "pip_user", "pip_cache_dir", "pip_require_virtualenv", "pip_dry_run"}
    | {"pip_only_binary", "pip_no_binary"}
    | {"uv_cache_dir", "uv_project", "uv_working_directory", "uv_tool_dir", "uv_tool_bin_dir", "uv_link_mode"}
    | {"uv_python", "uv_project_environment", "uv_python_install_dir", "uv_offline", "uv_no_cache"}
    | {"uv_no_build", "uv_no_binary", "uv_no_build_package", "uv_no_binary_package"}
)


@dataclass(frozen=True, slots=True)
class _Home:
    """Where the settings of one installer are; later files win. ``{config}`` is XDG_CONFIG_HOME.

    ``one`` is the variable that names a file. It is read instead of those of the home, or last where it is ``added``.
    """

    prefix: str
    system: tuple[str, ...]
    personal: tuple[str, ...]
    one: str
    added: bool = False


_HOMES: Mapping[Installer, _Home] = {
    "npm": _Home("npm_config_", ("/etc/npmrc",), (".npmrc",), "NPM_CONFIG_USERCONFIG"),
    "pip": _Home(
        "pip_",
        ("/etc/xdg/pip/pip.conf", "/etc/pip.conf"),
        (".pip/pip.conf", "{config}/pip/pip.conf"),
        "PIP_CONFIG_FILE",
        added=True,
    ),
    "uv": _Home("uv_", ("/etc/xdg/uv/uv.toml", "/etc/uv/uv.toml"), ("{config}/uv/uv.toml",), "UV_CONFIG_FILE"),
}
_REGISTRIES = {"npm": npm_registries, "pip": pip_registries, "uv": uv_registries}
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)[?]?\}")
_PATH = re.compile(r"""(?:^|[=\s"'\[,])(?:file://)?(/[^\s"',\]]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Settings:
    """Environment and files that an installer gets to read, and the registries that they name.

    ``variable`` names another place for a file of the home, to those that cannot have it in theirs.
    """

    env: Mapping[str, str] = field(repr=False)
    files: tuple[str, ...]
    mounts: tuple[Mount, ...]
    registries: Registries
    variable: str = ""

    def without_proxies(self) -> dict[str, str]:
        """Return the environment for a place with a proxy of its own, which uses those of the person."""
        return {name: value for name, value in self.env.items() if name.lower() not in _PROXY_SETTINGS}


def find_settings(installer: Installer, environ: Mapping[str, str], home: str, prefix: str = "") -> Settings:
    """Given the environment of the daemon with that of the server over it, return what the person's settings are.

    Files of the home directory are shown in the home of a sandbox; what settings refer to is shown where it is.
    ``prefix`` is where npm is installed, which has settings of its own there.
    """
    place = _HOMES[installer]
    env = {name: value for name, value in environ.items() if _is_setting(name, place.prefix)}
    system = [*place.system, *([os.path.join(prefix, "etc/npmrc")] if prefix and installer == "npm" else ())]
    files = [path for path in system if os.path.isfile(path)]
    texts, mounts = [_read(path) for path in files], []
    for path, inside in _personal(place, environ, home):
        mounts.append(Mount(os.path.realpath(path), "ro", os.path.join(HOME, inside)))
        texts.append(_read(path))
    if place.added and (one := environ.get(place.one)):
        texts = [] if one == os.devnull else [*texts, _read(one)]
    registries = _REGISTRIES[installer](texts, environ)
    for name in {name for text in texts for name in _REFERENCE.findall(text)}:
        if name in environ:
            env[name] = environ[name]
    files += _referred([*texts, *env.values()], home)
    return Settings(env, tuple(dict.fromkeys(files)), tuple(mounts), registries, place.one)


def _personal(place: _Home, environ: Mapping[str, str], home: str) -> list[tuple[str, str]]:
    """Return the files of a person that there are, and where they belong in a home."""
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    found = [(os.path.join(home, p.format(config=config)), p.format(config=".config")) for p in place.personal]
    one = environ.get(place.one) or environ.get(place.one.lower())
    if one and not place.added:
        found = [(one, place.personal[0].format(config=".config"))]
    return [(path, inside) for path, inside in found if os.path.isfile(path)]


def _is_setting(name: str, prefix: str) -> bool:
    lower = name.lower()
    return (lower.startswith(prefix) or lower in _COMMON or lower in _PROXIES) and lower not in _OURS


def _referred(texts: Iterable[str], home: str) -> list[str]:
    """Return the files and folders that settings name: certificates, constraints, folders of packages."""
    above = {home, "/"}
    while (parent := os.path.dirname(min(above - {"/"}, key=len, default="/"))) not in above:
        above.add(parent)
    found = [os.path.normpath(path) for text in texts for path in _PATH.findall(text)]
    # The pages of an index on the disk refer to files that lie beside them.
    found += [os.path.dirname(path) for path in found if os.path.basename(path) == "simple"]
    return [path for path in found if path not in above and os.path.exists(path)]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""
