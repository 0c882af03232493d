"""The peers: which SDKs, where they are installed, how their hosts and servers are started, which words these know."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).with_name("scripts")
#: Seconds for the installation of one kit.
INSTALL = 600.0

#: Checks that any connection can make, and those for which the server asks the host.
BASIC = ("tools", "resources", "prompts", "completion", "progress", "cancel", "logging", "subscriptions")
ASKING = ("elicitation", "sampling", "roots")
#: What is done with eight hosts at the same time.
MANY = "eight hosts"
CHECKS = (*BASIC, *ASKING, MANY)


@dataclass(frozen=True, slots=True)
class Kit:
    """One SDK, installed into a folder of its own: ``packages`` by the installer of its language."""

    name: str
    language: str
    packages: tuple[str, ...]
    shown: str

    def folder(self, place: Path) -> Path:
        """Return where it is installed."""
        return place / self.name

    def program(self, place: Path) -> str:
        """Return the interpreter that runs its scripts."""
        return str(self.folder(place) / "venv" / "bin" / "python") if self.language == "python" else "node"

    def script(self, place: Path, role: str) -> list[str]:
        """Return the command of its host or server."""
        ending = "py" if self.language == "python" else "mjs"
        return [self.program(place), str(self.folder(place) / f"{self.name}_{role}.{ending}")]

    def install(self, place: Path) -> None:
        """Install it with its scripts, as `provide` does."""
        self.provide(place)
        for script in (*SCRIPTS.glob(f"{self.name}_*"), *SCRIPTS.glob("checks.*")):
            shutil.copy(script, self.folder(place))

    def provide(self, place: Path) -> None:
        """Install its packages, unless they are there already. Raise `CalledProcessError` with what was said."""
        folder = self.folder(place)
        folder.mkdir(parents=True, exist_ok=True)
        done = folder / "installed"
        if not done.exists() or done.read_text().split() != list(self.packages):
            if self.language == "python":
                _run(sys.executable, "-m", "venv", str(folder / "venv"))
                _run(self.program(place), "-m", "pip", "install", "--quiet", *self.packages)
            else:
                # A manifest of its own keeps the installer from going up to that of a folder above.
                (folder / "package.json").write_text('{"private": true}\n')
                _run("npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", *self.packages)
            done.write_text("\n".join(self.packages))


PY1 = Kit("py1", "python", ("mcp==1.26.0",), "Python `mcp` 1.26")
PY2 = Kit("py2", "python", ("mcp==2.3.0",), "Python `mcp` 2.3")
TS1 = Kit(
    "ts1",
    "javascript",
    ("@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/server-everything@2026.8.31"),
    "TypeScript `sdk` 1.32",
)
TS2 = Kit(
    "ts2",
    "javascript",
    ("@modelcontextprotocol/client@2.4.0", "@modelcontextprotocol/server@2.4.0", "zod@4"),
    "TypeScript `client`, `server` 2.4",
)
KITS = (PY1, PY2, TS1, TS2)

OURS: dict[str, Any] = {
    "echo": {"tool": "echo", "argument": "text"},
    "resource": {"uri": "memo://one", "text": "the memo"},
    "prompt": {"name": "greet", "arguments": {"name": "anna"}, "text": "Greet anna"},
    "complete": {"prompt": "greet", "argument": "name", "value": "an", "text": "anna"},
    "progress": {"tool": "steps", "arguments": {"count": 4}},
    "nap": {"tool": "nap", "arguments": {}, "count": "cancelled"},
    "log": {"tool": "speak"},
    "subscribe": {"uri": "memo://one", "tool": "touch"},
    "elicit": {"tool": "ask", "content": {"colour": ""}},
    "sample": {"tool": "sample", "text": "sampled by the host"},
    "roots": {"tool": "roots", "text": "/matrix/root"},
}
_TEXT = "demo://resource/dynamic/text/1"
EVERYTHING: dict[str, Any] = {
    "echo": {"tool": "echo", "argument": "message"},
    "resource": {"uri": _TEXT, "text": "Resource 1"},
    "prompt": {
        "name": "completable-prompt",
        "arguments": {"department": "Sales", "name": "Eve"},
        "text": "promote Eve",
    },
    "complete": {"prompt": "completable-prompt", "argument": "department", "value": "Eng", "text": "Engineering"},
    "progress": {"tool": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}},
    "nap": {"tool": "trigger-long-running-operation", "arguments": {"duration": 30, "steps": 2}},
    "log": {"tool": "toggle-simulated-logging"},
    "subscribe": {"uri": _TEXT, "tool": "toggle-subscriber-updates"},
    "elicit": {"tool": "trigger-elicitation-request", "content": {"name": ""}},
    "sample": {
        "tool": "trigger-sampling-request",
        "arguments": {"prompt": "say it", "maxTokens": 10},
        "text": "sampled by the host",
    },
    "roots": {"tool": "get-roots-list", "text": "/matrix/root"},
}


@dataclass(frozen=True, slots=True)
class Host:
    """A host of one SDK that opens in one era; ``auto`` means that it prefers 2026-07-28."""

    kit: Kit
    era: str

    @property
    def name(self) -> str:
        """How it is called on the command line."""
        return self.kit.name if self.kit in (PY1, TS1) else f"{self.kit.name}-{self.era}"

    @property
    def shown(self) -> str:
        """How a person reads it."""
        eras = {"legacy": ", handshake", "modern": ", 2026-07-28"}
        return self.kit.shown + ("" if self.kit in (PY1, TS1) else eras[self.era])


@dataclass(frozen=True, slots=True)
class Server:
    """A server and the words that it knows."""

    name: str
    kit: Kit
    shown: str
    words: dict[str, Any] = field(default_factory=lambda: OURS, hash=False, compare=False)

    def command(self, place: Path) -> list[str]:
        """Return how it is started."""
        if self.words is OURS:
            return self.kit.script(place, "server")
        package = self.kit.folder(place) / "node_modules" / "@modelcontextprotocol" / "server-everything"
        return ["node", str(package / "dist" / "index.js")]


HOSTS = (
    Host(PY1, "legacy"),
    Host(PY2, "legacy"),
    Host(PY2, "modern"),
    Host(TS1, "legacy"),
    Host(TS2, "legacy"),
    Host(TS2, "modern"),
)
SERVERS = (
    *(Server(kit.name, kit, kit.shown) for kit in KITS),
    Server("everything", TS1, "`server-everything`", EVERYTHING),
)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, timeout=INSTALL, stdin=subprocess.DEVNULL, capture_output=True, text=True)
