"""Talking to an engine (Docker, Podman): found, connected to, and connected to again after it was gone.

The library blocks, so every request runs in a worker thread. Nothing is remembered of a failed attempt: when the engine
is there again, the next request succeeds.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread

from supervisord_mcp.errors import LaunchError
from supervisord_mcp.runtimes.container.bridge import CONNECT_SECONDS, Bridge, remedy
from supervisord_mcp.runtimes.container.places import Place, find_place, reach

if TYPE_CHECKING:
    import docker

T = TypeVar("T")

_log = logging.getLogger(__name__)

#: What a request may take that is not known to take longer (a pull is).
_SECONDS = 60
_CONNECT_SECONDS = 10
_THREADS = 16
#: An engine that does not answer must not keep a daemon from ending.
_HANG_UP_SECONDS = 5.0
#: Some engines repeat in their errors all that they were told.
_MOST_TEXT = 600
#: What some engines call an architecture, and what its kernel does.
_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


class EngineError(LaunchError):
    """An engine is missing, stopped or refuses the daemon, which is no fault of the server: it is tried again."""

    code = "engine"

    def __init__(self, message: str, *, remedy: str = "", retryable: bool = True, unreachable: bool = True) -> None:
        super().__init__(message, remedy=remedy, retryable=retryable, unreachable=unreachable)


class EngineRefusedError(EngineError):
    """An engine understood a request and refused it; ``status`` is that of HTTP."""

    def __init__(self, message: str, status: int, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy, retryable=status >= 500, unreachable=False)
        self.status = status


@dataclass(frozen=True, slots=True)
class Facts:
    """What an engine says of itself, as far as it matters here.

    ``local`` is whether it shares files, sockets and processes with the daemon. ``controllers`` are the limits that it
    can keep, ``security`` its options (selinux, rootless, userns). ``cgroup`` is the version of control groups,
    ``socket`` the path where it listens, if it does on this machine.
    """

    name: str
    version: str
    local: bool
    rootless: bool
    selinux: bool
    remapped: bool
    cgroup: int
    controllers: frozenset[str]
    runtimes: tuple[str, ...]
    podman: bool
    architecture: str
    socket: str = ""


class Engine:
    """One engine, as an entry names it; the empty word is the one that is found."""

    def __init__(self, word: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._word = word
        self._environ = os.environ if environ is None else environ
        self._client: docker.APIClient | None = None
        self._bridge: Bridge | None = None
        self._connected: Place | None = None
        self._version = ""
        self._facts: Facts | None = None
        self._bridging = threading.Lock()
        self._calls: set[asyncio.Future[Any]] = set()
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def shown(self) -> str:
        """What a person calls it."""
        return self._word or "the container engine"

    async def call(self, action: Callable[[docker.APIClient], T]) -> T:
        """Do something with the client of the engine in a worker thread, to its end, and return its result.

        Raise `EngineError` where there is no engine, and `EngineRefusedError` where it refuses.
        """
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_THREADS)
        asking = anyio.to_thread.run_sync(functools.partial(self.do, action), limiter=self._limiter)
        # A thread cannot be cancelled: it goes on also where nobody waits for it any more.
        call = asyncio.ensure_future(asking)
        self._calls.add(call)
        call.add_done_callback(self._answered)
        return await asyncio.shield(call)

    def _answered(self, call: asyncio.Future[Any]) -> None:
        self._calls.discard(call)
        if not call.cancelled() and (error := call.exception()) is not None:
            _log.debug("%s: %s", self.shown, error)

    def do(self, action: Callable[[docker.APIClient], T]) -> T:
        """Do the same in this thread, and block."""
        import docker.errors
        import requests

        if (before := self._bridge) is not None:
            before.begin()
        try:
            return action(self.client())
        except docker.errors.APIError as error:
            raise refusal(error) from error
        except (requests.RequestException, docker.errors.DockerException, OSError) as error:
            bridge = self._bridge
            said = "" if bridge is None else bridge.give_up()
            self._forget()
            raise failure(error, self.place(), said) from error
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            # The library and we take for granted what an answer looks like; it is no bug where something else answers.
            _log.debug("%s answers what no engine does", self.shown, exc_info=error)
            self._forget()
            place = self.place()
            raise EngineError(
                f"what answers at {place.url} is no container engine ({place.origin}): {error!r}", remedy=place.remedy
            ) from error

    def client(self) -> docker.APIClient:
        """Return the client. Blocks. Raise as `do`, in the words of the library."""
        client = self._client
        if client is None:
            place = self.place()
            client = self._client = connect(place, self._bridged(place))
            self._connected, self._version = place, str(client.api_version)
        elif self._connected is not None and self._connected.path is not None:
            # The library leaves an open socket behind where nobody listens.
            reach(self._connected.path, _CONNECT_SECONDS)
        return client

    def connect(self) -> docker.APIClient:
        """Return a client of its own, for a request that goes on and on. Blocks. Raise in the words of the library."""
        place = self.place()
        known = self._version if self._client is not None and place == self._connected else ""
        return connect(place, self._bridged(place), seconds=None, version=known)

    async def facts(self) -> Facts:
        """Return what the engine says of itself. It is asked once for each connection."""
        if self._client is None or self._facts is None:
            self._facts = await self.call(lambda client: _facts(client.info(), client.version(), self.place()))
        return self._facts

    @property
    def known(self) -> Facts | None:
        """What the engine said of itself the last time that it was asked."""
        return self._facts

    async def aclose(self) -> None:
        """Hang up, once what was asked is answered. It can be used again."""
        if self._calls:
            await asyncio.wait(self._calls, timeout=_HANG_UP_SECONDS)
        self.close()

    def close(self) -> None:
        """Hang up at once. It can be used again."""
        self._forget()
        bridge, self._bridge = self._bridge, None
        if bridge is not None:
            bridge.close()

    def _forget(self) -> None:
        """Connect anew the next time. What else goes on over ssh, such as servers, is left alone."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _bridged(self, place: Place) -> Bridge | None:
        """Return what makes the connections to an engine behind ssh."""
        if not place.url.startswith("ssh://"):
            return None
        with self._bridging:
            if self._bridge is None or self._bridge.url != place.url:
                # Servers that go on where the engine was before keep their connections until they end.
                self._bridge = Bridge(place.url)
            return self._bridge

    def place(self) -> Place:
        """Return where the engine is, as far as can be told now."""
        return find_place(self._word, self._environ)


