"""Who is measured: the peers with their versions, and how each is started, the way its own documentation says.

A *gateway* is a process that is started once and stands between the clients and the server; some have none, and a
client starts their command instead of that of the server. What a row is about is its name, its gateway and its wire.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from contrib.bench.field import engine, nothing
from contrib.bench.place import ROOT, TINY
from contrib.matrix.peers import Kit

#: Where a gateway listens, in a network that nobody else is in.
PORT = 8700
#: What the server is called where a peer wants a name for it.
NAME = "it"
#: Copies of it that nobody has used before.
_FRESH = ("fresh-1", "fresh-2", "fresh-3")

_NODE = "node@24.21.0"
EVERYTHING = Kit("everything", "javascript", ("@modelcontextprotocol/server-everything@2026.8.31",), "everything")


@dataclass(frozen=True, slots=True)
class Server:
    """A server behind the peers: its tool that answers with what it is given, and the argument of that."""

    name: str
    tool: str
    argument: str
    large: bool  # has a tool that answers with as much as it is asked for

    def command(self, place: Path) -> list[str]:
        """Return how it is started; no part of it is found by searching."""
        if self is TINY_SERVER:
            return TINY
        package = EVERYTHING.folder(place) / "node_modules" / "@modelcontextprotocol" / "server-everything"
        return [os.path.realpath(shutil.which("node") or "/usr/bin/node"), str(package / "dist" / "index.js")]


TINY_SERVER = Server("tiny", "echo", "text", large=True)
SERVERS = {server.name: server for server in (TINY_SERVER, Server("everything", "echo", "message", large=False))}


@dataclass(frozen=True, slots=True)
class Site:
    """What a peer is started with: a home of its own, where it is installed, and the server that it is to offer.

    ``engine`` is the URL of a container engine, for a peer that is `Peer.contained`.
    """

    home: Path
    place: Path
    kit: Kit | None
    server: list[str]
    engine: str = ""

    def program(self, name: str) -> list[str]:
        """Return how an installed program is run: with the interpreter that was installed with it, if one was."""
        assert self.kit is not None
        folder = self.kit.folder(self.place)
        if self.kit.language == "python":
            return [str(folder / "venv" / "bin" / name)]
        own = folder / "node_modules" / "node" / "bin" / "node"
        node = str(own) if _NODE in self.kit.packages else os.path.realpath(shutil.which("node") or "node")
        return [node, os.path.realpath(folder / "node_modules" / ".bin" / name)]

    def write(self, name: str, content: object) -> str:
        """Write a file of JSON into the home; return its path."""
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
        return str(path)

    @property
    def line(self) -> str:
        """The command of the server as a shell reads it."""
        return shlex.join(self.server)

    @property
    def entry(self) -> dict[str, object]:
        """The server as hosts have it in their files."""
        return {"command": self.server[0], "args": self.server[1:]}


Command = Callable[[Site], list[str]]


@dataclass(frozen=True, slots=True)
class Peer:
    """One row. ``tool`` is how the peer calls a tool of the server, ``{}`` being its own name.

    ``wire`` gives the words for `caller`, ``fresh`` those that lead to a copy of the server that was never started,
    where clients share one, and ``prepare`` a command that has to run before. ``sandboxed`` says whether the server
    runs in a sandbox, ``contained`` that this is a container, and that there has to be an engine. ``only_tiny`` is for
    another way into what the row before it measures: it is shown with one server only. ``documented`` is the line of
    the peer's own documentation that the command is made after, and where that stands.
    """

    name: str
    shown: str
    wire: Command
    kit: Kit | None = None
    gateway: Command | None = None
    prepare: Command | None = None
    fresh: tuple[Command, ...] = ()
    tool: str = "{}"
    sandboxed: bool = False
    contained: bool = False
    only_tiny: bool = False
    documented: str = ""

    @property
    def version(self) -> str:
        """What is installed of it, for the table."""
        return "" if self.kit is None else self.kit.packages[0]


def _python(name: str, *packages: str) -> Kit:
    return Kit(f"{name}-py", "python", packages, name)


def _npm(name: str, *packages: str) -> Kit:
    return Kit(f"{name}-js", "javascript", packages, name)


def _said(line: str, kit: Kit) -> str:
    """Return a line of the README that comes with what is installed, so of that very version."""
    name, _, version = kit.packages[0].replace("==", "@").rpartition("@")
    return f"{line} (README of {name} {version})"


def _at(path: str, kind: str = "http") -> Command:
    return lambda site: [kind, f"http://127.0.0.1:{PORT}{path}"]


def _smcp(name: str, shown: str, runtime: str, kind: str = "pipes") -> Peer:
    # Another runtime is another row: ``runtime`` is what the entry of the server says.

    def to(name: str) -> Command:
        return lambda site: [kind, sys.executable, "-I", "-S", str(ROOT / "supervisord_mcp" / "shim.py"), name]

    def configured(site: Site) -> list[str]:
        # What is measured is one crash, not the end of the budget of a server that keeps failing.
        lines = []
        for entry in (NAME, *_FRESH):
            lines += [
                f"[servers.{entry}]",
                f"command = {json.dumps(site.server)}",
                f'runtime = "{runtime}"',
                "budget = { restarts = 1000, within = 60 }",
            ]
            if runtime != "bare":
                folder = Path(site.server[-1]).parent
                root = next((path for path in folder.parents if path.name == "node_modules"), folder)
                contained = runtime == "container"
                mounts = [str(root), *(engine.shown(site.server) if contained else ())]
                lines.append(f"mounts = [{', '.join(f'{{ path = {json.dumps(mount)} }}' for mount in mounts)}]")
                if contained:
                    lines.append(f'engine = {json.dumps(site.engine)}\nimage = "{engine.IMAGE}"\npull = "never"')
        path = site.home / "smcp" / "config" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")
        return ["env", f"PYTHONPATH={ROOT}", sys.executable, "-m", "supervisord_mcp", "run"]

    return Peer(
        name,
        shown,
        wire=to(NAME),
        gateway=configured,
        fresh=tuple(map(to, _FRESH)),
        sandboxed=runtime != "bare",
        contained=runtime == "container",
        only_tiny=kind != "pipes",
    )


def _registered(site: Site) -> list[str]:
    arguments = " ".join(site.server[1:])
    return [*site.program("mcpm"), "new", NAME, "--type", "stdio", "--command", site.server[0], "--args", arguments]


def _kept(site: Site) -> dict[str, object]:
    return {"mcpServers": {NAME: {**site.entry, "lifecycle": "keep-alive"}}, "imports": []}


_PROXY_PY = _python("mcp-proxy", "mcp-proxy==0.13.0")
_PROXY_JS = _npm("mcp-proxy", "mcp-proxy@6.7.19")
_MCPO = _python("mcpo", "mcpo==0.0.20", "mcp==1.30.0", "fastapi==0.115.14")  # mcp<2, fastapi<0.116
_PORTER = _npm("mcporter", "mcporter@0.12.3", _NODE)
_HUB = _npm("mcp-hub", "mcp-hub@4.2.1")
_SRT = _npm("srt", "@anthropic-ai/sandbox-runtime@0.0.83", _NODE)
_SUPERGATEWAY = _npm("supergateway", "supergateway@4.0.0")
_MCPM = _python("mcpm", "mcpm==2.15.0")
_MCPM_NEW = 'mcpm new [MY_SERVER_NAME] --type stdio --command "[COMMAND]" --args "[ARG_1] [ARG_2] ..."'

PEERS: tuple[Peer, ...] = (
    Peer("direct", "direct, over pipes", wire=lambda site: ["pipes", *site.server]),
    Peer(
        "nothing",
        "HTTP with nothing behind it",
        gateway=lambda site: [os.path.realpath(sys.executable), "-I", "-S", nothing.__file__, str(PORT)],
        wire=_at("/mcp"),
        only_tiny=True,
    ),
    _smcp("smcp", "smcp", "bare"),
    _smcp("smcp-pump", "smcp, a terminal as host", "bare", "terminal"),
    _smcp("smcp-sandboxed", "smcp, sandboxed", "bwrap"),
    _smcp("smcp-container", "smcp, in a container", "container"),
    Peer(
        "mcp-proxy-py",
        "mcp-proxy (Python)",
        kit=_PROXY_PY,
        documented=_said("mcp-proxy --port=8080 -- uvx mcp-server-fetch --user-agent=YourUserAgent", _PROXY_PY),
        gateway=lambda site: [*site.program("mcp-proxy"), f"--port={PORT}", "--", *site.server],
        wire=_at("/mcp"),
    ),
    Peer(
        "supergateway",
        "supergateway, stateful HTTP",
        kit=_SUPERGATEWAY,
        documented=_said("--stdio COMMAND --outputTransport streamableHttp --stateful --port 8000", _SUPERGATEWAY),
        gateway=lambda site: [
            *site.program("supergateway"),
            *("--stdio", site.line, "--outputTransport", "streamableHttp", "--stateful", "--port", str(PORT)),
        ],
        wire=_at("/mcp"),
    ),
    Peer(
        "supergateway-sse",
        "supergateway, SSE",
        kit=_SUPERGATEWAY,
        documented=_said('npx -y supergateway --stdio "uvx mcp-server-git" (--port 8000)', _SUPERGATEWAY),
        gateway=lambda site: [*site.program("supergateway"), "--stdio", site.line, "--port", str(PORT)],
        wire=_at("/sse", "sse"),
        only_tiny=True,
    ),
    Peer(
        "mcp-proxy-js",
        "mcp-proxy (npm)",
        kit=_PROXY_JS,
        documented=_said("npx mcp-proxy --port 8080 … -- tsx server.js", _PROXY_JS),
        gateway=lambda site: [*site.program("mcp-proxy"), "--port", str(PORT), "--", *site.server],
        wire=_at("/mcp"),
    ),
    Peer(
        "fastmcp",
        "fastmcp run, HTTP",
        kit=_python("fastmcp", "fastmcp==4.2.3"),
        documented="fastmcp run mcp.json --transport http --port 8000 (https://gofastmcp.com/cli/running)",
        gateway=lambda site: [
            *site.program("fastmcp"),
            *("run", site.write("mcp.json", {"mcpServers": {NAME: site.entry}})),
            *("--transport", "http", "--port", str(PORT)),
        ],
        wire=_at("/mcp"),
    ),
    Peer(
        "mcpm",
        "mcpm run --http",
        kit=_MCPM,
        documented=_said(f"{_MCPM_NEW}; mcpm run [MY_SERVER_NAME] --http", _MCPM),
        prepare=_registered,
        gateway=lambda site: [*site.program("mcpm"), "run", "--http", "--port", str(PORT), NAME],
        wire=_at("/mcp"),
    ),
    Peer(
        "mcpm-stdio",
        "mcpm run",
        kit=_MCPM,
        documented=_said(f"{_MCPM_NEW}; mcpm run SERVER_NAME", _MCPM),
        prepare=_registered,
        wire=lambda site: ["pipes", *site.program("mcpm"), "run", NAME],
        only_tiny=True,
    ),
    Peer(
        "mcpo",
        "mcpo (REST, not MCP)",
        kit=_MCPO,
        documented=_said("uv run mcpo --port 8000 -- your_mcp_server_command", _MCPO),
        gateway=lambda site: [*site.program("mcpo"), "--port", str(PORT), "--", *site.server],
        wire=_at("", "plain"),
    ),
    Peer(
        "mcp-hub",
        "mcp-hub",
        kit=_HUB,
        documented=_said("mcp-hub --port 3000 --config path/to/config.json", _HUB),
        gateway=lambda site: [
            *site.program("mcp-hub"),
            *("--port", str(PORT), "--config", site.write("hub.json", {"mcpServers": {NAME: site.entry}})),
        ],
        wire=_at("/mcp", "sse"),
        tool=f"{NAME}__{{}}",
    ),
    Peer(
        "mcporter",
        "mcporter serve --http",
        kit=_PORTER,
        documented=_said("Bridge mode: mcporter serve exposes keep-alive servers (--help: --http <port>)", _PORTER),
        gateway=lambda site: [
            *site.program("mcporter"),
            *("--config", site.write("mcporter.json", _kept(site)), "serve", "--http", str(PORT)),
        ],
        wire=_at("/mcp"),
        tool=f"{NAME}__{{}}",
    ),
    Peer(
        "srt",
        "sandbox-runtime (srt), sandboxed",
        kit=_SRT,
        documented=_said('"command": "srt", "args": ["npx", "-y", "@modelcontextprotocol/server-filesystem"]', _SRT),
        wire=lambda site: ["pipes", *site.program("srt"), *site.server],
        sandboxed=True,
    ),
)
BY_NAME = {peer.name: peer for peer in PEERS}
