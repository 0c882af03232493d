"""What commands need to read, on made-up machines; every path outside of them is the system's."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from supervisord_mcp.runtimes.roots import runtime_roots


class Machine:
    """A home directory and other places below one folder."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"
        self.home.mkdir()

    def file(self, path: str, text: str = "") -> str:
        """Make a file that can be run."""
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace("TOP", str(self.top)))
        place.chmod(0o755)
        return str(place)

    def link(self, path: str, target: str) -> str:
        """Make a symbolic link; a target that begins with TOP is absolute."""
        place = self.top / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target.replace("TOP", str(self.top)))
        return str(place)

    def python(self, prefix: str) -> None:
        """Make an installation of Python."""
        self.file(f"{prefix}/bin/python3.12", "\x7fELF")
        self.link(f"{prefix}/bin/python3", "python3.12")
        (self.top / prefix / "lib/python3.12").mkdir(parents=True)

    def venv(self, prefix: str, base: str) -> None:
        """Make a virtual environment."""
        self.file(f"{prefix}/pyvenv.cfg", f"home = TOP/{base}/bin\n")
        self.link(f"{prefix}/bin/python3", f"TOP/{base}/bin/python3")
        self.link(f"{prefix}/bin/python", "python3")
        (self.top / prefix / "lib/python3.12/site-packages").mkdir(parents=True)

    def roots(self, *argv: str, writable: Sequence[str] = (), cwd: str | None = None, **env: str) -> set[str]:
        """Return what a command needs, relative to the top."""
        places = [f"{self.top}/{place}" for place in writable]
        found = runtime_roots(argv, env, cwd=cwd, home=str(self.home), writable=places)
        assert all(Path(path).exists() or Path(path).is_symlink() for path in found)
        return {str(Path(path).relative_to(self.top)) for path in found}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_system_needs_nothing(machine: Machine) -> None:
    assert machine.roots("/bin/sh", "-c", "x") == machine.roots("/usr/bin/env", "node") == set()


def test_virtual_environments_and_their_pythons(machine: Machine) -> None:
    machine.python("home/.pyenv/versions/3.12.1")
    machine.venv("work/venv", "home/.pyenv/versions/3.12.1")
    script = machine.file("work/venv/bin/server", "#!TOP/work/venv/bin/python\n")
    wanted = {"work/venv", "home/.pyenv/versions/3.12.1"}
    assert machine.roots(script) == machine.roots(f"{machine.top}/work/venv/bin/python", "-m", "server") == wanted


def test_an_environment_of_copies_still_needs_its_base(machine: Machine) -> None:
    machine.python("base")
    machine.venv("venv", "base")
    python = machine.top / "venv/bin/python"
    python.unlink()
    assert machine.roots(machine.file("venv/bin/python", "\x7fELF")) == {"venv", "base"}


def test_tools_of_uv_and_pipx(machine: Machine) -> None:
    python = "home/.local/share/uv/python/cpython-3.12.5-linux"
    machine.python(python)
    short = machine.link("home/.local/share/uv/python/cpython-3.12-linux", "cpython-3.12.5-linux")
    machine.venv("home/.local/share/uv/tools/server", "home/.local/share/uv/python/cpython-3.12-linux")
    machine.file("home/.local/share/uv/tools/server/bin/server", "#!TOP/home/.local/share/uv/tools/server/bin/python\n")
    command = machine.link("home/.local/bin/server", "TOP/home/.local/share/uv/tools/server/bin/server")
    assert machine.roots(command) == {
        "home/.local/bin/server",
        "home/.local/share/uv/tools/server",
        str(Path(short).relative_to(machine.top)),
        python,
    }


def test_a_lone_program_of_the_home_is_shown_alone(machine: Machine) -> None:
    machine.file("home/lib/secret")
    assert machine.roots(machine.file("home/bin/server", "\x7fELF")) == {"home/bin/server"}
    assert machine.roots(machine.file("home/.cargo/bin/server", "\x7fELF")) == {"home/.cargo/bin/server"}
    assert machine.roots(machine.file("home/Downloads/server", "\x7fELF")) == {"home/Downloads/server"}
    assert machine.roots(machine.file("home/server.py"), cwd="/") == {"home/server.py"}


def test_node_of_nvm_and_its_packages(machine: Machine) -> None:
    prefix = "home/.nvm/versions/node/v20.1.0"
    node = machine.file(f"{prefix}/bin/node", "\x7fELF")
    machine.file(f"{prefix}/lib/node_modules/server/dist/index.js", "#!/usr/bin/env node\n")
    command = machine.link(f"{prefix}/bin/server", "../lib/node_modules/server/dist/index.js")
    wanted = {prefix, f"{prefix}/lib/node_modules"}
    assert machine.roots(command, PATH=f"{machine.top}/{prefix}/bin") == wanted
    assert machine.roots(node, "-e", "1") == {prefix}


