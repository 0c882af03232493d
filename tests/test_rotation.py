"""A change of secrets reaches exactly the children that were given them, and nobody else notices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisord_mcp.credentials import vault_file, vault_key
from supervisord_mcp.credentials.masking import masker
from supervisord_mcp.credentials.vault import NewKey, Vault
from tests.credentials.places import MemoryKeyring
from tests.kit.bounded import bounded
from tests.kit.estate import Estate, PipeGuest, estate
from tests.kit.workshop import text

LIMIT = 60
VALUE, NEW = "s3cret-of-before", "s3cret-of-after"


@pytest.fixture(autouse=True)
def _cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault_key, "KeyringSource", lambda: MemoryKeyring(there=False))
    monkeypatch.setattr(vault_file, "_COST", {"n": 16, "r": 1, "p": 1})


def granted(**credentials: str) -> dict[str, Any]:
    return {"entry": {"credentials": credentials}}


def vault(one: Estate) -> Vault:
    return Vault(one.paths, {})


async def variable(guest: PipeGuest, name: str) -> str | None:
    """Return a variable of the child that a host talks to."""
    found: dict[str, str] = json.loads(text(await guest.call("env")))["env"]
    return found.get(name)


@bounded(LIMIT)
async def test_exactly_the_users_are_restarted_and_hosts_stay(tmp_path: Path) -> None:
    servers = {
        "user": granted(TOKEN="vault:github", KEY="vault:jira"),
        "other": granted(TOKEN="vault:jira"),
        "none": {},
    }
    async with estate(tmp_path, servers) as one:
        vault(one).put("github", VALUE)
        vault(one).put("jira", "s3cret-of-jira")
        guests = {name: await one.greeted(name) for name in servers}
        assert await variable(guests["user"], "TOKEN") == VALUE
        assert await variable(guests["user"], "KEY") == "s3cret-of-jira"
        assert await variable(guests["other"], "TOKEN") == "s3cret-of-jira"
        assert await variable(guests["none"], "TOKEN") is None
        before = {name: one.instance(name).pid for name in servers}
        vault(one).put("github", NEW, replace=True)
        answer = await one.command().ask("secret-changed", secrets=["vault:github"])
        assert answer == {"restarted": ["user"]}
        after = {name: one.instance(name).pid for name in servers}
        assert {name for name in servers if after[name] != before[name]} == {"user"}
        assert await variable(guests["user"], "TOKEN") == NEW
        assert one.instance("user").generation == 2


@bounded(LIMIT)
async def test_what_does_not_run_is_not_started(tmp_path: Path) -> None:
    async with estate(tmp_path, {"asleep": granted(T="vault:x"), "stopped": granted(T="vault:x")}) as one:
        vault(one).put("x", VALUE)
        command = one.command()
        await one.greeted("asleep")
        await command.ask("start", names=["stopped"])
        await command.ask("stop", names=["stopped"])
        assert await command.ask("secret-changed", secrets=["vault:x"]) == {"restarted": ["asleep"]}
        await command.ask("stop", all=True)
        assert await command.ask("secret-changed", secrets=["vault:x"]) == {"restarted": []}
        assert len(one.journal("stopped").runs()) == 1


@bounded(LIMIT)
async def test_what_gave_up_without_a_secret_is_started_with_it(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": granted(TOKEN="vault:github"), "other": granted(TOKEN="vault:x")}) as one:
        command = one.command()
        error = await command.fail("start", names=["s"])
        assert error["code"] == "secret"
        assert error["message"] == "server 's' was not given TOKEN from vault:github: the vault has no secret 'github'"
        assert error["remedy"] == "Store it: smcp secret set github"
        assert one.instance("s").state == "FATAL"
        vault(one).put("github", VALUE)
        answer = await command.ask("secret-changed", secrets=["vault:github"], only_failed=True)
        assert answer == {"restarted": ["s"]}
        guest = await one.greeted("s")
        assert await variable(guest, "TOKEN") == VALUE
        # It is new to nobody any more.
        answer = await command.ask("secret-changed", secrets=["vault:github"], only_failed=True)
        assert answer == {"restarted": []}


@bounded(LIMIT)
async def test_a_new_value_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": granted(T="vault:x"), "t": granted(T="vault:x")}) as one:
        vault(one).put("x", VALUE)
        command = one.command()
        await command.ask("start", names=["s", "t"])
        vault(one).remove("x")
        error = await command.fail("secret-changed", secrets=["vault:x"])
        assert error["code"] == "secret"
        assert "s: server 's' was not given T" in error["message"]
        assert "t: server 't' was not given T" in error["message"]


@bounded(LIMIT)
async def test_a_locked_vault_is_opened_for_the_daemon(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": granted(T="vault:x"), "env": granted(T="env:NONE")}) as one:
        first = vault(one)
        first.put("x", VALUE, key=NewKey("passphrase", "correct horse"))
        first.put("nobody", "s3cret-of-nobody")
        command = one.command()
        error = await command.fail("start", names=["s"])
        assert "locked by a passphrase" in error["message"]
        assert "smcp secret unlock" in error["remedy"]
        await command.fail("start", names=["env"])
        error = await command.fail("secret-unlock", passphrase="wrong horse")
        assert "does not open it" in error["message"]
        assert one.instance("s").state == "FATAL"
        assert await command.ask("secret-unlock", passphrase="correct horse") == {"restarted": ["s"]}
        guest = await one.greeted("s")
        assert await variable(guest, "T") == VALUE
        assert masker.mask("s3cret-of-nobody") == "***"


@bounded(LIMIT)
async def test_what_is_stored_is_masked_before_anybody_is_given_it(tmp_path: Path) -> None:
    async with estate(tmp_path, {}) as one:
        vault(one).put("x", VALUE)
        await one.command().ask("secret-changed", secrets=["vault:x"], only_failed=True)
        assert masker.mask(f"it is {VALUE}.") == "it is ***."


@bounded(LIMIT)
async def test_check_reads_without_starting(tmp_path: Path) -> None:
    async with estate(tmp_path, {"b": granted(B="vault:x", A="env:HOME"), "a": granted(A="vault:none")}) as one:
        vault(one).put("x", VALUE)
        command = one.command()
        found = (await command.ask("secret-check"))["grants"]
        assert [(grant["server"], grant["variable"], bool(grant["problem"])) for grant in found] == [
            ("a", "A", True),
            ("b", "A", False),
            ("b", "B", False),
        ]
        assert found[0]["problem"].startswith("server 'a' was not given A from vault:none")
        assert "smcp secret set none" in found[0]["remedy"]
        found = (await command.ask("secret-check", names=["b"]))["grants"]
        assert {grant["server"] for grant in found} == {"b"}
        assert (await command.fail("secret-check", names=["c"]))["code"] == "unknown-server"
        assert one.supervisor.instances == ()


@bounded(LIMIT)
async def test_what_is_granted_is_told_and_tells_instances_apart(tmp_path: Path) -> None:
    async with estate(tmp_path, {"s": granted(T="vault:x")}) as one:
        vault(one).put("x", VALUE)
        vault(one).put("y", NEW)
        guest = await one.greeted("s")
        assert await variable(guest, "T") == VALUE
        (status,) = (await one.command().ask("status"))["servers"]
        assert status["credentials"] == ["T from vault:x"]
        assert VALUE not in str(status)
        key = one.instance("s").key
        one.reconfigure({"s": granted(T="vault:y")})
        assert await variable(guest, "T") == NEW
        assert one.instance("s").key != key
