"""The daemon has no OpenSSL and no list of what is installed, and who wants one of them still gets it."""

from __future__ import annotations

import hashlib
import hmac
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.omissions import HASHES
from tests.kit.bounded import bounded
from tests.kit.daemon import bare, daemon

LIMIT = 60
TEXT = "what is hashed"
#: What the daemon is made of is imported, with what it needs left out.
DAEMON = """
import sys
from supervisord_mcp.omissions import left_out
with left_out():
    from supervisord_mcp import daemon
"""


def told(program: str) -> Any:
    """Run a program in a process of its own, and return what it prints; it may not complain."""
    command = [sys.executable, "-c", f"import json\n{program}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return json.loads(ended.stdout)


def mapped(pid: int) -> str:
    """Return which files a process has in its memory."""
    return Path(f"/proc/{pid}/maps").read_text()


@bounded(LIMIT)
async def test_a_daemon_that_serves_has_no_openssl() -> None:
    async with daemon(bare("s")) as d:
        await d.connected("s")
        maps = mapped(await d.pid())
    assert "msgspec" in maps
    assert "libssl" not in maps
    assert "libcrypto" not in maps


def test_what_is_left_out_is_not_loaded() -> None:
    names = ("ssl", "_ssl", "_hashlib", "importlib.metadata", "email.message", "zipfile")
    loaded = told(f"{DAEMON}\nimport anyio\nanyio.run(anyio.sleep, 0)\nprint(json.dumps([*sys.modules]))")
    assert "anyio._backends._asyncio" in loaded
    assert "supervisord_mcp.config.models" in loaded
    assert [name for name in names if name in loaded] == []


def test_hashes_are_right() -> None:
    names = sorted(name for name in hashlib.algorithms_guaranteed if not name.startswith("shake"))
    made = told(
        f"""{DAEMON}
import hashlib, hmac
made = {{name: hashlib.new(name, {TEXT!r}.encode()).hexdigest() for name in {names}}}
made["mac"] = hmac.new(b"key", {TEXT!r}.encode(), "sha256").hexdigest()
print(json.dumps(made))"""
    )
    assert made.pop("mac") == hmac.new(b"key", TEXT.encode(), "sha256").hexdigest()
    assert made == {name: hashlib.new(name, TEXT.encode()).hexdigest() for name in names}


def test_who_wants_them_afterwards_gets_them() -> None:
    assert (
        told(
            f"""{DAEMON}
import ssl, importlib.metadata, importlib
import docker, requests
import anyio.streams.tls
print(json.dumps([
    ssl.create_default_context().verify_mode == ssl.CERT_REQUIRED,
    importlib.metadata is importlib.import_module("importlib.metadata"),
    importlib.metadata.version("msgspec") != "",
    len(importlib.metadata.entry_points(group="console_scripts")) > 0,
    anyio.streams.tls.ssl.SSLContext is ssl.SSLContext,
    anyio.streams.tls.ssl.SSLWantReadError is ssl.SSLWantReadError,
]))"""
        )
        == [True] * 6
    )


def test_who_asks_for_something_meanwhile_gets_it() -> None:
    assert (
        told(
            """
import sys
from supervisord_mcp.omissions import left_out
with left_out():
    import ssl
    from importlib.metadata import entry_points, version
    found = [len(entry_points(group="console_scripts")) > 0, version("msgspec") != ""]
    failure = ssl.SSLError
import importlib.metadata
import ssl as real
print(json.dumps([
    *found, failure is real.SSLError, real is sys.modules["ssl"], real.SSLContext is not object,
    importlib.metadata.version is version,
]))"""
        )
        == [True] * 6
    )


def test_a_python_without_a_hash_of_its_own_has_those_of_openssl() -> None:
    assert told(
        f"""
import sys
sys.modules[{HASHES[0]!r}] = None
{DAEMON}
import hashlib
print(json.dumps([hashlib.md5.__name__, "_hashlib" in sys.modules]))"""
    ) == ["openssl_md5", True]


@pytest.mark.parametrize("first", ["asyncio", "anyio", "ssl"])
def test_asyncio_that_is_loaded_already_keeps_its_tls(first: str) -> None:
    assert told(f"import {first}\n{DAEMON}\nimport asyncio.sslproto as s, ssl\nprint(json.dumps(s.ssl is ssl))")


@pytest.mark.parametrize("first", ["hashlib", "hmac"])
def test_hashes_that_are_loaded_already_stay(first: str) -> None:
    assert told(f"import {first}\n{DAEMON}\nimport hashlib\nprint(json.dumps(hashlib.sha256.__name__))") == (
        "openssl_sha256"
    )


@pytest.mark.parametrize("given", [None, "one,other"])
def test_the_environment_stays_as_it_was(given: str | None) -> None:
    told_so = told(
        f"""
import os
given = {given!r}
if given is not None:
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = given
{DAEMON}
print(json.dumps(os.environ.get("PYDANTIC_DISABLE_PLUGINS")))"""
    )
    assert told_so == given


def test_a_daemon_that_cannot_be_loaded_leaves_nothing_behind() -> None:
    assert told(
        """
import os, sys
from supervisord_mcp.omissions import left_out
try:
    with left_out():
        raise ImportError("no daemon")
except ImportError as error:
    print(json.dumps([str(error), "ssl" in sys.modules, "importlib.metadata" in sys.modules,
                      "PYDANTIC_DISABLE_PLUGINS" in os.environ]))"""
    ) == ["no daemon", False, False, False]
