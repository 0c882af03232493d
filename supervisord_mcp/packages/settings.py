"""What the person told npm, pip and uv: registries, certificates and proxies are named there and nowhere else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from supervisord_mcp.runtimes.base import Mount
from supervisord_mcp.runtimes.sandbox import HOME

_PREFIXES = ("npm_config_", "pip_", "uv_")
_NAMES = frozenset(
    {"http_proxy", "https_proxy", "no_proxy", "all_proxy", "ssl_cert_file", "ssl_cert_dir", "requests_ca_bundle"}
    | {"curl_ca_bundle", "node_extra_ca_certs"}
)
#: These say where something is installed or kept, which is decided here.
_OURS = frozenset(
    {"npm_config_cache", "npm_config_prefix", "npm_config_global", "npm_config_location", "npm_config_userconfig"}
    | {"npm_config_local_prefix", "npm_config_tmp", "npm_config_workspace", "npm_config_workspaces"}
    | {"pip_target", "pip_prefix", "pip_root", "pip_user", "pip_cache_dir", "pip_require_virtualenv", "pip_dry_run"}
    | {"uv_cache_dir", "uv_project", "uv_working_directory", "uv_tool_dir", "uv_tool_bin_dir", "uv_link_mode"}
    | {"uv_python", "uv_project_environment", "uv_python_install_dir", "uv_offline", "uv_no_cache"}
)
#: Below the home directory; {config} is XDG_CONFIG_HOME.
_PERSONAL = (".npmrc", ".pip/pip.conf", "{config}/pip/pip.conf", "{config}/uv/uv.toml")
_SYSTEM = (
    "/etc/npmrc",
    "/etc/pip.conf",
    "/etc/xdg/pip",
    "/etc/xdg/pip/pip.conf",
    "/etc/uv/uv.toml",
    "/etc/xdg/uv/uv.toml",
)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)[?]?\}")
_PATH = re.compile(r"""(?:^|[=\s"'\[,])(?:file://)?(/[^\s"',\]]+)""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Settings:
    """Environment and files that an installer gets to read."""

    env: Mapping[str, str]
    files: tuple[str, ...]
    mounts: tuple[Mount, ...]


def find_settings(environ: Mapping[str, str], home: str) -> Settings:
    """Given the environment of the daemon with that of the server over it, return what the person's settings are.

    Files of the home directory are shown in the home of a sandbox; what settings refer to is shown where it is.
    """
    env = {name: value for name, value in environ.items() if _is_setting(name)}
    config = environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
    mounts, texts = [], list(env.values())
    for place in _PERSONAL:
        path = os.path.join(home, place.format(config=config))
        if os.path.isfile(path):
            inside = place.format(config=".config")
            mounts.append(Mount(os.path.realpath(path), "ro", os.path.join(HOME, inside)))
            texts.append(_read(path))
    files = [path for path in _SYSTEM if os.path.exists(path)]
    texts += map(_read, files)
    for name in {name for text in texts for name in _REFERENCE.findall(text)}:
        if name in environ:
            env[name] = environ[name]
    files += _referred(texts, home)
    return Settings(env, tuple(dict.fromkeys(files)), tuple(mounts))


def _is_setting(name: str) -> bool:
    lower = name.lower()
    return (lower.startswith(_PREFIXES) or lower in _NAMES) and lower not in _OURS


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
