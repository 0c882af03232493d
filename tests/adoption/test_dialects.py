"""Entries with variables, as each host writes them, become servers of ours that are given the same (case 40)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from supervisord_mcp.config.variables import Variables, expand
from supervisord_mcp.hosts.catalogue import HOSTS
from tests.adoption.machine import Machine


@dataclass(frozen=True)
class Written:
    """A host, its file, and how it writes a variable: ``{}`` is the name, and ``default`` has one with a default."""

    host: str
    file: str
    reference: str
    default: str = ""
    table: str = "mcpServers"
    env: str = "env"


EDITOR, BRACES, CURLY = "${env:{}}", "${{}}", "{env:{}}"
DEFAULT = "${{}:-std}"
WRITTEN = (
    Written("cursor", ".cursor/mcp.json", EDITOR),
    Written("vscode", ".config/Code/User/mcp.json", EDITOR, table="servers"),
    Written("vscode-insiders", ".config/Code - Insiders/User/mcp.json", EDITOR, table="servers"),
    Written("vscodium", ".config/VSCodium/User/mcp.json", EDITOR, table="servers"),
    Written("copilot-plugins", ".config/github-copilot/intellij/mcp.json", EDITOR, table="servers"),
    Written("roo", ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json", EDITOR),
    Written("trae", ".config/Trae/User/mcp.json", EDITOR),
    Written("windsurf", ".codeium/windsurf/mcp_config.json", EDITOR),
    Written("cline", ".cline/data/settings/cline_mcp_settings.json", EDITOR),
    Written("amazon-q", ".aws/amazonq/mcp.json", EDITOR),
    Written("claude-code", ".claude.json", BRACES, DEFAULT),
    Written("kiro", ".kiro/settings/mcp.json", BRACES, DEFAULT),
    Written("factory", ".factory/mcp.json", BRACES, DEFAULT),
    Written("amp", ".config/amp/settings.json", BRACES, DEFAULT, table="amp.mcpServers"),
    Written("gemini", ".gemini/settings.json", "${}", DEFAULT),
    Written("qwen", ".qwen/settings.json", BRACES, DEFAULT),
    Written("copilot-cli", ".copilot/mcp-config.json", "${}", DEFAULT),
    Written("crush", ".config/crush/crush.json", "${}", DEFAULT, table="mcp"),
    Written("opencode", ".config/opencode/opencode.json", CURLY, table="mcp", env="environment"),
    Written("kilo", ".config/kilo/kilo.json", CURLY, table="mcp", env="environment"),
)
#: No variables in any text, or none but secrets of their own.
WITHOUT = {"claude-desktop", "codex", "continue", "goose", "junie", "lm-studio", "warp", "zed", "antigravity"}


def named(pattern: str, name: str) -> str:
    return pattern.replace("{}", name, 1)


def write(machine: Machine, one: Written, words: list[str], env: dict[str, str]) -> None:
    """Write the only server of a host."""
    command = {"command": ["x-mcp", *words]} if one.env == "environment" else {"command": "x-mcp", "args": words}
    machine.write(one.file, {"s": {**command, one.env: env}}, one.table)


def test_every_host_is_looked_at() -> None:
    assert {one.host for one in WRITTEN} | WITHOUT == set(HOSTS)
    assert {one.host for one in WRITTEN}.isdisjoint(WITHOUT)


@pytest.mark.parametrize("one", WRITTEN, ids=lambda one: one.host)
def test_variables_mean_what_they_meant_to_the_host(machine: Machine, one: Written) -> None:
    words = [
        f"--a={named(one.reference, 'SET')}",
        named(one.reference, "EMPTY"),
        "a $ b ~ %C%",
        named(one.reference, "MISSING"),
    ]
    if one.default:
        words += [named(one.default, "SET"), named(one.default, "MISSING"), named(one.default, "EMPTY")]
    write(machine, one, words, {"TEXT": "5 $ ~", "NONE": "", "GIVEN": named(one.reference, "EMPTY")})
    server = machine.server(one.host)
    values = Variables({"SET": "v w", "EMPTY": "", "GIVEN": "of the host"}, home="/never")
    told = [expand(word, values) for word in server.table["command"]]
    assert [(found.text, [missing.name for missing in found.missing]) for found in told] == [
        ("x-mcp", []),
        ("--a=v w", []),
        ("", []),
        ("a $ b ~ %C%", []),
        # Neither a literal text nor an empty one is given to the server: it is not started.
        ("", ["MISSING"]),
        *([("v w", []), ("std", []), ("", [])] if one.default else []),
    ]
    assert any("${MISSING} is not set here" in remark for remark in server.remarks)
    env = {name: expand(text, values).text for name, text in server.table["env"].items()}
    # What the host makes of its variables for the environment it goes on giving; empty stays empty.
    assert env == {"TEXT": "5 $ ~", "NONE": "", "GIVEN": "of the host"}
    without = Variables({"EMPTY": ""}, home="/never")
    assert expand(server.table["env"]["GIVEN"], without).text == ""


@pytest.mark.parametrize("one", WRITTEN, ids=lambda one: one.host)
def test_the_variables_of_the_environment_stay_with_the_host(machine: Machine, one: Written) -> None:
    reference = named(one.reference, "LEVEL")
    write(machine, one, ["w"], {"TEXT": "plain", "GIVEN": reference})
    machine.adopt(one.host)
    entry = json.loads((machine.home / one.file).read_text())[one.table]["s"]
    assert entry[one.env] == {"GIVEN": reference, "SMCP_HOME": machine.environ["SMCP_HOME"]}


@pytest.mark.parametrize("key", sorted(WITHOUT - {"codex", "continue", "goose"}))
def test_a_host_without_variables_means_what_is_written(machine: Machine, key: str) -> None:
    path = HOSTS[key].files(machine.person.where)[0].path.relative_to(machine.home)
    table = "context_servers" if key == "zed" else "mcpServers"
    env = {"A": "${env:A} $HOME ${B:-c}"}
    machine.write(str(path), {"s": {"command": "x-mcp", "args": ["$A", "~", "{env:A}"], "env": env}}, table)
    server = machine.server(key)
    values = Variables({"A": "other", "HOME": "/h"}, home="/h")
    assert [expand(word, values).text for word in server.table["command"]] == ["x-mcp", "$A", "~", "{env:A}"]
    assert {name: expand(text, values).text for name, text in server.table["env"].items()} == env
