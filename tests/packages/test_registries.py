"""What sets of registries mean: by settings, by what programs say of themselves, and by the pages of indexes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from supervisord_mcp.egress.proxies import Proxy
from supervisord_mcp.egress.registries import NPM, PYPI, Registries
from supervisord_mcp.egress.rules import Kind, Rule
from supervisord_mcp.errors import LaunchError
from supervisord_mcp.packages.registries import RegistryRules
from supervisord_mcp.packages.settings import Settings
from tests.kit.bounded import bounded
from tests.packages.estate import find, sandboxed, without_uv
from tests.packages.registry import Place, place

pytestmark = [pytest.mark.usefixtures("subreaper"), pytest.mark.bwrap]


SETTINGS = Settings({}, (), (), Registries())


def _named(host: str, port: int = 443) -> Rule:
    return Rule(Kind.NAME, host, port, private=True, trusted=True)


async def _of(home: Path, name: str, environ: Mapping[str, str]) -> tuple[Rule, ...]:
    async with sandboxed(home, environ) as around:
        return await RegistryRules().of_set(name, around)


@bounded(60)
async def test_settings_name_them(tmp_path: Path) -> None:
    (tmp_path / ".npmrc").write_text("registry=https://npm.test/x\n@a:registry=http://a.test:81\n")
    assert await _of(tmp_path, NPM, {}) == (_named("npm.test"), _named("a.test", 81))
    environ = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "PIP_INDEX_URL": "http://127.0.0.1:8/simple"}
    assert set(await _of(tmp_path, PYPI, environ)) == {
        Rule(Kind.LOOPBACK, "host-loopback", 9),
        Rule(Kind.LOOPBACK, "host-loopback", 8),
    }


@pytest.mark.npm
@bounded(120)
async def test_where_nothing_is_configured_programs_are_asked_once(tmp_path: Path) -> None:
    registries = RegistryRules()
    async with sandboxed(tmp_path, {}) as around:
        npm = await registries.of_set(NPM, around)
        again = await registries.of_set(NPM, replace(around, path="/nowhere"))
        pip = await registries._default("pip", (find("python3") or "", "-m", "pip"), SETTINGS, around)
        alone = replace(around, find=without_uv)
        program = (find("python3") or "", "-m", "pip")
        same = await RegistryRules()._default("pip", program, SETTINGS, alone)
    assert npm == again
    (rule,) = npm
    assert (rule.kind, rule.port, rule.trusted) == (Kind.NAME, 443, True)
    assert pip == same, "pip and uv have the same index built in"


@bounded(60)
async def test_a_machine_without_the_programs(tmp_path: Path) -> None:
    async with sandboxed(tmp_path, {}) as around:
        for name, said in ((NPM, "npm"), (PYPI, "uv nor pip")):
            with pytest.raises(LaunchError, match=f"neither {said}" if name == PYPI else "npm is installed") as caught:
                await RegistryRules().of_set(name, replace(around, find=lambda _: None))
            assert caught.value.remedy


@bounded(60)
async def test_settings_that_mean_nothing_say_so(tmp_path: Path) -> None:
    for environ in ({"npm_config_registry": "ssh://me:s3cret@x"}, {"npm_config_proxy": "socks5://me:s3cret@x"}):
        with pytest.raises(LaunchError, match="the settings of npm") as caught:
            await _of(tmp_path, NPM, {"npm_config_registry": "https://a.test", **environ})
        assert "s3cret" not in str(caught.value)
        assert not caught.value.retryable


async def _linked(home: Path, local: Place, environ: Mapping[str, str]) -> tuple[Rule, ...]:
    async with sandboxed(home, {"UV_DEFAULT_INDEX": f"{local.url}/simple", **environ}) as around:
        uv = find("uv") or ""
        return await RegistryRules().of_installer("uv", (uv,), ["Some_Thing"], around)


@bounded(60)
async def test_pages_say_where_files_are(tmp_path: Path) -> None:
    with place() as local:
        own = Rule(Kind.LOOPBACK, "host-loopback", local.port)
        assert await _linked(tmp_path, local, {}) == (own,)
        local.wheel("some-thing", files="https://files.test")
        # The index is on this machine, so it may say where else in its network something is.
        assert await _linked(tmp_path, local, {}) == (own, _named("files.test"))
        proxies = {"https_proxy": "http://p.test:1"}
        (_, through) = await _linked(tmp_path, local, proxies)
        assert (through.host, through.via) == ("files.test", Proxy("p.test", 1))


@bounded(60)
async def test_what_is_said_outside_opens_nothing_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def outside(rules: object) -> bool:
        return False

    monkeypatch.setattr("supervisord_mcp.packages.registries._is_inside", outside)
    with place() as local:
        local.wheel("some-thing", files="https://files.test")
        _, linked = await _linked(tmp_path, local, {})
        assert (linked.host, linked.private, linked.trusted) == ("files.test", False, False)
        local.wheel("some-thing", files="http://127.0.0.1:22")
        assert len(await _linked(tmp_path, local, {})) == 1
        local.wheel("some-thing", files="http://10.0.0.1")
        assert len(await _linked(tmp_path, local, {})) == 1