def test_a_script_brings_its_package(machine: Machine) -> None:
    script = machine.file("code/mono/packages/server/dist/index.js")
    machine.file("code/mono/packages/server/package.json", "{}")
    machine.file("code/mono/packages/server/src/other.js")
    machine.file("code/mono/node_modules/dep/index.js")
    machine.file("code/mono/secret")
    wanted = {"code/mono/packages/server", "code/mono/packages/server/dist", "code/mono/node_modules"}
    assert machine.roots("/usr/bin/node", script) == wanted
    assert machine.roots("/usr/bin/node", "--require", "x", "--trace-warnings", script) == wanted
    assert machine.roots("/usr/bin/node", "dist/index.js", cwd=f"{machine.top}/code/mono/packages/server") == wanted
    assert machine.roots("/usr/bin/env", "-i", "A=1", "node", script, PATH="/usr/bin") == wanted
    assert machine.roots("/usr/bin/node", "--eval", script) == set()


def test_scripts_of_python(machine: Machine) -> None:
    script = machine.file("code/server/run.py")
    machine.file("code/lib/x/__init__.py")
    assert machine.roots("/usr/bin/python3", "-W", "error", "-u", script) == {"code/server"}
    assert machine.roots("/usr/bin/python3", script, PYTHONPATH=f"{machine.top}/code/lib:relative:/nowhere") == {
        "code/server",
        "code/lib",
    }
    assert machine.roots("/usr/bin/python3", "-um", script) == machine.roots("/usr/bin/python3", "-c", script) == set()
    assert machine.roots("/usr/bin/python3", script, PYTHONPATH=str(machine.home)) == {"code/server"}


def test_editable_projects(machine: Machine) -> None:
    machine.python("base")
    machine.venv("venv", "base")
    packages = "venv/lib/python3.12/site-packages"
    machine.file("code/one/src/one.py")
    machine.file("code/two/two.py")
    machine.file(f"{packages}/_one.pth", "TOP/code/one/src\nimport x\n")
    record = {"url": f"file://{machine.top}/code/two", "dir_info": {"editable": True}}
    machine.file(f"{packages}/two-1.dist-info/direct_url.json", json.dumps(record))
    machine.file(f"{packages}/bad-1.dist-info/direct_url.json", "[]")
    machine.file(f"{packages}/worse-1.dist-info/direct_url.json", "{")
    assert machine.roots(f"{machine.top}/venv/bin/python") == {"venv", "base", "code/one/src", "code/two"}


def test_a_circle_of_links_or_interpreters_ends(machine: Machine) -> None:
    machine.link("a", "b")
    machine.roots(machine.link("b", "a"))
    machine.roots(machine.file("c/one", "#!TOP/c/two\n"))
    machine.file("c/two", "#!TOP/c/one\n")
    assert machine.roots(f"{machine.top}/c/one") == {"c"}


class TestWhatAServerCanWrite:
    """A server with a writable project must not choose what its next start may read."""

    def test_its_environment_still_finds_its_python(self, machine: Machine) -> None:
        machine.python("home/.pyenv/versions/3.12.1")
        machine.venv("project/.venv", "home/.pyenv/versions/3.12.1")
        script = machine.file("project/.venv/bin/server", "#!TOP/project/.venv/bin/python\n")
        found = machine.roots(script, writable=["project"])
        assert found == {"project/.venv", "home/.pyenv/versions/3.12.1"}

    @pytest.mark.parametrize("target", ["TOP/home/.ssh/id", "TOP/home/.ssh", "TOP/home", "TOP/home/.ssh/bin/id"])
    def test_its_links_lead_nowhere_else(self, machine: Machine, target: str) -> None:
        machine.file("home/.ssh/id", "secret")
        machine.file("home/.ssh/bin/id", "secret")
        (machine.home / ".ssh/lib").mkdir()
        machine.link("project/bin/python", target)
        machine.file("project/bin/other", "#!TOP/project/bin/python\n")
        for name in ("python", "other"):
            found = machine.roots(f"{machine.top}/project/bin/{name}", writable=["project"])
            assert not [path for path in found if path.startswith("home")]

    def test_its_first_lines_and_settings_lead_nowhere_else(self, machine: Machine) -> None:
        machine.file("home/.ssh/id", "secret")
        machine.venv("project/.venv", "home/.ssh")
        machine.file("project/.venv/lib/python3.12/site-packages/x.pth", "TOP/home/.ssh\n")
        machine.file("home/.ssh/python3", "secret")
        machine.file("project/run.sh", "#!TOP/home/.ssh/id\n")
        for program in ("project/run.sh", "project/.venv/bin/python"):
            found = machine.roots(f"{machine.top}/{program}", writable=["project"])
            assert not [path for path in found if path.startswith("home")]
