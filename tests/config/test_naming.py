"""Names for commands as they stand in the files of hosts."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisord_mcp.config.fields import SERVER_NAME
from supervisord_mcp.config.naming import LONGEST_NAME, wrapped_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npx -y @modelcontextprotocol/server-github@1.2", "github"),
        ("npx -y @modelcontextprotocol/server-filesystem ~/a /b", "filesystem"),
        ("npx @playwright/mcp@latest --headless", "playwright"),
        ("npx -y mcp-server-foo", "foo"),
        ("npx -p @scope/foo-mcp foo-bin", "foo"),
        ("npx --package=@scope/bar bin", "bar"),
        ("npx -c 'foo-mcp --x'", "foo"),
        ("npx --registry http://x.example/ -y foo", "foo"),
        ("npx github:user/repo-mcp-server#main", "repo"),
        ("npm exec -- @scope/foo", "foo"),
        ("pnpm dlx foo-mcp@1.0.0", "foo"),
        ("yarn dlx foo", "foo"),
        ("bunx foo", "foo"),
        ("bun x foo", "foo"),
        ("uvx mcp-server-time", "time"),
        ("uvx mcp-server-time==2026.1.1 --local-timezone=UTC", "time"),
        ("uvx 'mcp-server-git[extra]>=1'", "git"),
        ("uvx --from git+https://forge.example/oraios/serena serena start-mcp-server", "serena"),
        ("uvx --python 3.12 --with httpx mcp_weather", "weather"),
        ("uv tool run foo-mcp", "foo"),
        ("uv run --directory /src/weather server.py", "weather"),
        ("uv --directory /src/weather run main.py", "weather"),
        ("uv run foo-server", "foo"),
        ("pipx run mcp-foo", "foo"),
        ("python -m mcp_server_git --repository .", "git"),
        ("/opt/x/.venv/bin/python3.11 -u -m my_tools.server", "my-tools"),
        ("python -W ignore /srv/foo/server.py", "foo"),
        ("python -c 'import x'", "python"),
        ("python", "python"),
        ("/usr/bin/foo.py", "foo"),
        ("/usr/bin/mcp-server-time", "time"),
        ("github-mcp-server stdio", "github"),
        ("./server.py", "server"),
        ("/srv/tools/server.py", "tools"),
        ("node /srv/notes/dist/index.js", "notes"),
        ("node --require dotenv/config build/main.js", "node"),
        ("tsx src/Weather.ts", "weather"),
        ("deno run -A npm:@scope/foo", "foo"),
        ("java -jar /x/foo-mcp.jar", "foo"),
        ("docker run -i --rm -e TOKEN mcp/github:latest", "github"),
        (
            "docker run --rm -it -eA=b -v /a:/b --network host ghcr.example/acme/acme-mcp-server@sha256:abc --flag",
            "acme",
        ),
        ("podman run -ie TOKEN --pull=always localhost:5000/foo", "foo"),
        ("docker --context x run -i foo", "foo"),
        ("docker ps", "docker"),
        ("docker run -i", "docker"),
        ("sh -c 'cd /x && exec npx -y foo'", "foo"),
        ("bash -lc 'uvx bar'", "bar"),
        ("bash -c", "bash"),
        ("bash /srv/run-foo.sh", "run-foo"),
        ("sh -i", "sh"),
        ("env -i A=b npx foo", "foo"),
        ("env", "server"),
        ("", "server"),
        ("mcp-server", "server"),
        ("'unclosed quote", "unclosed"),
        ("'/x/Föö Bar!.sh'", "f-bar"),
        ("C:\\\\tools\\\\foo.exe", "foo"),
        ("___", "server"),
    ],
)
def test_names(command: str, name: str) -> None:
    assert wrapped_name(command) == name


def test_words_are_taken_as_they_are() -> None:
    assert wrapped_name(["npx", "-y", "foo"]) == "foo"
    assert wrapped_name(("/my tools/foo",)) == "foo"
    assert wrapped_name([]) == "server"


def test_a_long_name_leaves_room_for_a_number() -> None:
    assert wrapped_name("x" * 100) == "x" * LONGEST_NAME


WORDS = st.sampled_from(
    [
        "npx",
        "uvx",
        "python",
        "docker",
        "run",
        "sh",
        "-c",
        "-m",
        "-p",
        "-y",
        "--",
        "--from",
        "env",
        "A=b",
        "mcp",
        "@a/b@1",
    ]
)


@given(st.lists(WORDS | st.text(max_size=8), max_size=6))
def test_any_command_has_a_valid_name(command: list[str]) -> None:
    name = wrapped_name(command)
    assert SERVER_NAME.fullmatch(name)
    assert re.fullmatch(r"[a-z0-9.-]+", name)
