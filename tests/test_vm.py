"""The virtual machine for tests: what it is given and what it says; the machine itself where somebody wants it."""

from __future__ import annotations

import faulthandler
import lzma
import stat
import tarfile
from pathlib import Path

import pytest

from contrib.vm import __main__ as vm
from contrib.vm import machine, payload, unpacked
from contrib.vm.image import PROCESSORS, Image, ImageError, image
from tests.kit.required import on_demand

AMD64 = PROCESSORS["amd64"]
IMAGE = Image(Path("/disk"), Path("/kernel"), Path("/ramdisk"))


@pytest.fixture
def shown() -> list[str]:
    """What a person saw."""
    return []


def emulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program in the place of the emulator."""
    program = tmp_path / AMD64.emulator
    program.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(machine, "SEARCHED", str(tmp_path))


def test_the_console_says_what_came_of_every_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    lines = ("boot", "guest: limits-root ended with status 0 after 9 s", "guest: b ended with status 1 after 2 s")
    said = "".join(rf"{line}\r\n" for line in (*lines, "guest: done"))
    emulated(tmp_path, monkeypatch, f"printf '%s\\n' \"$@\" > {tmp_path}/words; printf '{said}'; exec sleep 600")
    assert machine.run(AMD64, IMAGE, Path("/payload"), 60, shown.append) == {"limits-root": 0, "b": 1}
    assert shown[0] == "boot"
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()
    words = (tmp_path / "words").read_text().splitlines()
    assert "file=/disk,if=virtio,format=raw,snapshot=on" in words, "the image is for the next run too"
    assert "file=/payload,if=virtio,format=raw,readonly=on" in words


@pytest.mark.parametrize(
    ("script", "said"), [("echo panic", "ended before"), ("exec sleep 600", "took too long")], ids=["ends", "hangs"]
)
def test_a_machine_that_does_not_get_to_its_end_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str], script: str, said: str
) -> None:
    emulated(tmp_path, monkeypatch, script)
    with pytest.raises(ImageError, match=said):
        machine.run(AMD64, IMAGE, Path("/payload"), 0.5, shown.append)


def test_missing_tools_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shown: list[str]
) -> None:
    monkeypatch.setattr(machine, "SEARCHED", str(tmp_path))
    with pytest.raises(ImageError, match="missing: qemu-system-x86_64\nInstall the tools"):
        machine.run(AMD64, IMAGE, Path("/payload"), 1, shown.append)
    monkeypatch.setattr("contrib.vm.image.SEARCHED", str(tmp_path))
    with pytest.raises(ImageError, match="missing: mmdebstrap, genext2fs, e2fsck, resize2fs"):
        image(AMD64, "trixie", tmp_path / "images", shown.append)


def test_the_payload_is_this_checkout_as_root_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "library.py").touch(mode=0o600)
    monkeypatch.setattr(payload, "_libraries", lambda *_: libraries)
    payload.payload(AMD64, "trixie", tmp_path, ["limits-root"], tmp_path / "archive")
    with tarfile.open(tmp_path / "archive") as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert {"repo/supervisord_mcp/daemon.py", "repo/tests/vm/__init__.py", "site/library.py"} <= members.keys()
        assert members["site/library.py"].mode & stat.S_IROTH
        assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
        phases = archive.extractfile("phases")
        assert phases is not None
        assert phases.read() == b"limits-root\n"


def members(archive: bytes) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the content of every member of an archive of the kind newc, as the kernel reads it."""
    found: dict[str, tuple[int, bytes]] = {}
    at = 0
    while "TRAILER!!!" not in found:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * number : at + 14 + 8 * number], 16) for number in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        content = at + (110 + fields[11] + 3) // 4 * 4
        found[name] = fields[1], archive[content : content + fields[6]]
        at = content + (fields[6] + 3) // 4 * 4
    assert at == len(archive)
    return found


def test_the_ramdisk_has_what_finds_the_disk(tmp_path: Path) -> None:
    unpacked.write_ramdisk(tmp_path / "ramdisk", b"busybox", lzma.compress(b"module"))
    found = members((tmp_path / "ramdisk").read_bytes())
    assert found["bin/busybox"] == (stat.S_IFREG | 0o755, b"busybox")
    assert found[unpacked.MODULE] == (stat.S_IFREG | 0o644, b"module"), "the kernel does not unpack it"
    assert found["init"][1].startswith(b"#!/bin/busybox sh\n")
    assert {name for name, (mode, _) in found.items() if stat.S_ISDIR(mode)} == {"bin", "dev", "root"}


def test_an_unknown_phase_is_an_error_and_a_failed_one_the_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        vm.main(["limits"])
    assert "unknown phase for amd64: limits" in capsys.readouterr().err
    monkeypatch.setattr(vm, "image", lambda *_: IMAGE)
    monkeypatch.setattr(vm, "payload", lambda *_: None)
    monkeypatch.setattr(machine, "run", lambda *_: {"limits-root": 0, "limits-person": 1})
    assert vm.main(["limits-root"]) == 0
    assert vm.main(["limits-root", "limits-person", "daemon-root"]) == 1
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "limits-root: passed",
        "limits-person: FAILED",
        "daemon-root: FAILED",
    ]


@on_demand
@pytest.mark.slow
@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_everything_passes_in_the_machine(release: str) -> None:
    faulthandler.cancel_dump_traceback_later()  # it is for tests that take seconds
    assert vm.main(["--release", release]) == 0
