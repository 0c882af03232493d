"""What the daemon leaves out: modules of Python that others import for what it never does.

Asyncio and anyio import ``ssl`` for connections that the daemon does not make, hashlib and hmac prefer the hashes of
OpenSSL to Python's own, and pydantic looks for plugins in the metadata of everything that is installed. Together that
is 3 MiB of memory, and 6 where no other process has the libraries loaded. Who wants one of these modules afterwards
gets it, like what connects with a container engine; only asyncio stays without TLS, and hashlib with Python's own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

#: Python's own hashes, without which hashlib would complain; some builds leave them to OpenSSL.
HASHES = ("_md5", "_sha1", "_sha3", "_blake2", *(("_sha2",) if sys.version_info >= (3, 12) else ("_sha256", "_sha512")))
#: Says which of its plugins pydantic does not look for.
_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"


@contextmanager
def left_out() -> Iterator[None]:
    """Leave out of what is imported meanwhile what a daemon has no use for. What is loaded already stays as it is."""
    with ExitStack() as stack:
        if not _loaded("hashlib", "hmac", "_hashlib") and all(map(_imports, HASHES)):
            _without("_hashlib", "hashlib", "hmac")
        if not _loaded("asyncio", "anyio", "ssl", "_ssl"):
            _without("ssl", "asyncio")
            # Anyio's sockets need the module, and of it nothing but the name of one class.
            stack.enter_context(_standing_in("ssl", SSLContext=object))
            import_module("anyio").connect_tcp  # noqa: B018 - loads what has to do with sockets
        if not _loaded("importlib.metadata", "pydantic"):
            stack.enter_context(_standing_in("importlib.metadata", entry_points=_entry_points))
            if _PLUGINS not in os.environ:
                os.environ[_PLUGINS] = "__all__"
                stack.callback(os.environ.pop, _PLUGINS, None)
        yield


class _StandIn(ModuleType):
    """A module that is loaded when it is asked for something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for some
            raise AttributeError(name)
        return getattr(_loading(self.__name__), name)


def _loading(name: str) -> ModuleType:
    """Load a module, whatever stands in for it just now."""
    if isinstance(sys.modules.get(name), _StandIn):
        del sys.modules[name]
    return import_module(name)


def _entry_points(**wanted: str) -> Any:
    return _loading("importlib.metadata").entry_points(**wanted)


@contextmanager
def _standing_in(name: str, **held: Callable[..., Any]) -> Iterator[None]:
    """Give those who import a module something that has nothing of it but what is ``held``, until they ask for more."""
    stand_in = _StandIn(name)
    vars(stand_in).update(held)
    sys.modules[name] = stand_in
    try:
        yield
    finally:
        for each in held:
            delattr(stand_in, each)
        if sys.modules.get(name) is stand_in:
            del sys.modules[name]


def _without(missing: str, *names: str) -> None:
    """Import modules as if another one was not there."""
    # To the import system this says that there is none.
    sys.modules[missing] = None  # type: ignore[assignment]
    try:
        for name in names:
            import_module(name)
    finally:
        del sys.modules[missing]


def _loaded(*names: str) -> bool:
    return any(name in sys.modules for name in names)


def _imports(name: str) -> bool:
    try:
        import_module(name)
    except ImportError:
        return False
    return True
