"""The machine itself: it boots, its console is shown, and its last line says what came of it."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from contrib.vm.image import REMEDY, SEARCHED, Image, ImageError, Processor

_ENDED = re.compile(r"^guest: (\S+) ended with status (\d+)")
_DONE = "guest: done"


def run(
    processor: Processor, image: Image, payload: Path, patience: float, show: Callable[[str], None]
) -> dict[str, int]:
    """Boot the machine, show its console line by line, and return the status of every phase.

    Emulated throughout, so it needs no rights and works in other virtual machines. Raise `ImageError` where the machine
    did not get to its end within ``patience`` seconds.
    """
    emulator = shutil.which(processor.emulator, path=SEARCHED)
    if emulator is None:
        raise ImageError(f"missing: {processor.emulator}\n{REMEDY}")
    command = [
        *(emulator, *processor.options, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2560"),
        *("-kernel", str(image.kernel), "-initrd", str(image.ramdisk)),
        *("-append", f"root=/dev/vda rw console={processor.console} quiet loglevel=1 systemd.show_status=0 panic=-1"),
        *("-drive", f"file={image.disk},if=virtio,format=raw,snapshot=on"),
        *("-drive", f"file={payload},if=virtio,format=raw,readonly=on"),
        *("-display", "none", "-no-reboot", "-nic", "none", "-monitor", "none", "-serial", "stdio"),
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        try:
            return _follow(process, time.monotonic() + patience, show)
        finally:
            process.kill()


def _follow(process: subprocess.Popen[bytes], deadline: float, show: Callable[[str], None]) -> dict[str, int]:
    assert process.stdout is not None
    phases: dict[str, int] = {}
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                raise ImageError("the machine ended before its tests did")
            *lines, rest = (rest + data).split(b"\n")
            for raw in lines:
                line = raw.decode(errors="replace").rstrip("\r")
                show(line)
                if found := _ENDED.match(line):
                    phases[found[1]] = int(found[2])
                if line == _DONE:
                    return phases
    raise ImageError("the machine took too long")
