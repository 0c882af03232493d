"""Libraries that servers use, as they come: what they reach by rules, with a notion of proxies or without.

`test_furnishing` has the programs (curl, git, sockets of Python) and what is refused in which way.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.base import LaunchSpec, Mount
from tests.kit.bounded import bounded
from tests.kit.nodes import NEWER, SYSTEM, node
from tests.runtimes.conformance import PYTHON_ROOTS
from tests.runtimes.egress.world import World, authority, egress, page, run, script, serving

pytestmark = [pytest.mark.bwrap, pytest.mark.slow, pytest.mark.usefixtures("subreaper")]

_RULES = ("ok.test:80", "ok.test:443")
_URLS = ("http://ok.test/", "https://ok.test/", "http://no.test/", "https://no.test/")
_LIBRARIES = {
    "requests": "import requests\ndef get(url): return requests.get(url, verify=CA, timeout=10)",
    "httpx": "import httpx, ssl\ndef get(url): return httpx.get(url, verify=ssl.create_default_context(cafile=CA))",
    "urllib3": "import urllib3\npool = urllib3.PoolManager(ca_certs=CA, retries=False)\n"
    "def get(url): return pool.request('GET', url, timeout=10)",
    "aiohttp": """
import aiohttp, asyncio, ssl
def get(url):
    async def run():
        context = ssl.create_default_context(cafile=CA)
        async with aiohttp.ClientSession() as session:
            async with session.get(url, ssl=context) as answer:
                await answer.read()
                answer.status_code = answer.status
                return answer
    return asyncio.run(run())
""",
}
_RUN = """
import sys
CA = sys.argv[1]
{library}
for url in sys.argv[2:]:
    try:
        answer = get(url)
        print(url, getattr(answer, "status_code", None) or answer.status)
    except Exception as error:
        print(url, type(error).__name__)
"""
_FETCH = """
for (const url of process.argv.slice(1))
  await fetch(url).then(r => console.log(url, r.status), e => console.log(url, e.cause?.code ?? e.message));
"""


@pytest.fixture(scope="module", params=[SYSTEM, NEWER])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return each Node."""
    return node(request.param, tmp_path_factory.mktemp("node"))


def _outcomes(output: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in output.splitlines())


@pytest.mark.parametrize("library", _LIBRARIES)
@bounded(90)
async def test_libraries_of_python(library: str, tmp_path: Path) -> None:
    context = authority(tmp_path, "ok.test")
    text = _RUN.format(library=_LIBRARIES[library])
    argv = (sys.executable, "-c", text, str(tmp_path / "ca.pem"), *_URLS)
    async with serving(page) as plain, serving(page, context) as secure:
        world = World(ports={80: plain, 443: secure})
        spec = LaunchSpec("test", argv, env=(("PATH", "/usr/bin:/bin"),), read_only=(*PYTHON_ROOTS, str(tmp_path)))
        done = await run(world, egress(*_RULES), spec)
    outcomes = _outcomes(done.output)
    assert outcomes.keys() == set(_URLS), done.errors
    assert [outcomes[url] for url in _URLS[:2]] == ["200", "200"]
    # With a notion of proxies it is told why (403), else there is no such name.
    assert all(outcome == "403" or "Error" in outcome for outcome in (outcomes[url] for url in _URLS[2:]))
    assert set(world.resolved) == {"ok.test"}


@pytest.mark.npm
@bounded(90)
async def test_fetch_of_node(program: Path, tmp_path: Path) -> None:
    context = authority(tmp_path, "ok.test")
    argv = (str(program), "--input-type=module", "-e", _FETCH, *_URLS)
    env = (("PATH", "/usr/bin:/bin"), ("NODE_EXTRA_CA_CERTS", str(tmp_path / "ca.pem")))
    mounts = () if str(program).startswith("/usr/") else (Mount(str(program.parent)),)
    async with serving(page) as plain, serving(page, context) as secure:
        world = World(ports={80: plain, 443: secure})
        spec = LaunchSpec("test", argv, env=env, read_only=(str(tmp_path),), mounts=mounts)
        done = await run(world, egress(*_RULES), spec)
    outcomes = _outcomes(done.output)
    assert [outcomes[url] for url in _URLS[:2]] == ["200", "200"], done.errors
    assert not {outcomes[url] for url in _URLS[2:]} & {"200"}
    assert set(world.resolved) == {"ok.test"}


@bounded(60)
async def test_git_over_https_asks_the_server_that_was_allowed(tmp_path: Path) -> None:
    context = authority(tmp_path, "ok.test")
    async with serving(page, context) as secure:
        world = World(ports={443: secure})
        text = "for host in ok.test no.test; do git -c http.sslVerify=false ls-remote https://$host/x.git; done"
        said = await script(world, egress("ok.test:443"), text)
    # The page is no repository, but it was asked for; the other host was not.
    assert world.resolved
    assert set(world.resolved) == {"ok.test"}
    assert "no.test" in said
    assert ("ok.test", 443, "passed") in [(seen.host, seen.port, seen.outcome) for seen in world.contacts]
