"""smcp among its peers, in one run on one machine: ``python -m contrib.bench.field``.

Installs every peer in the version that is named in `peers` into a private folder, starts each the way its own
documentation says in front of the same servers, in a network of its own, and measures all of them in turns. The table
shows medians and the whole spread; where there is no figure, a note says why.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contrib.bench.field import engine, readme, space
from contrib.bench.field.amount import FULL, QUICK, Amount
from contrib.bench.field.peers import EVERYTHING, PEERS, SERVERS, TINY_SERVER, Peer, Server
from contrib.bench.field.results import MEASURES, Row, from_plain, tables
from contrib.bench.field.trial import Found
from contrib.bench.figures import machine
from contrib.bench.place import ROOT
from contrib.matrix.peers import Kit
from supervisord_mcp import __version__

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = _CACHE / "smcp-field"
#: Seconds for one trial, whatever hangs in it.
TRIAL = 120.0

Tell = Callable[[str], None]


def install(kits: Sequence[Kit], place: Path, tell: Tell) -> dict[str, str]:
    """Install what is not there yet; return by name why something could not be."""

    def provide(kit: Kit) -> str:
        try:
            kit.provide(place)
        except (OSError, subprocess.SubprocessError) as error:
            said = str(getattr(error, "stderr", None) or error).strip().splitlines() or [""]
            return f"cannot be installed: {said[-1]}"
        return ""

    failed = {}
    # They mostly wait for the network.
    with ThreadPoolExecutor(max_workers=4) as pool:
        for kit, reason in zip(kits, pool.map(provide, kits), strict=True):
            tell(f"{' '.join(kit.packages)}: {reason or 'installed'}")
            if reason:
                failed[kit.name] = reason
    return failed


def run(peer: Peer, server: Server, place: Path, amount: Amount) -> Found:
    """Run one trial in a network of its own; return what it found, at least why it found nothing."""
    words = [peer.name, server.name, str(place), json.dumps(amount.plain())]
    command = space.apart([sys.executable, "-m", "contrib.bench.field.trial", *words])
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    trial = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    late = ""
    try:
        out, said = trial.communicate(timeout=TRIAL)
    except subprocess.TimeoutExpired:
        trial.terminate()  # which takes away what it has started
        out, said = trial.communicate()
        late = f"the trial took longer than {TRIAL:.0f} s"
    found: Found = json.loads(out.splitlines()[-1]) if out else {}
    mute = found.get("calls")
    if late or trial.returncode or isinstance(mute, dict):
        last = (said.strip().splitlines() or ["the trial ended without a word"])[-1]
        reason = late or (mute["reason"] if isinstance(mute, dict) else last)
        for missing in MEASURES if found else MEASURES[:1]:
            if not found.keys() & {*missing.part_of}:
                found.setdefault(missing.name, {"reason": reason})
    return found


def measure(peers: Sequence[Peer], place: Path, amount: Amount, tell: Tell) -> list[Row]:
    """Measure the peers in turns: in each round everybody once, and not always in the same order."""
    failed = install(list(dict.fromkeys([EVERYTHING, *(peer.kit for peer in peers if peer.kit)])), place, tell)
    missing = engine.lacking() if any(peer.contained for peer in peers) else ""
    rows = {
        (peer, server): Row(peer.shown, peer.version, server.name)
        for server in SERVERS.values()
        for peer in peers
        if server is TINY_SERVER or not peer.only_tiny
    }
    for (peer, server), row in rows.items():
        needs = [*([peer.kit] if peer.kit else []), *([EVERYTHING] if server.name == "everything" else [])]
        row.absent = next((failed[kit.name] for kit in needs if kit.name in failed), missing if peer.contained else "")
    keys = [key for key, row in rows.items() if not row.absent]
    start, longest = time.monotonic(), 0.0
    for number in range(amount.rounds):
        began = time.monotonic()
        if began - start + longest > amount.budget:
            tell(f"only {number} of {amount.rounds} rounds: another one would take too long")
            break
        first = number * len(keys) // amount.rounds
        for key in (*keys[first:], *keys[:first]):
            rows[key].trials.append(run(*key, place, amount))
            tell(
                f"round {number + 1} of {amount.rounds}, {time.monotonic() - start:.0f} s: {key[0].name}, {key[1].name}"
            )
        longest = max(longest, time.monotonic() - began)
    return list(rows.values())


def main(words: Sequence[str] | None = None) -> int:
    """Install, measure, print the table, write the file, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m contrib.bench.field", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short round, for a look; its figures are rough")
    parser.add_argument("--place", type=Path, default=PLACE, help=f"where the peers are installed (default: {PLACE})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where every value goes (default: in that folder)")
    parser.add_argument("--readme", action="store_true", help="put the headline table into the README")
    parser.add_argument("--last", action="store_true", help="measure nothing: show what the file has from the last run")
    parser.add_argument("names", nargs="*", metavar="PEER", help=f"who (default: all): {', '.join(_NAMES)}")
    options = parser.parse_args(words)
    if unknown := set(options.names) - set(_NAMES):
        parser.error(f"unknown peer: {', '.join(sorted(unknown))}")
    if options.names and options.readme:
        parser.error("--readme is about all peers, so name none")
    file = options.json or options.place / "field.json"
    if options.last and not file.is_file():
        parser.error(f"there is no last run: {file} is missing")
    if options.last:
        content = json.loads(file.read_text())
    else:
        peers = [peer for peer in PEERS if not options.names or peer.name in options.names]
        content = _content(peers, options.place, QUICK if options.quick else FULL)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    rows = from_plain(content["rows"])
    sys.stdout.write(f"{readme.described(content)}\n\n{tables(rows)}\n\nall values: {file}\n")
    if options.readme:
        readme.fill(ROOT / "README.md", content)
    return 0


_NAMES = [peer.name for peer in PEERS]


def _content(peers: Sequence[Peer], place: Path, amount: Amount) -> dict[str, Any]:
    before, began = machine() | {"node": _node()}, time.monotonic()
    rows = measure(peers, place, amount, _say)
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "machine": before,
        "seconds": round(time.monotonic() - began),
        "amount": amount.plain(),
        "rounds": max(len(row.trials) for row in rows),
        "rows": [row.plain() for row in rows],
    }


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _node() -> str:
    path = shutil.which("node")
    if path is None:
        return "none"
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=10)
    return done.stdout.strip().removeprefix("v")


if __name__ == "__main__":
    sys.exit(main())
