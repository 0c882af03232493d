"""Makes attempts, each in a process of its own: one that is killed, or hangs, takes no other with it.

`main` reads the facts of the machine as a line of JSON from stdin, for arguments are seen by everybody, and prints a
line of JSON for each attempt.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys

from supervisord_mcp.probes.inside import calls, files, leaks, processes, rights, sockets
from supervisord_mcp.probes.inside.trying import ATTEMPTS, AbsentError, Facts, KeptError

#: Importing them registers their attempts.
GROUPS = tuple(module.GROUP for module in (leaks, files, processes, sockets, calls, rights))
_SECONDS = 10


def _outcome(facts: Facts, name: str) -> dict[str, str]:
    """Return what came of an attempt, from a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(_SECONDS)
        os.write(writer, json.dumps(_tried(facts, name)).encode())
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    if said:
        found: dict[str, str] = json.loads(said)
        return found
    ended = f"killed by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended"
    return {"outcome": "denied", "detail": ended}


def _tried(facts: Facts, name: str) -> dict[str, str]:
    try:
        ATTEMPTS[name](facts)
    except AbsentError as why:
        return {"outcome": "absent", "detail": str(why)}
    except KeptError as why:
        return {"outcome": "denied", "detail": str(why)}
    except OSError as error:
        return {"outcome": "denied", "detail": errno.errorcode.get(error.errno or 0, str(error))}
    except Exception as error:  # noqa: BLE001 (whatever it was, it did not get what it wanted)
        return {"outcome": "denied", "detail": f"{type(error).__name__}: {error}"}
    return {"outcome": "open", "detail": ""}


def _descriptors() -> list[int]:
    """Return what is open beside the three standard descriptors, before anything else is."""
    found = []
    for number in range(3, 256):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found


def main() -> None:
    """Make the attempts that the facts name, and print what came of each."""
    inherited = _descriptors()
    facts = json.loads(sys.stdin.readline())
    facts["inherited"] = inherited
    facts["own_home"] = os.environ.get("HOME", "/")
    facts["own_temporary"] = os.environ.get("TMPDIR", "/tmp")
    for name in facts["attempts"]:
        sys.stdout.write(json.dumps({"attempt": name, **_outcome(facts, name)}) + "\n")
        sys.stdout.flush()
