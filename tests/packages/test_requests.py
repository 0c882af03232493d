"""Which commands ask for a package, and for which."""

from __future__ import annotations

import shlex

import pytest

from supervisord_mcp.packages.requests import Request, npm_name, recognise


def _npm(*requirements: str, command: str | None = None, args: tuple[str, ...] = (), pinned: bool = False) -> Request:
    return Request("npm", requirements, command, args, pinned)


def _python(
    *requirements: str,
    command: str,
    args: tuple[str, ...] = (),
    pinned: bool = False,
    python: str | None = None,
) -> Request:
    return Request("python", requirements, command, args, pinned, python)


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        ("npx -y @scope/server /data", _npm("@scope/server", args=("/data",))),
        ("/usr/bin/npx server", _npm("server")),
        ("npx --yes server@1.2.3 --port 1 -y", _npm("server@1.2.3", args=("--port", "1", "-y"), pinned=True)),
        ("npx -y server@latest", _npm("server@latest")),
        ("npx -y server@^1.2.0", _npm("server@^1.2.0")),
        ("npx -y -- server -x", _npm("server", args=("-x",))),
        ("npx -p @a/b@1.0.0 --package=c tool x", _npm("@a/b@1.0.0", "c", command="tool", args=("x",))),
        ("npm exec -y -- server -- x", _npm("server", args=("--", "x"))),
        ("npm x server", _npm("server")),
        ("npm exec --package=@a/b -- tool", _npm("@a/b", command="tool")),
        ("uvx mcp-server-time --x", _python("mcp-server-time", command="mcp-server-time", args=("--x",))),
        ("uvx server@1.2", _python("server==1.2", command="server", pinned=True)),
        ("uvx server@latest", _python("server", command="server")),
        ("uvx server==1.2", _python("server==1.2", command="server", pinned=True)),
        ("uvx server[x,y]", _python("server[x,y]", command="server")),
        ("uvx --from package tool a", _python("package", command="tool", args=("a",))),
        ("uvx --from 'package[cli]>=1,<2' tool", _python("package[cli]>=1,<2", command="tool")),
        ("uvx --from=package==2 -q tool", _python("package==2", command="tool", pinned=True)),
        (
            "uvx --python 3.12 --with extra server",
            _python("server", "extra", command="server", python="3.12"),
        ),
        ("uv tool run server", _python("server", command="server")),
        ("pipx run server a", _python("server", command="server", args=("a",))),
        ("pipx run --spec package==1.0 tool", _python("package==1.0", command="tool", pinned=True)),
    ],
)
def test_recognised(line: str, request_: Request) -> None:
    assert recognise(shlex.split(line)) == request_


@pytest.mark.parametrize(
    "line",
    [
        "npx",
        "npx -y",
        "npx -y --",
        "npx --registry=https://example.test server",
        "npx -c 'server x'",
        "npx -y ./server",
        "npx -y ../server",
        "npx -y github:owner/repo",
        "npx -y owner/repo",
        "npx -y https://example.test/server.tgz",
        "npx -y file:server",
        "npx -y server@file:../x",
        "npx -y 'server@npm:other@1'",
        "npm install server",
        "npm run start",
        "uvx",
        "uvx --from git+https://example.test/x tool",
        "uvx --from ./x tool",
        "uvx --index-url https://example.test server",
        "uvx ./server",
        "uvx --from 'x @ https://example.test/x.whl' tool",
        "uvx --refresh server",
        "uv run server.py",
        "pipx install server",
        "pipx run https://example.test/x.py",
        "python -m server",
        "bunx server",
    ],
)
def test_run_as_written(line: str) -> None:
    assert recognise(shlex.split(line)) is None


def test_names() -> None:
    assert [npm_name(text) for text in ("@a/b@1.0.0", "@a/b", "c@latest", "c")] == ["@a/b", "@a/b", "c", "c"]
    request = recognise(["npx", "-p", "a", "-p", "b", "tool"])
    assert request is not None
    assert request.shown == "a, b"
