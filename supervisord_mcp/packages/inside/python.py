"""Installs packages of Python into a volume.

This text is run by the Python of an image. It reads a question in JSON from stdin: ``place`` is an empty directory,
``requirements`` and ``options`` are words for pip, ``command`` is the program that is wanted. The last line of its
output is the answer: ``run``, the words that run the program, or ``missing``, the programs that there are instead.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys


def _run(*words: str) -> None:
    """Run a command, what it says going where errors go; end as it does where it fails."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main() -> None:
    """Answer one question."""
    asked = json.load(sys.stdin)
    venv = os.path.join(asked["place"], "venv")
    programs = os.path.join(venv, "bin")
    _run(sys.executable, "-m", "venv", venv)
    python = os.path.join(programs, "python")
    before = set(os.listdir(programs))
    _run(python, "-m", "pip", "install", "--progress-bar", "off", *asked["options"], "--", *asked["requirements"])
    program = os.path.join(programs, asked["command"])
    found = sorted(set(os.listdir(programs)) - before)
    answer = {"run": [program]} if os.path.isfile(program) else {"missing": found}
    with open(1, "w", encoding="utf-8", closefd=False) as output:
        output.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
