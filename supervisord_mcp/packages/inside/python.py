"""Installs packages of Python into a volume.

This text is run by the Python of an image. It reads a question in JSON from stdin: ``place`` is an empty directory,
``requirements`` and ``options`` are words for pip, ``command`` is the program that is wanted. The last line of its
output is the answer: ``run``, the words that run the program, or ``missing``, the programs that there are instead, or
``failed``, the exit code of what failed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

#: What a virtual environment has by itself.
OWN = ("python", "pip", "activate", "Activate", "easy_install")


def _install(asked: dict[str, Any], venv: str) -> int:
    """Make a virtual environment and install into it, what is said going where errors go; return the exit code."""
    python = os.path.join(venv, "bin", "python")
    # With the pip of the image: to give the environment one of its own takes longer than all the rest.
    make = [sys.executable, "-m", "venv", "--without-pip", venv]
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--progress-bar", "off"]
    install += [*asked["options"], "--", *asked["requirements"]]
    for words in (make, install):
        code = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
        if code != 0:
            return code
    return 0


def _answer(asked: dict[str, Any]) -> dict[str, Any]:
    venv = os.path.join(asked["place"], "venv")
    if code := _install(asked, venv):
        return {"failed": code}
    programs = os.path.join(venv, "bin")
    program = os.path.join(programs, asked["command"])
    if os.path.isfile(program):
        return {"run": [program]}
    return {"missing": sorted(name for name in os.listdir(programs) if not name.startswith(OWN))}


def main() -> None:
    """Answer one question."""
    answer = _answer(json.load(sys.stdin))
    with open(1, "w", encoding="utf-8", closefd=False) as output:
        output.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
