"""A real Prometheus fetches the metrics of a running daemon, and evaluates every expression of the dashboard."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from tests.kit.bounded import bounded
from tests.kit.daemon import ROOT, Daemon, bare, daemon
from tests.kit.required import need
from tests.test_exporter import free_port

DASHBOARD = ROOT / "contrib" / "grafana" / "smcp.json"
#: What stands for the variables of the dashboard.
VARIABLES = {"$__rate_interval": "10s", "$server": ".*"}
#: Expressions that have nothing to show here: no control groups tell, nothing went wrong, no rules of the network.
MAY_BE_EMPTY = ("network", "throttled", "oom_kills", "pressure", "breaches", 'outcome!="ok"')


def expressions() -> Iterator[str]:
    """Yield the expressions of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for name, value in VARIABLES.items():
                expression = expression.replace(name, value)
            yield expression


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


class Prometheus:
    """A Prometheus that looks every second."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, path: str, **query: str) -> Any:
        """Return what it answers to a request of its API."""
        answer = json.loads(fetch(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    async def values(self, expression: str) -> list[tuple[Mapping[str, str], float]]:
        """Return what an expression evaluates to now."""
        data = await asyncio.to_thread(self.ask, "query", query=expression)
        return [(row["metric"], float(row["value"][1])) for row in data["result"]]

    async def until(self, expression: str) -> float:
        """Return the one value of an expression, once it has one that is not 0."""
        while not (found := [value for _, value in await self.values(expression) if value]):
            await asyncio.sleep(0.1)
        return found[0]


def started(directory: Path, target: str, port: int) -> subprocess.Popen[bytes]:
    """Start a Prometheus that fetches from a target every second."""
    need(program := shutil.which("prometheus"), "a Prometheus (apt-get install prometheus)")
    directory.mkdir()
    settings = directory / "prometheus.yml"
    job = {"job_name": "smcp", "scrape_interval": "1s", "scrape_timeout": "1s"}
    settings.write_text(json.dumps({"scrape_configs": [{**job, "static_configs": [{"targets": [target]}]}]}))
    command = [str(program), f"--config.file={settings}", f"--storage.tsdb.path={directory / 'data'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"]
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def complaints(text: str) -> tuple[str, int]:
    """Return what promtool has to say of metrics, and its exit status."""
    ran = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr, ran.returncode


@asynccontextmanager
async def prometheus(directory: Path, target: str) -> AsyncIterator[Prometheus]:
    """Run a Prometheus until the end of the block."""
    port = free_port()
    process = started(directory, target, port)
    try:
        one = Prometheus(port)
        while True:
            try:
                await asyncio.to_thread(fetch, f"{one.url}/-/ready")
                break
            except OSError:
                assert process.poll() is None, f"see {directory}/log"
                await asyncio.sleep(0.05)
        yield one
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def exporting(port: int) -> AsyncIterator[Daemon]:
    """Run a daemon that offers its metrics there."""
    async with daemon(bare("s"), bare("idle"), start=False) as d:
        d.write_config(d.config.read_text() + tomli_w.dumps({"metrics": {"listen": f"127.0.0.1:{port}"}}))
        await d.start()
        yield d


@pytest.mark.slow
@bounded(90)
async def test_a_prometheus_scrapes_a_daemon(tmp_path: Path) -> None:
    port = free_port()
    async with exporting(port) as d, prometheus(tmp_path / "p", f"127.0.0.1:{port}") as one:
        host = await d.connected("s")
        for _ in range(5):
            await host.call("echo", value=1)
        await one.until('smcp_server_up{server="s"}')
        assert await one.until('smcp_calls_total{server="s",tool="echo",outcome="ok"}') == 5
        [(labels, _)] = await one.values('smcp_calls_total{server="s",tool="echo",outcome="ok"}')
        assert labels["method"] == "tools/call"
        assert await one.until('smcp_server_memory_bytes{server="s"}') > 1 << 20
        assert await one.until('smcp_server_state{server="idle",state="STOPPED"}') == 1
        assert await one.until('smcp_call_duration_seconds_count{server="s",tool="echo"}') == 5

        text = await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/metrics")
        assert complaints(text) == ("", 0)

        offered = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
        empty = []
        for expression in expressions():
            for name in re.findall(r"smcp_\w+", expression):
                assert {name, name.removesuffix("_bucket")} & offered, name
            for _ in range(2):
                await host.call("echo", value=1)
            while not (found := await one.values(expression)) and not any(word in expression for word in MAY_BE_EMPTY):
                await asyncio.sleep(0.2)
            empty += [expression] if not found else []
        assert all(any(word in expression for word in MAY_BE_EMPTY) for expression in empty)
        # What it is told is asked for over its own API, by metadata as well.
        metadata = await asyncio.to_thread(one.ask, "metadata", metric="smcp_server_memory_bytes")
        assert metadata["smcp_server_memory_bytes"][0]["type"] == "gauge"


@bounded(60)
async def test_a_daemon_that_cannot_offer_them_says_so_and_runs(tmp_path: Path) -> None:
    port = free_port()
    async with exporting(port) as d:
        async with daemon(bare("s"), start=False) as other:
            other.write_config(other.config.read_text() + tomli_w.dumps({"metrics": {"listen": f"127.0.0.1:{port}"}}))
            await other.start()
            status = await other.status()
            assert any("already in use" in problem for problem in status["daemon"]["problems"])
            assert (await (await other.connected("s")).call("echo", value=1)).text == "1"
        assert "smcp_build_info" in await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/metrics")
        d.write_config(d.config.read_text().replace(f"127.0.0.1:{port}", "off"))
        await d.control("reload")
        with pytest.raises(OSError, match="refused"):
            await asyncio.to_thread(fetch, f"http://127.0.0.1:{port}/metrics")
