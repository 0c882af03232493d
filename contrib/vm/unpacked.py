"""The disk of a machine with a foreign processor: packages that are unpacked only, and started without systemd.

Setting packages up means to run their programs, and each step of that emulated takes half an hour. What is tested on
such a processor is the kernel's filter for system calls, which needs no service manager.
"""

from __future__ import annotations

import lzma
import stat
from pathlib import Path

#: What the tests of the filter run, and what starts them.
PACKAGES = (
    *("bash", "bubblewrap", "busybox-static", "coreutils", "dash", "findutils", "gcc", "grep", "libc6-dev", "mount"),
    *("passwd", "procps", "python3", "sed", "tar", "util-linux"),
)
#: Runs when the packages are unpacked, "$1" is the root directory.
FURNISH = """set -e
mkdir -p "$1"/srv "$1"/mnt "$1"/home/person
chown 1000:1000 "$1"/home/person
printf '%%s\\n' root:x:0:0::/root:/bin/bash nobody:x:65534:65534::/:/bin/sh person:x:1000:1000::/home/person:/bin/bash \
    > "$1"/etc/passwd
printf '%%s\\n' root:x:0: nogroup:x:65534: person:x:1000: > "$1"/etc/group
echo 127.0.0.1 localhost > "$1"/etc/hosts
cat > "$1"/usr/sbin/guest <<'END'
#!/bin/sh
export PATH=/usr/sbin:/usr/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mkdir -p /dev/shm /dev/pts
mount -t devpts devpts /dev/pts
for place in /run /tmp /dev/shm; do mount -t tmpfs -o mode=1777 tmpfs $place; done
mount -t tmpfs -o mode=755,size=60%% tmpfs /srv
ln -sf /proc/self/fd /dev/fd
exec </dev/null >/dev/%(console)s 2>&1
tar -xf /dev/vdb -C /srv && sh /srv/guest.sh
echo o > /proc/sysrq-trigger
sleep 60
END
chmod 755 "$1"/usr/sbin/guest
"""
#: The only module that the kernel of the cloud images does not have built in and that is needed to find the disk.
MODULE = "virtio_blk.ko"
_INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox insmod /{MODULE}
until [ -b /dev/vda ]; do /bin/busybox sleep 0.1; done
/bin/busybox mount -t ext4 /dev/vda /root
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /usr/sbin/guest
"""


def write_ramdisk(file: Path, busybox: bytes, module: bytes) -> None:
    """Write the first file system that the kernel has: it finds the disk and goes on there (initramfs, cpio newc)."""
    if module.startswith(b"\xfd7zXZ"):
        module = lzma.decompress(module)
    members = [
        *((name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "dev", "root")),
        ("bin/busybox", stat.S_IFREG | 0o755, busybox),
        (MODULE, stat.S_IFREG | 0o644, module),
        ("init", stat.S_IFREG | 0o755, _INIT.encode()),
        ("TRAILER!!!", 0, b""),
    ]
    file.write_bytes(b"".join(_member(number, *member) for number, member in enumerate(members, 1)))


def _member(number: int, name: str, mode: int, content: bytes) -> bytes:
    text = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(text), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + text
    return _padded(head) + _padded(content)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % 4)
