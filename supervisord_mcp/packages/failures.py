"""What the last lines of an installer say: whether to try again, and what a person can do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from supervisord_mcp.errors import LaunchError

_REFUSED = "Registries are all that an installation reaches. Where the host is meant: install = {{ allow = [{hosts}] }}"
_BUILD = "Nothing of a package runs while it is installed. Where it is to be built: install = { scripts = [its name] }"
_SHOWN_LINES = 8
_NETWORK = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|EIDLETIMEOUT"
    r"|E5\d\d\b|\bHTTP (?:error )?5\d\d|NewConnectionError|ConnectTimeout|ReadTimeout|ConnectionResetError|dns error"
    r"|error sending request|error trying to connect|[Tt]emporary failure in name resolution|[Cc]onnection refused"
    r"|[Cc]onnection reset|[Nn]etwork is unreachable|timed out|[Ff]ailed to fetch|client error \(Connect\)"
)
_FINAL = re.compile(
    r"\bE404\b|\bETARGET\b|\bENOVERSIONS\b|\bEBADPLATFORM\b|\bE401\b|\bE403\b|\bEINVALIDPACKAGENAME\b"
    r"|not found in the package registry|was not found|requirements are unsatisfiable|[Nn]o solution found"
)
_NOT_THERE = re.compile(r"No matching distribution found|Could not find a version")
#: What pip and uv say of a package that is offered as source only.
_SOURCE = re.compile(r"has no usable wheels|building from source is disabled")
_FULL = re.compile(r"ENOSPC|No space left on device|Disk quota exceeded")


def install_failure(shown: str, how: str, lines: Iterable[str], refused: Sequence[str] = ()) -> LaunchError:
    """Given what was installed, how the installer ended and its last lines, return the error for it.

    ``refused`` are hosts that it asked for and that are not of its registries.
    """
    last = [line for line in lines if line.strip()][-_SHOWN_LINES:]
    text = "\n".join(last)
    remedy, retryable = _judge(text, how)
    unreachable = bool(_NETWORK.search(text)) and not _FINAL.search(text)
    said = "".join(f"\n    {line}" for line in last)
    if refused:
        said += f"\n    it was not let to {', '.join(refused)}"
        remedy = _REFUSED.format(hosts=", ".join(f'"{host}"' for host in refused))
        retryable, unreachable = False, False
    message = f"cannot install {shown} ({how}){said}"
    return LaunchError(message, remedy=remedy, retryable=retryable, unreachable=unreachable)


def _judge(text: str, how: str) -> tuple[str, bool]:
    if _SOURCE.search(text):
        return _BUILD, False
    if _FINAL.search(text):
        return "Check the name and the version of the package, and who may read it.", False
    if _NETWORK.search(text):
        return "Check the network, the proxy and the registry in the configuration of npm, pip or uv.", True
    if _NOT_THERE.search(text):
        return "Check the name and the version of the package, and the version of Python it needs.", False
    if _FULL.search(text):
        return "Make room on the disk of the cache.", True
    # Killed from outside says nothing about the package; anything else would fail again in the same way.
    return "Install it by hand to see more.", how.startswith("killed")
