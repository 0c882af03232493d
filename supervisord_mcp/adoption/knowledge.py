"""What well-known servers need: a start for their entries, where nothing else can be known of them.

Each row is what the documentation of the server says that it does. A server that is not here gets the public network
and the files that its command names, which its preview says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Known:
    """The profile of a server, the only hosts that it needs (none: those of the profile), and what to be told of it.

    ``access`` is what it does with files and directories that its command names; ``shown`` are further paths.
    ``ruled`` are words that its command needs where the network has rules, ``env`` variables that it needs unless its
    entry has them. What it remembers is in the file that the variable ``kept`` [0] names; without it, in a file of
    this name (``kept`` [1]) that is its own.
    """

    profile: str
    hosts: tuple[str, ...] = ()
    access: Literal["ro", "rw"] = "rw"
    shown: tuple[tuple[str, Literal["ro", "rw"]], ...] = ()
    remark: str = ""
    ruled: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, str] | None = None


_REFERENCE = "@modelcontextprotocol/server-"

#: By the name of its package, in npm or in the index of Python.
PACKAGES: Mapping[str, Known] = {
    f"{_REFERENCE}everything": Known("node"),
    f"{_REFERENCE}sequential-thinking": Known("node"),
    f"{_REFERENCE}filesystem": Known("node"),
    # Without it, it writes beside its own program; a relative path is one from there.
    f"{_REFERENCE}memory": Known("node", kept=("MEMORY_FILE_PATH", "server-memory/memory.jsonl")),
    f"{_REFERENCE}github": Known("node-net", ("api.github.com:443",)),
    f"{_REFERENCE}slack": Known("node-net", ("slack.com:443",)),
    f"{_REFERENCE}brave-search": Known("node-net", ("api.search.brave.com:443",)),
    f"{_REFERENCE}google-maps": Known("node-net", ("maps.googleapis.com:443",)),
    f"{_REFERENCE}puppeteer": Known("browser"),
    "@playwright/mcp": Known("browser"),
    "chrome-devtools-mcp": Known("browser"),
    "@notionhq/notion-mcp-server": Known("node-net", ("api.notion.com:443",)),
    "mcp-remote": Known("node-net", shown=(("~/.mcp-auth", "rw"),)),
    "mcp-server-time": Known("python"),
    # Names lead to stand-ins from 198.18.0.0/15, and the daemon refuses private addresses itself. With Node it would
    # install a package of npm at its first page, which no rule lets it do.
    "mcp-server-fetch": Known("fetch", ruled=("--allow-private-ips",), env={"PATH": "/none"}),
    "mcp-server-git": Known("git"),
    "mcp-server-sqlite": Known("python"),
}

#: By the program that runs a server of which nothing else is known.
PROGRAMS: Mapping[str, str] = {
    **dict.fromkeys(("node", "nodejs", "bun", "deno", "tsx", "npx", "npm", "pnpm", "yarn", "bunx", "pnpx"), "node-net"),
    **dict.fromkeys(("python", "python3", "uv", "uvx", "pipx", "poetry"), "python-net"),
}

#: Programs that find what they run in the directory where they are started, without a path to it.
RUNNERS = frozenset(
    {
        "uv",
        "poetry",
        "pdm",
        "hatch",
        "rye",
        "pipenv",
        "npm",
        "pnpm",
        "yarn",
        "bun",
        "deno",
        "tsx",
        "php",
        "bundle",
        "rake",
    }
    | {"cargo", "go", "make", "just", "task", "mvn", "gradle", "dotnet", "mix", "sh", "bash", "zsh", "env", "direnv"}
)

#: Ports of the schemes of addresses that name none.
PORTS: Mapping[str, int] = {
    "http": 80,
    "https": 443,
    "ws": 80,
    "wss": 443,
    "postgres": 5432,
    "postgresql": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "redis": 6379,
    "mongodb": 27017,
    "amqp": 5672,
}
