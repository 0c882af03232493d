"""The disk of the machine: a small Debian, made once for each release and processor by mmdebstrap."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from contrib.vm import unpacked

#: What the guest needs: a service manager with a bus for each user, the sandbox, a Python, a compiler for programs
#: that make system calls.
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "udev", "kmod", "login", "passwd"),
    *("bubblewrap", "python3", "procps", "util-linux", "iproute2", "initramfs-tools", "gcc", "libc6-dev"),
)
#: The version of Python of each release: wheels are chosen for it.
RELEASES = {"bookworm": "3.11", "trixie": "3.13"}
#: Room for what the tests write beside the packages.
_SIZE = "3G"
#: Runs before the kernel is there, "$1" is the root directory: of all its modules only those that this machine boots
#: with are packed, which takes minutes where each step of it is emulated.
_PREPARE = """set -e
mkdir -p "$1"/etc/initramfs-tools/conf.d
echo MODULES=list > "$1"/etc/initramfs-tools/conf.d/guest
printf '%s\\n' virtio_pci virtio_blk ext4 > "$1"/etc/initramfs-tools/modules
"""
#: Runs after the packages are there, "$1" is the root directory. The console belongs to what is tested: a login on it
#: would hang it up. Everything on the second disk is unpacked into memory and started.
_FURNISH = """set -e
ln -sf /dev/null "$1"/etc/systemd/system/serial-getty@%(console)s.service
ln -sf /lib/systemd/system/multi-user.target "$1"/etc/systemd/system/default.target
echo '/dev/vda / ext4 rw 0 1' > "$1"/etc/fstab
echo smcp-vm > "$1"/etc/hostname
printf '127.0.0.1 localhost smcp-vm\\n::1 localhost\\n' > "$1"/etc/hosts
cat > "$1"/usr/local/sbin/guest <<'END'
#!/bin/sh
exec </dev/null >/dev/%(console)s 2>&1
mount -t tmpfs -o mode=755,size=60%% tmpfs /srv
tar -xf /dev/vdb -C /srv && sh /srv/guest.sh
systemctl poweroff --force --force
END
chmod 755 "$1"/usr/local/sbin/guest
cat > "$1"/etc/systemd/system/guest.service <<'END'
[Unit]
After=dbus.service systemd-logind.service systemd-user-sessions.service
[Service]
ExecStart=/usr/local/sbin/guest
TimeoutStopSec=5
END
ln -sf ../guest.service "$1"/etc/systemd/system/multi-user.target.wants/guest.service
"""


REMEDY = "Install the tools: sudo apt-get install mmdebstrap genext2fs e2fsprogs qemu-system-x86 qemu-system-arm"
#: Where the tools are; those for file systems are not in the PATH of everybody.
SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


class ImageError(Exception):
    """Why there is no image, for the person."""


@dataclass(frozen=True, slots=True)
class Processor:
    """A kind of machine: Debian's name for it, the emulator with its options, the console, the platforms of wheels.

    ``whole``: with a service manager; else packages are unpacked only.
    """

    name: str
    emulator: str
    options: tuple[str, ...]
    console: str
    wheels: str
    whole: bool

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platforms of wheels that run there."""
        return tuple(f"{kind}_{self.wheels}" for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28"))


PROCESSORS = {
    "amd64": Processor("amd64", "qemu-system-x86_64", ("-cpu", "max"), "ttyS0", "x86_64", whole=True),
    "arm64": Processor(
        "arm64", "qemu-system-aarch64", ("-M", "virt", "-cpu", "cortex-a72"), "ttyAMA0", "aarch64", whole=False
    ),
}


@dataclass(frozen=True, slots=True)
class Image:
    """A disk and what boots it; nothing of it is changed by a run."""

    disk: Path
    kernel: Path
    ramdisk: Path


def image(processor: Processor, release: str, place: Path, tell: Callable[[str], None]) -> Image:
    """Return the image for a processor and a release, made if there is none. Raise `ImageError` where it cannot be."""
    packages, steps = (
        (PACKAGES, (_PREPARE, _FURNISH)) if processor.whole else (unpacked.PACKAGES, ("", unpacked.FURNISH))
    )
    prepare, furnish = steps[0], steps[1] % {"console": processor.console}
    recipe = hashlib.sha256("\0".join((*packages, prepare, furnish, _SIZE)).encode()).hexdigest()[:12]
    folder = place / f"{release}-{processor.name}-{recipe}"
    if not folder.is_dir():
        _require("mmdebstrap", "genext2fs", "e2fsck", "resize2fs", "debugfs")
        tell(f"making an image of {release} for {processor.name}, once: a minute or two …")
        new = folder.with_suffix(".new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        hooks = (
            (f"--essential-hook={prepare}", f"--customize-hook={furnish}")
            if processor.whole
            else (f"--extract-hook={furnish}",)
        )
        _make(processor, release, (*packages, f"linux-image-cloud-{processor.name}"), hooks, new)
        new.rename(folder)
    return Image(folder / "disk", *(_only(folder / "boot", name) for name in ("vmlinuz-*", "initrd.img-*")))


def _make(processor: Processor, release: str, packages: Sequence[str], hooks: Sequence[str], new: Path) -> None:
    """Write the disk and what boots it into a directory."""
    disk, variant = f"{new}/disk", "minbase" if processor.whole else "extract"
    options = [
        "--quiet",
        f"--variant={variant}",
        f"--architectures={processor.name}",
        f"--include={','.join(packages)}",
    ]
    _run("mmdebstrap", *options, *hooks, "--format=ext2", release, disk)
    _run("truncate", f"--size={_SIZE}", disk)
    # Its status 1 says that something was put right: the tool that wrote the disk leaves that to it.
    _run("e2fsck", "-fy", disk, fine=(0, 1))
    _run("resize2fs", disk)
    _run("debugfs", "-R", f"rdump /boot {new}", disk)
    if not processor.whole:
        release_of_kernel = _only(new / "boot", "vmlinuz-*").name.removeprefix("vmlinuz-")
        modules = f"/usr/lib/modules/{release_of_kernel}/kernel/drivers/block"
        _run("debugfs", "-R", f"rdump {modules} {new}", disk)
        _run("debugfs", "-R", f"dump /usr/bin/busybox {new}/busybox", disk)
        module = _only(new / "block", f"{unpacked.MODULE}*").read_bytes()
        ramdisk = new / "boot" / f"initrd.img-{release_of_kernel}"
        unpacked.write_ramdisk(ramdisk, (new / "busybox").read_bytes(), module)


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise ImageError(f"{folder} has no {pattern}: remove {folder.parent} and come again")
    return found[-1]


def _run(*command: str, fine: Sequence[int] = (0,)) -> None:
    program = shutil.which(command[0], path=SEARCHED) or command[0]
    done = subprocess.run(
        (program, *command[1:]), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode not in fine:
        raise ImageError(f"{command[0]} failed with status {done.returncode}:\n{done.stdout}{done.stderr}")


def _require(*programs: str) -> None:
    missing = [program for program in programs if shutil.which(program, path=SEARCHED) is None]
    if missing:
        raise ImageError(f"missing: {', '.join(missing)}\n{REMEDY}")
