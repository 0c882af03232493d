"""What an entry of the configuration, or a profile, grants: said in the words of the runtimes."""

from __future__ import annotations

from dataclasses import replace

from supervisord_mcp.config.document import Origin
from supervisord_mcp.config.models import Mount as ConfiguredMount
from supervisord_mcp.config.models import Reach, ServerConfig, SystemCalls
from supervisord_mcp.config.protected import ALWAYS, IF_THERE, remaining
from supervisord_mcp.egress.rules import Egress, parse_rules
from supervisord_mcp.errors import ConfigError
from supervisord_mcp.runtimes.base import Access, Mount, Network
from supervisord_mcp.runtimes.limits import Limits
from supervisord_mcp.runtimes.seccomp import Family, Policy


def network(config: ServerConfig) -> Network | Egress:
    """Return what of the network a server reaches."""
    match config.network:
        case Reach():
            return Egress(config.network.rules)
        case "none" | "loopback" | "host":
            return config.network
        case _:
            return Egress(parse_rules([config.network]))


def policy(name: str, calls: SystemCalls, origin: Origin) -> Policy:
    """Return the policy for system calls. Raise `ConfigError` for one that Linux does not have."""
    try:
        return policy_of(calls)
    except ValueError as error:
        raise ConfigError((origin.problem(name, ("seccomp", "deny"), str(error)),)) from None


def policy_of(calls: SystemCalls) -> Policy:
    """Return the policy for system calls. Raise `ValueError` for one that Linux does not have."""
    families: frozenset[Family] = frozenset(calls.families) | ({"unix"} if calls.unix else frozenset())
    return Policy(families, calls.userns, calls.ptrace, frozenset(calls.deny), calls.audit)


def mount(path: str, access: Access, written: ConfiguredMount) -> Mount:
    """Return a mount at a path, with what stays read-only in it."""
    if access == "ro":
        return Mount(path)
    taken = written.unprotected
    return Mount(path, access, None, remaining(ALWAYS, taken), remaining(IF_THERE, taken))


def enforced(config: ServerConfig) -> Limits:
    """Return the limits that are kept; what is only warned of is not among them."""
    limits = Limits(**config.limits.model_dump())
    return replace(limits, memory=None, pids=None, cpu=None) if config.breach == "warn" else limits
