"""Every host that is known, and what of them this machine has."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from supervisord_mcp.errors import UsageError
from supervisord_mcp.hosts.base import Host, HostFile, Surroundings
from supervisord_mcp.hosts.families.amazon_q import AMAZON_Q
from supervisord_mcp.hosts.families.amp import AMP
from supervisord_mcp.hosts.families.antigravity import ANTIGRAVITY
from supervisord_mcp.hosts.families.claude_code import CLAUDE_CODE
from supervisord_mcp.hosts.families.claude_desktop import CLAUDE_DESKTOP
from supervisord_mcp.hosts.families.cline import CLINE
from supervisord_mcp.hosts.families.codex import CODEX
from supervisord_mcp.hosts.families.continue_dev import CONTINUE
from supervisord_mcp.hosts.families.copilot import COPILOT_CLI, COPILOT_PLUGINS
from supervisord_mcp.hosts.families.crush import CRUSH
from supervisord_mcp.hosts.families.cursor import CURSOR
from supervisord_mcp.hosts.families.factory import FACTORY
from supervisord_mcp.hosts.families.gemini import GEMINI, QWEN
from supervisord_mcp.hosts.families.goose import GOOSE
from supervisord_mcp.hosts.families.junie import JUNIE
from supervisord_mcp.hosts.families.kilo import KILO
from supervisord_mcp.hosts.families.kiro import KIRO
from supervisord_mcp.hosts.families.lm_studio import LM_STUDIO
from supervisord_mcp.hosts.families.opencode import OPENCODE
from supervisord_mcp.hosts.families.roo import ROO
from supervisord_mcp.hosts.families.trae import TRAE
from supervisord_mcp.hosts.families.vscode import VSCODE, VSCODE_INSIDERS, VSCODIUM
from supervisord_mcp.hosts.families.warp import WARP
from supervisord_mcp.hosts.families.windsurf import WINDSURF
from supervisord_mcp.hosts.families.zed import ZED
from supervisord_mcp.hosts.files import is_there

_ALL = (
    CLAUDE_DESKTOP,
    CLAUDE_CODE,
    CURSOR,
    VSCODE,
    VSCODE_INSIDERS,
    VSCODIUM,
    WINDSURF,
    CODEX,
    GEMINI,
    QWEN,
    OPENCODE,
    ZED,
    CLINE,
    ROO,
    KILO,
    CONTINUE,
    GOOSE,
    CRUSH,
    COPILOT_CLI,
    COPILOT_PLUGINS,
    AMAZON_Q,
    KIRO,
    JUNIE,
    LM_STUDIO,
    WARP,
    TRAE,
    FACTORY,
    AMP,
    ANTIGRAVITY,
)
#: By key, in the order in which they are shown.
HOSTS: Final[Mapping[str, Host]] = {host.key: host for host in _ALL}


@dataclass(frozen=True, slots=True)
class Presence:
    """A host, whether it has left traces on this machine, and which of its files exist.

    ``shared`` are paths by which it reads a file that was found before: links of several hosts lead to one file.
    """

    host: Host
    installed: bool
    files: tuple[HostFile, ...]
    shared: tuple[HostFile, ...] = ()


def find_hosts(where: Surroundings, keys: Collection[str] = ()) -> tuple[Presence, ...]:
    """Return what this machine has of all hosts, or of the named ones. Raise `UsageError` for a name that is none."""
    unknown = [key for key in keys if key not in HOSTS]
    if unknown:
        raise UsageError(f"there is no host {unknown[0]!r}", remedy=f"known hosts: {', '.join(HOSTS)}")
    seen: set[str] = set()
    return tuple(_presence(host, where, seen) for host in HOSTS.values() if not keys or host.key in keys)


def _presence(host: Host, where: Surroundings, seen: set[str]) -> Presence:
    files: list[HostFile] = []
    shared: list[HostFile] = []
    for file in host.files(where):
        if not is_there(file.path):
            continue
        real = os.path.realpath(file.path)
        (shared if real in seen else files).append(file)
        seen.add(real)
    return Presence(host, host.installed(where), tuple(files), tuple(shared))
