"""What ``@npm`` and ``@pypi`` mean on this machine, as rules: what the person's own npm, pip and uv say.

A registry that nothing configures is the one that is built into a program, so the program is asked; and where an index
of Python keeps its files only its pages tell, so they are looked at.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from supervisord_mcp.egress.addresses import literal, objection
from supervisord_mcp.egress.registries import NPM, registry_rules
from supervisord_mcp.egress.rules import Kind, Rule
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages.phase import Surroundings, Task, carry_out
from supervisord_mcp.packages.settings import Installer, Settings, find_settings
from supervisord_mcp.runtimes.egress.outside import Outside

#: What makes a program say which registry it uses where nothing is configured.
_QUESTIONS: Mapping[Installer, tuple[str, ...]] = {
    "npm": ("config", "get", "registry"),
    "pip": ("install", "--help"),
    "uv": ("pip", "install", "--help"),
}
_URL = re.compile(r"https?://[^\s>)'\"]+")
_DEFAULT = re.compile(r"default:?\s+<?(https?://[^\s>)'\"]+)")
#: A package that every index of Python has, for the pages of one where no package is asked for yet.
_COMMON = "pip"


class RegistryRules:
    """Finds rules, and remembers what programs said about themselves."""

    def __init__(self) -> None:
        self._defaults: dict[tuple[str, int], str] = {}

    async def of_set(self, name: str, around: Surroundings) -> tuple[Rule, ...]:
        """Return what ``@npm`` or ``@pypi`` stands for. Raise `LaunchError` where nothing on this machine says it."""
        installers: tuple[Installer, ...] = ("npm",) if name == NPM else ("uv", "pip")
        found: dict[Rule, None] = {}
        for installer in installers:
            if program := around.find(installer):
                found |= dict.fromkeys(await self.of_installer(installer, (program,), (), around))
        if not found:
            raise LaunchError(
                f"{name}: neither {' nor '.join(installers)} is installed, whose settings would say what it means",
                remedy="Install it, or name the hosts instead.",
                retryable=False,
            )
        return tuple(found)

    async def of_installer(
        self, installer: Installer, program: Sequence[str], packages: Sequence[str], around: Surroundings
    ) -> tuple[Rule, ...]:
        """Return the rules for what a program installs from; ``packages`` are names that it will look for."""
        settings = settings_of(installer, around)
        registries = settings.registries
        urls = list(registries.urls)
        try:
            if registries.default:
                urls.insert(0, await self._default(installer, tuple(program), settings, around))
            rules = registry_rules(urls, registries.proxies)
        except ValueError as error:
            where = "its own configuration files, or its variables of the environment"
            raise LaunchError(
                f"the settings of {installer}: {error}", remedy=f"Correct {where}.", retryable=False
            ) from None
        if installer == "npm" or not rules:
            return rules
        return tuple(dict.fromkeys((*rules, *await _linked(urls, (*packages, _COMMON), (rules, settings), around))))

    async def _default(
        self, installer: Installer, program: tuple[str, ...], settings: Settings, around: Surroundings
    ) -> str:
        """Return the registry that is built into a program. Raise `LaunchError` where it does not say which."""
        if installer == "pip" and (uv := around.find("uv")):
            # Both have the same one, and uv is quicker to say it.
            installer, program = "uv", (uv,)
        # A program of an image is the same for as long as the image is.
        image = around.container.image if around.container is not None else ""
        key = (image + program[0], 0 if image else os.stat(program[0]).st_mtime_ns)
        if key not in self._defaults:
            tools = tuple(filter(None, [around.find("node")])) if installer == "npm" else ()
            said: list[str] = []
            asked = Task((*program, *_QUESTIONS[installer]), settings, {"COLUMNS": "500"}, tools)
            ending = await carry_out(asked, around, said.append)
            text = " ".join(said)
            found = _URL.search(text) if installer == "npm" else _DEFAULT.search(text)
            if found is None:
                raise LaunchError(
                    f"{installer} does not say which registry it uses ({ending.status}): {text[-300:]}",
                    remedy="Name the registry in its configuration.",
                )
            self._defaults[key] = found[found.lastindex or 0]
        return self._defaults[key]


def settings_of(installer: Installer, around: Surroundings) -> Settings:
    """Return the person's settings for an installer."""
    node = (around.outside or around.find)("node") if installer == "npm" else None
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(node))) if node else ""
    return find_settings(installer, around.environ, around.home, prefix)


async def _linked(
    urls: Sequence[str], names: Sequence[str], known: tuple[tuple[Rule, ...], Settings], around: Surroundings
) -> tuple[Rule, ...]:
    """Return rules for the hosts that pages of indexes refer to.

    They may be in a private network only where an index is: nobody outside is to say what is reached inside.
    """
    rules, settings = known
    registries = settings.registries
    question = {
        "urls": [url for url in urls if url.startswith(("http://", "https://"))],
        "names": list(dict.fromkeys(re.sub(r"[-_.]+", "-", name).lower() for name in names)),
        "insecure": list(registries.insecure),
        "certificates": registries.certificates,
    }
    python = sys.executable if around.container is None else (around.find("python3") or "python3")
    task = Task(
        (python, "-I", "-S", "-c", _links_program()), settings, rules=rules, stdin=json.dumps(question).encode()
    )
    ending = await carry_out(task, around, lambda line: None)
    hosts = {(rule.host, rule.port) for rule in rules}
    found = registry_rules(filter(_URL.fullmatch, ending.lines), registries.proxies)
    new = (rule for rule in found if rule.kind is Kind.NAME and (rule.host, rule.port) not in hosts)
    inside = await _is_inside(rules)
    return tuple(Rule(rule.kind, rule.host, rule.port, private=inside, trusted=inside, via=rule.via) for rule in new)


async def _is_inside(rules: Sequence[Rule]) -> bool:
    """Return whether one of these hosts is not on the internet."""
    outside = Outside()
    for rule in rules:
        if rule.kind is Kind.LOOPBACK:
            return True
        address = literal(rule.host)
        with suppress(OSError):
            found = (address,) if address is not None else await outside.resolve(rule.host)
            if any(map(objection, found)):
                return True
    return False


@functools.cache
def _links_program() -> str:
    # The text of the module, not its file: the sandbox shows nothing of this program.
    # Not imported: it needs megabytes of modules, where it runs and not in the daemon.
    return Path(__file__).with_name("links.py").read_text(encoding="utf-8")
