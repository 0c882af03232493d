"""Every family: its files are found where they are, and what they say is understood."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest

from supervisord_mcp.errors import UsageError
from supervisord_mcp.hosts.base import Platform, Surroundings
from supervisord_mcp.hosts.catalogue import HOSTS, find_hosts
from supervisord_mcp.hosts.entry import Scope
from tests.hosts.corpus import FIXTURES, Sample, cases, described, expected, samples, surroundings_of

SAMPLES = list(samples())

#: The first file of the person: on Linux below ~, on macOS below ~, on Windows below the profile; then of the project.
PLACES = {
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
        None,
    ),
    "claude-code": (".claude.json", ".claude.json", ".claude.json", ".mcp.json"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
        ".vscode/mcp.json",
    ),
    "vscode-insiders": (
        ".config/Code - Insiders/User/mcp.json",
        "Library/Application Support/Code - Insiders/User/mcp.json",
        "AppData/Roaming/Code - Insiders/User/mcp.json",
        ".vscode/mcp.json",
    ),
    "vscodium": (
        ".config/VSCodium/User/mcp.json",
        "Library/Application Support/VSCodium/User/mcp.json",
        "AppData/Roaming/VSCodium/User/mcp.json",
        ".vscode/mcp.json",
    ),
    "windsurf": (*(".codeium/windsurf/mcp_config.json",) * 3, None),
    "codex": (*(".codex/config.toml",) * 3, ".codex/config.toml"),
    "gemini": (*(".gemini/settings.json",) * 3, ".gemini/settings.json"),
    "qwen": (*(".qwen/settings.json",) * 3, ".qwen/settings.json"),
    "opencode": (*(".config/opencode/opencode.json",) * 3, "opencode.json"),
    "zed": (
        ".config/zed/settings.json",
        ".config/zed/settings.json",
        "AppData/Roaming/Zed/settings.json",
        ".zed/settings.json",
    ),
    "cline": (*(".cline/data/settings/cline_mcp_settings.json",) * 3, None),
    "roo": (
        ".config/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        "Library/Application Support/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        "AppData/Roaming/Code/User/globalStorage/rooveterinaryinc.roo-cline/settings/mcp_settings.json",
        ".roo/mcp.json",
    ),
    "kilo": (*(".config/kilo/kilo.json",) * 3, "kilo.json"),
    "continue": (*(".continue/config.yaml",) * 3, None),
    "goose": (
        ".config/goose/config.yaml",
        ".config/goose/config.yaml",
        "AppData/Roaming/Block/goose/config/config.yaml",
        None,
    ),
    "crush": (
        ".config/crush/crush.json",
        ".config/crush/crush.json",
        "AppData/Local/crush/crush.json",
        ".crush.json",
    ),
    "copilot-cli": (*(".copilot/mcp-config.json",) * 3, None),
    "copilot-plugins": (
        ".config/github-copilot/intellij/mcp.json",
        ".config/github-copilot/intellij/mcp.json",
        "AppData/Local/github-copilot/intellij/mcp.json",
        None,
    ),
    "amazon-q": (*(".aws/amazonq/mcp.json",) * 3, ".amazonq/mcp.json"),
    "kiro": (*(".kiro/settings/mcp.json",) * 3, ".kiro/settings/mcp.json"),
    "junie": (*(".junie/mcp/mcp.json",) * 3, ".junie/mcp/mcp.json"),
    "lm-studio": (*(".lmstudio/mcp.json",) * 3, None),
    "warp": (*(".warp/.mcp.json",) * 3, ".warp/.mcp.json"),
    "trae": (
        ".config/Trae/User/mcp.json",
        "Library/Application Support/Trae/User/mcp.json",
        "AppData/Roaming/Trae/User/mcp.json",
        ".trae/mcp.json",
    ),
    "factory": (*(".factory/mcp.json",) * 3, ".factory/mcp.json"),
    "amp": (*(".config/amp/settings.json",) * 3, ".amp/settings.json"),
    "antigravity": (*(".gemini/config/mcp_config.json",) * 3, ".agents/mcp_config.json"),
}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample.file.host.key}-{sample.name}")
def test_what_a_file_says_is_understood(sample: Sample) -> None:
    assert described(sample.reading()) == expected(sample.file.host.key)[sample.name]


@pytest.mark.parametrize("key", HOSTS)
def test_each_host_has_samples_and_all_are_found(key: str) -> None:
    there = {path.relative_to(FIXTURES / key).as_posix() for case in cases(key) for path in case.rglob("*.*")}
    there = {name for name in there if (FIXTURES / key / name).is_file()}
    found = {sample.name for sample in SAMPLES if sample.file.host.key == key}
    assert found == there == expected(key).keys()
    assert len(found) >= 3


@pytest.mark.parametrize("key", HOSTS)
def test_where_the_files_are(key: str) -> None:
    home, project = Path("/users/ann"), Path("/work/shop")
    first = []
    for platform in Platform:
        files = HOSTS[key].files(Surroundings(home, platform=platform, project=project))
        first.append(next(file.path for file in files if file.scope is Scope.USER))
        assert all(file.path.is_relative_to(home) for file in files if file.scope is Scope.USER)
    ours = [file for file in files if file.scope is Scope.PROJECT]
    assert all(file.project == project and file.path.is_relative_to(project) for file in ours)
    found = (*(path.relative_to(home).as_posix() for path in first), _first_of(project, [file.path for file in ours]))
    assert found == PLACES[key]


def _first_of(project: Path, paths: list[Path]) -> str | None:
    return paths[0].relative_to(project).as_posix() if paths else None


@pytest.mark.parametrize("key", HOSTS)
def test_no_project_no_files_of_one(key: str) -> None:
    assert all(file.scope is Scope.USER for file in HOSTS[key].files(Surroundings(Path("/users/ann"))))


def test_families_say_where_they_know_it_from() -> None:
    assert len(HOSTS) >= 25
    for path in (Path(__file__).parents[2] / "supervisord_mcp/hosts/families").glob("[!_]*.py"):
        module = importlib.import_module(f"supervisord_mcp.hosts.families.{path.stem}")
        hosts = [value for name, value in inspect.getmembers(module) if value in HOSTS.values()]
        assert hosts, path
        for host in hosts:
            assert host.sources
            for source in host.sources:
                assert source.startswith("https://")
                assert source in (module.__doc__ or ""), f"{path.name} does not cite {source}"


@pytest.mark.parametrize(
    ("key", "environ", "path"),
    [
        ("claude-code", {"CLAUDE_CONFIG_DIR": "/etc/claude"}, "/etc/claude/.claude.json"),
        ("codex", {"CODEX_HOME": "/etc/codex"}, "/etc/codex/config.toml"),
        ("copilot-cli", {"COPILOT_HOME": "/etc/copilot"}, "/etc/copilot/mcp-config.json"),
        ("continue", {"CONTINUE_GLOBAL_DIR": "own"}, "/users/ann/own/config.yaml"),
        ("cline", {"CLINE_DIR": "/etc/cline", "CLINE_DATA_DIR": "d"}, "/etc/cline/d/settings/cline_mcp_settings.json"),
        ("opencode", {"XDG_CONFIG_HOME": "/etc/xdg"}, "/etc/xdg/opencode/opencode.json"),
        ("opencode", {"OPENCODE_CONFIG": "/etc/oc.json"}, "/etc/oc.json"),
        ("opencode", {"OPENCODE_CONFIG_DIR": "/etc/oc"}, "/etc/oc/opencode.jsonc"),
        ("gemini", {"GEMINI_CLI_HOME": "/etc/g"}, "/etc/g/.gemini/settings.json"),
        ("qwen", {"QWEN_HOME": "/etc/q"}, "/etc/q/settings.json"),
        ("crush", {"XDG_DATA_HOME": "/var/data"}, "/var/data/crush/crush.json"),
        ("vscode", {"XDG_CONFIG_HOME": "/etc/xdg"}, "/etc/xdg/Code/User/mcp.json"),
        ("vscode", {"XDG_CONFIG_HOME": "relative"}, "/users/ann/.config/Code/User/mcp.json"),
    ],
)
def test_variables_move_files(key: str, environ: dict[str, str], path: str) -> None:
    files = HOSTS[key].files(Surroundings(Path("/users/ann"), environ))
    assert Path(path) in [file.path for file in files]


def test_the_package_of_the_windows_store(tmp_path: Path) -> None:
    own = tmp_path / "AppData/Local/Packages/Claude_pzs8sxrjxfjjc/LocalCache/Roaming/Claude/claude_desktop_config.json"
    own.parent.mkdir(parents=True)
    own.write_text("{}")
    (found,) = find_hosts(Surroundings(tmp_path, platform=Platform.WINDOWS), ["claude-desktop"])
    assert [file.path for file in found.files] == [own]


def test_an_unknown_host_is_refused() -> None:
    with pytest.raises(UsageError, match="no host 'emacs'") as caught:
        find_hosts(Surroundings(Path("/nobody")), ["codex", "emacs"])
    assert "claude-desktop" in caught.value.remedy


def test_traces_of_hosts() -> None:
    found = find_hosts(surroundings_of(FIXTURES / "gemini" / "user"))
    assert [presence.host.key for presence in found if presence.installed] == ["gemini"]
    assert [presence.host.key for presence in found if presence.files] == ["gemini"]


def test_a_link_that_leads_nowhere_is_there(tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor/mcp.json").symlink_to("dotfiles/mcp.json")
    (found,) = find_hosts(Surroundings(tmp_path), ["cursor"])
    assert found.installed
    assert [file.path.name for file in found.files] == ["mcp.json"]


def test_one_file_that_several_hosts_are_led_to_is_found_once(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles/servers.json"
    real.parent.mkdir()
    real.write_text("{}")
    for name in (".cursor/mcp.json", ".lmstudio/mcp.json", ".junie/mcp/mcp.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).symlink_to(real)
    there = [one for one in find_hosts(Surroundings(tmp_path)) if one.installed]
    counts = {one.host.key: (len(one.files), len(one.shared)) for one in there}
    assert counts == {"cursor": (1, 0), "junie": (0, 1), "lm-studio": (0, 1)}
    (alone,) = find_hosts(Surroundings(tmp_path), ["junie"])
    assert (len(alone.files), alone.shared) == (1, ())


def test_in_the_home_directory_files_are_those_of_the_person(tmp_path: Path) -> None:
    (tmp_path / ".gemini").mkdir()
    (tmp_path / ".gemini/settings.json").write_text("{}")
    (found,) = find_hosts(Surroundings(tmp_path, project=tmp_path), ["gemini"])
    assert [file.scope for file in found.files] == [Scope.USER]


def test_builds_of_one_editor_share_the_files_of_a_project(tmp_path: Path) -> None:
    (tmp_path / ".vscode").mkdir()
    (tmp_path / ".vscode/mcp.json").write_text("{}")
    found = find_hosts(Surroundings(tmp_path / "home", project=tmp_path))
    assert [one.host.key for one in found if one.files] == ["vscode"]
    assert [one.host.key for one in found if one.shared] == ["vscode-insiders", "vscodium"]
