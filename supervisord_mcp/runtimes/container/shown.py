"""How a container is shown as a command line to paste: what a person would type to have the same one."""

from __future__ import annotations

import shlex

from supervisord_mcp.runtimes.base import LaunchSpec
from supervisord_mcp.runtimes.container import creation
from supervisord_mcp.runtimes.container.places import Place
from supervisord_mcp.runtimes.limits import size_text
from supervisord_mcp.runtimes.sandbox import HOME
from supervisord_mcp.runtimes.shown import environment_words


def shown(spec: LaunchSpec, place: Place) -> str:
    """Return a command line that starts the same container; secrets are not in it.

    Whoever pastes it has no daemon that serves the network of the container, so it has none at all.
    """
    container = creation.container_of(spec)
    env = [word for word in environment_words(spec.env) if word.partition("=")[2] == f'"${word.partition("=")[0]}"']
    words = ["docker", *(("-H", place.url) if place.url != "unix:///var/run/docker.sock" else ())]
    words += ["run", "-i", "--rm", "--init", "--log-driver", "none", "--network", _network(spec)]
    words += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--pull", "never"]
    words += _limits(spec)
    if container.user:
        words += ["--user", container.user]
    if spec.cwd:
        words += ["--workdir", spec.cwd]
    for path in spec.read_only:
        words += ["--mount", f"type=bind,source={path},target={path},readonly"]
    for mount in spec.mounts:
        read_only = ",readonly" if mount.access == "ro" else ""
        words += ["--mount", f"type=bind,source={mount.path},target={mount.target or mount.path}{read_only}"]
    for name, target, access in container.volumes:
        words += ["--volume", f"{name}:{target}:{access}"]
    for name, value in spec.env:
        # A value that may be a secret is taken from the environment of whoever pastes it.
        words += ["-e", name if f'{name}="${name}"' in env else f"{name}={value}"]
    if spec.argv and not container.entrypoint:
        words += ["--entrypoint", spec.argv[0], container.image, *spec.argv[1:]]
    else:
        words += [container.image, *spec.argv]
    return shlex.join(words)


def _network(spec: LaunchSpec) -> str:
    return "host" if spec.network == "host" else "none"


def _limits(spec: LaunchSpec) -> list[str]:
    limits, words = spec.limits, []
    if limits.memory is not None:
        words += ["--memory", size_text(limits.memory).lower(), "--memory-swap", size_text(limits.memory).lower()]
    if limits.pids is not None:
        words += ["--pids-limit", str(limits.pids + 1)]
    if limits.cpu is not None:
        words += ["--cpus", f"{limits.cpu:g}"]
    for path, size in (("/tmp", limits.tmp), (HOME, limits.home), ("/run", None)):
        words += ["--tmpfs", f"{path}:mode=1777" + ("" if size is None else f",size={size_text(size).lower()}")]
    return words
