"""Which package registries a person's own configuration of npm, pip and uv names, and the rules that open them.

Later texts win over earlier ones, and variables of the environment win over all texts, as these programs have it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from supervisord_mcp.egress.addresses import literal
from supervisord_mcp.egress.proxies import Proxies
from supervisord_mcp.egress.rules import LOOPBACK, Kind, Rule, normal

#: The sets of rules that stand for registries.
NPM, PYPI = "@npm", "@pypi"
SETS = (NPM, PYPI)

_PORTS = {"http": 80, "https": 443}
_REFERENCE = re.compile(r"(?<!\\)\$\{([^}?]+)(\?)?\}")
_TRUE = frozenset({"1", "true", "yes", "on", "y", "t"})
_PIP_SECTIONS = ("global", "install")
_PIP_KEYS = ("index-url", "extra-index-url", "no-index", "find-links", "proxy", "cert", "trusted-host")
_UV_VARIABLES = {
    "UV_INDEX_URL": "index-url",
    "UV_DEFAULT_INDEX": "default-index",
    "UV_EXTRA_INDEX_URL": "extra-index-url",
    "UV_FIND_LINKS": "find-links",
    "UV_INSECURE_HOST": "allow-insecure-host",
}


@dataclass(frozen=True, slots=True)
class Registries:
    """What one program fetches packages from. ``default`` says that it uses the registry that is built into it, too.

    ``urls`` may hold passwords. ``insecure`` are hosts whose certificate is not checked, ``certificates`` is a file.
    """

    urls: tuple[str, ...] = field(default=(), repr=False)
    default: bool = True
    proxies: Proxies = field(default_factory=Proxies)
    insecure: tuple[str, ...] = ()
    certificates: str = ""


def npm_registries(texts: Iterable[str], environ: Mapping[str, str]) -> Registries:
    """Given files of npmrc and the environment, return the registries of npm: the common one, and those of scopes."""
    found: dict[str, str] = {}
    for text in texts:
        found |= _npmrc(text, environ)
    for name, value in environ.items():
        # npm takes an empty variable for none.
        if name.lower().startswith("npm_config_") and value:
            key = name[len("npm_config_") :]
            found[key if key.startswith("//") else (key[:1] + key[1:].replace("_", "-")).lower()] = value
    common = _surrounding(environ, also=("PROXY", "proxy"))
    https = found.get("https-proxy") or found.get("proxy") or common.https
    proxies = Proxies(found.get("proxy") or common.http, https, found.get("noproxy") or common.bypass)
    # One with a variable that is not set is of no use, and npm minds only where its scope is asked for.
    scoped = [v for key, v in found.items() if key.startswith("@") and key.endswith(":registry") and "${" not in v]
    own = found.get("registry", "")
    urls = tuple(dict.fromkeys(filter(None, [own, *scoped])))
    return Registries(urls, default=not own, proxies=proxies, certificates=found.get("cafile", ""))


def pip_registries(texts: Iterable[str], environ: Mapping[str, str]) -> Registries:
    """Given configuration files of pip and the environment, return where ``pip install`` looks for packages."""
    found: dict[str, str] = {}
    for text in texts:
        found |= _pip_settings(text)
    for key in _PIP_KEYS:
        # An empty variable is set, as far as pip is concerned.
        if (value := environ.get(f"PIP_{key.upper().replace('-', '_')}")) is not None:
            found[key] = value
    common = _surrounding(environ)
    if proxy := found.get("proxy"):
        common = Proxies(proxy, proxy, common.bypass)
    certificates = found.get("cert") or _first(environ, "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
    hosts = tuple(found.get("trusted-host", "").split())
    links = found.get("find-links", "").split()
    if found.get("no-index", "").strip().lower() in _TRUE:
        return Registries(tuple(links), False, common, hosts, certificates)
    own = found.get("index-url", "").strip()
    urls = dict.fromkeys(filter(None, [own, *found.get("extra-index-url", "").split(), *links]))
    return Registries(tuple(urls), not own, common, hosts, certificates)


def uv_registries(texts: Iterable[str], environ: Mapping[str, str]) -> Registries:
    """Given files ``uv.toml`` and the environment, return where ``uv pip install`` looks for packages."""
    found: dict[str, Any] = {}
    for text in texts:
        found |= _uv_settings(text)
    for variable, key in _UV_VARIABLES.items():
        if value := environ.get(variable, "").strip():
            found[key] = value
    written = found.get("index")
    indexes = [index for index in written if isinstance(index, dict)] if isinstance(written, list) else []
    first = [str(index.get("url", "")) for index in indexes if index.get("default") is True]
    own = _unnamed(str(found.get("default-index") or "")) or str(found.get("index-url") or "") or "".join(first[:1])
    links = _texts(found.get("find-links"))
    common = _surrounding(environ, also=("ALL_PROXY", "all_proxy"))
    hosts = tuple(_texts(found.get("allow-insecure-host")))
    certificates = environ.get("SSL_CERT_FILE", "")
    if found.get("no-index") is True or environ.get("UV_NO_INDEX", "").lower() in _TRUE:
        return Registries(tuple(links), False, common, hosts, certificates)
    others = [str(index.get("url", "")) for index in indexes if index.get("default") is not True]
    named = map(_unnamed, environ.get("UV_INDEX", "").split())
    urls = dict.fromkeys(filter(None, [own, *named, *others, *_texts(found.get("extra-index-url")), *links]))
    return Registries(tuple(urls), not own, common, hosts, certificates)


def registry_rules(urls: Iterable[str], proxies: Proxies) -> tuple[Rule, ...]:
    """Given the URLs of registries, return the rules that open their hosts; one on the disk needs none.

    The person's own configuration names them, so they may lead to private addresses and to this machine. Raise
    `ValueError` for a URL that nothing can be fetched from.
    """
    return tuple(dict.fromkeys(rule for url in urls if (rule := _rule(url, proxies)) is not None))


def shown(url: str) -> str:
    """Return a URL without what may be a secret in it."""
    try:
        parts = urlsplit(url)
        place = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
    except ValueError:
        return "a URL"
    return f"{parts.scheme}://{place}{parts.path}" if parts.scheme else parts.path


def _rule(url: str, proxies: Proxies) -> Rule | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(f"{shown(url)} cannot be read as a URL") from None
    if parts.scheme == "file" or (not parts.scheme and not parts.netloc):
        return None
    if parts.scheme not in _PORTS or not host:
        raise ValueError(f"{shown(url)} is no URL of http, https or file")
    try:
        name, number = normal(host), port or _PORTS[parts.scheme]
        via = proxies.find(parts.scheme, name, number)
    except ValueError as error:
        raise ValueError(f"{shown(url)}: {error}") from None
    address = literal(name)
    if via is None and (name == "localhost" or name.endswith(".localhost") or (address and address.is_loopback)):
        return Rule(Kind.LOOPBACK, LOOPBACK, number)
    kind = Kind.NAME if address is None else Kind.ADDRESS
    return Rule(kind, name, number, private=True, trusted=True, via=via)


def _surrounding(environ: Mapping[str, str], also: Sequence[str] = ()) -> Proxies:
    http = _first(environ, "http_proxy", "HTTP_PROXY", *also)
    https = _first(environ, "https_proxy", "HTTPS_PROXY", *also)
    return Proxies(http, https, _first(environ, "no_proxy", "NO_PROXY"))


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _npmrc(text: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith("["):
            # What follows belongs to a section, which npm itself does not have.
            return
        key, equals, value = stripped.partition("=")
        if stripped.startswith((";", "#")) or not equals:
            continue
        yield _expanded(_unquoted(key.strip()), environ), _expanded(_unquoted(value.strip()), environ)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        # What is not set stays as it is written, unless a question mark allows it to be nothing.
        return environ.get(match[1], "" if match[2] else match[0])

    return _REFERENCE.sub(value, text)


def _pip_settings(text: str) -> dict[str, str]:
    # Only here: most daemons never read one.
    import configparser

    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        # pip says so itself, and what it cannot read names no registry.
        return {}
    found: dict[str, str] = {}
    for section in _PIP_SECTIONS:
        if parser.has_section(section):
            found |= {key.replace("_", "-").removeprefix("--"): value for key, value in parser.items(section)}
    return found


def _uv_settings(text: str) -> dict[str, Any]:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return {}
    pip = content.pop("pip", {})
    return {**content, **(pip if isinstance(pip, dict) else {})}


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _unnamed(word: str) -> str:
    """Return the URL of an index that may have a name before it, as in ``name=https://…``."""
    name, equals, url = word.partition("=")
    return url if equals and not set(name) & set(":/?") else word