class Engines:
    """The engines of one daemon, by the words of its configuration."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ
        self._engines: dict[str, Engine] = {}

    def of(self, word: str) -> Engine:
        """Return the engine that is meant by a word; the empty one is that which is found."""
        if word not in self._engines:
            self._engines[word] = Engine(word, self._environ)
        return self._engines[word]

    async def aclose(self) -> None:
        """Hang up everywhere. They can be used again."""
        for engine in self._engines.values():
            await engine.aclose()

    def __iter__(self) -> Iterator[Engine]:
        return iter(list(self._engines.values()))


def connect(
    place: Place, bridge: Bridge | None = None, *, seconds: int | None = _SECONDS, version: str = ""
) -> docker.APIClient:
    """Return a client of the engine at a place, through a bridge where there is one. Blocks. Raise as the library.

    The engine is asked for its ``version`` of the protocol unless that is known.
    """
    import docker
    import docker.constants
    import docker.tls

    from supervisord_mcp.runtimes.container.wiring import through

    if place.path is not None:
        # It says why there is nobody, and the library leaves an open socket behind where there is not.
        reach(place.path, _CONNECT_SECONDS)
    tls: Any = None
    if place.certificates:
        paths = {name: os.path.join(place.certificates, f"{name}.pem") for name in ("ca", "cert", "key")}
        tls = docker.tls.TLSConfig(
            client_cert=(paths["cert"], paths["key"]), ca_cert=paths["ca"], verify=place.verified
        )

    # The library has an ssh of its own, which is another one than the person's.
    url = place.url if bridge is None else "tcp://ssh:1"

    def client(version: str, limit: int | None) -> docker.APIClient:
        # None is no limit at all, which the stubs do not know.
        made = docker.APIClient(base_url=url, tls=tls or False, timeout=limit, version=version)  # type: ignore[arg-type]
        # Certificates and proxies of the environment are for other places than engines.
        made.trust_env = False
        # A new connection costs next to nothing, an idle one is kept for hours on both sides.
        made.headers["Connection"] = "close"
        return made if bridge is None else through(made, bridge)

    if version:
        return client(version, seconds)
    patience = _CONNECT_SECONDS if bridge is None else CONNECT_SECONDS + 5
    with contextlib.closing(client(docker.constants.MINIMUM_DOCKER_API_VERSION, patience)) as first:
        # The library would ask by itself, but leaves its connection open where nobody answers.
        spoken = str(first.version(api_version=False)["ApiVersion"])
    newest = docker.constants.DEFAULT_DOCKER_API_VERSION
    return client(min(spoken, newest, key=_number), seconds)


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def hang_up(stream: Any) -> None:
    """Close a stream that the library made of an answer, and the connection below it, which it leaves open."""
    for each in (getattr(stream, "_sock", None), getattr(stream, "_response", None), stream):
        if each is not None:
            each.close()


def refusal(error: Any) -> EngineRefusedError:
    """Given an error that the engine answered with, return ours."""
    text = str(error.explanation or error).strip()
    if len(text) > _MOST_TEXT:
        text = f"{text[: _MOST_TEXT // 2]} … {text[-_MOST_TEXT // 2 :]}"
    return EngineRefusedError(f"the container engine refused: {text}", error.status_code or 0)


def failure(error: BaseException, place: Place, said: str = "") -> EngineError:
    """Given why an engine could not be talked to, and what ssh said, return an error with what to do about it."""
    if said:
        return EngineError(
            f"the container engine at {place.url} cannot be reached ({place.origin}): {said}",
            remedy=remedy(place.url, said),
        )
    cause = _cause(error)
    url = place.url
    match cause:
        case FileNotFoundError() if url.startswith("ssh://"):
            return EngineError(
                f"the container engine at {url} cannot be reached ({place.origin}): there is no ssh here",
                remedy="Install it (Debian: apt install openssh-client), where the PATH of the daemon has it.",
            )
        case TimeoutError() if url.startswith("ssh://"):
            return EngineError(
                f"the container engine at {url} did not answer in time ({place.origin})",
                remedy=remedy(url, ""),
            )
        case FileNotFoundError():
            return EngineError(
                f"no container engine: there is no {place.path or url} ({place.origin})", remedy=place.remedy
            )
        case PermissionError():
            return EngineError(
                f"the container engine at {url} does not let this user in ({place.origin})",
                remedy="Add the user to the group of the socket (for Docker: sudo usermod -aG docker $USER, then log in"
                " again; members are as good as root), or run a rootless engine.",
            )
        case ConnectionRefusedError():
            return EngineError(
                f"the container engine at {url} is not running ({place.origin})",
                remedy="Start it: sudo systemctl start docker, or systemctl --user start podman.socket",
            )
        case TimeoutError():
            return EngineError(
                f"the container engine at {url} did not answer in time ({place.origin})", remedy="See its log."
            )
    return EngineError(f"the container engine at {url} cannot be used ({place.origin}): {error}", remedy=place.remedy)


def _cause(error: BaseException) -> OSError | None:
    """Return the error of the system at the bottom of what a library made of it."""
    import requests

    seen: list[object] = [error]
    for each in seen:
        if isinstance(each, (FileNotFoundError, PermissionError, ConnectionRefusedError, TimeoutError)):
            return each
        if isinstance(each, requests.Timeout):
            return TimeoutError()
        if isinstance(each, BaseException) and len(seen) < 100:
            seen += [each.__cause__, each.__context__, getattr(each, "reason", None), *each.args]
    return None


def _facts(info: Mapping[str, Any], version: Mapping[str, Any], place: Place) -> Facts:
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    words = {part.partition("=")[2] for option in options for part in option.split(",") if part.startswith("name=")}
    components = [str(each.get("Name", "")) for each in version.get("Components") or ()]
    kernel = str(info.get("KernelVersion", ""))
    podman = any("Podman" in name for name in components)
    rootless = "rootless" in words or bool(info.get("Rootless"))
    group = int(info.get("CgroupVersion") or 1)
    keys = {"memory": ("MemoryLimit",), "pids": ("PidsLimit",), "cpu": ("CpuCfsQuota", "CPUCfsQuota")}
    controllers = frozenset(name for name, said in keys.items() if any(info.get(key) for key in said))
    if (rootless and group == 1) or info.get("CgroupDriver") == "none":
        # It says that it can, and leaves them out: nobody but root makes groups there.
        controllers = frozenset()
    machine = str(info.get("Architecture", ""))
    return Facts(
        name=str(info.get("Name", "")),
        version=str(info.get("ServerVersion", "")),
        # Another kernel is another machine, such as the one in which Docker Desktop runs everything.
        local=place.path is not None and kernel == os.uname().release,
        rootless=rootless,
        selinux="selinux" in words,
        remapped="userns" in words,
        cgroup=group,
        controllers=controllers,
        runtimes=tuple(sorted(info.get("Runtimes") or ())),
        podman=podman,
        architecture=_MACHINES.get(machine, machine),
        socket=place.path or "",
    )
