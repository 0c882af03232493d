"""Build the base images without a registry, from packages of Debian, and give them to an engine.

python -m contrib.images                     all of them, to Docker
python -m contrib.images python --to podman  one of them, to Podman
python -m contrib.images --to ./place        archives only
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from contrib.images.debian import PackageError
from contrib.images.layers import Builder, Image
from contrib.images.recipe import RecipeError

HERE = Path(__file__).parent


def main() -> int:
    """Build what is asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.images", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="the image; all of them where none is named")
    parser.add_argument("--to", default="docker", metavar="WHERE", help="docker, podman, or a directory")
    asked = parser.parse_args()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smcp" / "images"
    builder = Builder(cache, HERE)
    try:
        for name in asked.names or builder.names():
            sys.stdout.write(f"{_give(name, builder.build(name), asked.to)}\n")
    except (PackageError, RecipeError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{asked.to} did not take it: {error}\n")
        return 1
    return 0


def _give(name: str, image: Image, to: str) -> str:
    if to not in ("docker", "podman"):
        Path(to).mkdir(parents=True, exist_ok=True)
        return str(shutil.copy(image.archive, Path(to) / f"{name}.tar"))
    changes = [word for change in image.changes for word in ("--change", change)]
    subprocess.run([to, "import", *changes, str(image.archive), f"smcp/{name}"], check=True, stdout=subprocess.DEVNULL)
    return f"smcp/{name}"


if __name__ == "__main__":
    sys.exit(main())
