"""Run the tests that need a service manager and control groups of version 2: ``python -m contrib.vm``.

They run in a virtual machine that is emulated in software: on any machine, as any user, with nothing of it changed. The
image is made once (mmdebstrap) and kept; a run takes some minutes. ``--processor arm64`` runs those of the filter for
system calls, on the other processor that it has tables for. It needs, on Debian and Ubuntu:

    sudo apt-get install mmdebstrap genext2fs e2fsprogs qemu-system-x86    # for arm64: qemu-system-arm
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from contrib.vm import machine
from contrib.vm.image import PROCESSORS, RELEASES, ImageError, image
from contrib.vm.payload import payload

#: Where images and libraries are kept unless told otherwise.
PLACE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcp-vm"
FILTER = ("filter-root", "filter-person")
PHASES = ("limits-root", "limits-person", "daemon-root", "daemon-person", *FILTER)
#: An emulated processor is twenty times slower than a real one, and the tests are a few minutes on that.
_PATIENCE = 3600.0


def main(words: Sequence[str] | None = None) -> int:
    """Run the phases and return the exit status: 1 if a test failed, 2 where the machine did not get that far."""
    parser = argparse.ArgumentParser(
        prog="python -m contrib.vm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processor", choices=PROCESSORS, default="amd64")
    parser.add_argument("--release", choices=RELEASES, default="trixie", help="of Debian (default: trixie)")
    parser.add_argument("--place", type=Path, default=PLACE, help=f"where images are kept (default: {PLACE})")
    parser.add_argument("phases", nargs="*", metavar="PHASE", help=f"what is run (default: all): {', '.join(PHASES)}")
    options = parser.parse_args(words)
    processor = PROCESSORS[options.processor]
    there = PHASES if processor.whole else FILTER
    phases = options.phases or there
    if unknown := set(phases) - set(there):
        parser.error(f"unknown phase for {processor.name}: {', '.join(sorted(unknown))}")
    try:
        disk = image(processor, options.release, options.place, _say)
        with tempfile.NamedTemporaryFile(prefix="smcp-vm-") as file:
            payload(processor, options.release, options.place, phases, Path(file.name))
            found = machine.run(processor, disk, Path(file.name), _PATIENCE, _say)
    except (ImageError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for phase in phases:
        _say(f"{phase}: {'passed' if found.get(phase) == 0 else 'FAILED'}")
    return int(any(found.get(phase) != 0 for phase in phases))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
