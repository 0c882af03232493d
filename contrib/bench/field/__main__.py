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
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from contrib.bench.field import engine, readme, space
from contrib.bench.field.amount import FULL, QUICK, Amount
from contrib.bench.field.installing import install
from contrib.bench.field.peers import EVERYTHING, PEERS, SERVERS, TINY_SERVER, Peer, Server
from contrib.bench.field.results import MEASURES, Row, from_plain, tables
from contrib.bench.field.trial import Found
from contrib.bench.figures import machine
from contrib.bench.gather import INTERRUPTED
from contrib.bench.place import ROOT, BenchError
from supervisord_mcp import __version__

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
PLACE = _CACHE / "smcp-field"
#: Seconds for one trial, whatever hangs in it.
TRIAL = 120.0
#: Seconds that a trial has to take away what it has started.
_END = 30.0

Tell = Callable[[str], None]
Rows = dict[tuple[Peer, Server], Row]


def run(peer: Peer, server: Server, place: Path, amount: Amount) -> Found:
    """Run one trial in a network of its own; return what it found, at least why it found nothing."""
    words = [peer.name, server.name, str(place), json.dumps(amount.plain())]
    command = space.apart([sys.executable, "-m", "contrib.bench.field.trial", *words])
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    # A group of its own: what holds its network passes no signal on, so whoever ends the trial has to reach both.
    trial = subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    late = ""
    try:
        out, said = trial.communicate(timeout=TRIAL)
    except subprocess.TimeoutExpired:
        out, said = _ended(trial)
        late = f"the trial took longer than {TRIAL:.0f} s"
    except BaseException:
        _ended(trial)
        raise
    found: Found = json.loads(out.splitlines()[-1]) if out else {}
    mute = found.get("calls")
    if late or trial.returncode or isinstance(mute, dict):
        last = (said.strip().splitlines() or ["the trial ended without a word"])[-1]
        reason = late or (mute["reason"] if isinstance(mute, dict) else last)
        for missing in MEASURES if found else MEASURES[:1]:
            if not found.keys() & {*missing.part_of}:
                found.setdefault(missing.name, {"reason": reason})
    return found


def _ended(trial: subprocess.Popen[str]) -> tuple[str, str]:
    """End a trial, which takes away what it has started; return what it said."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(trial.pid, number)
        with suppress(subprocess.TimeoutExpired):
            return trial.communicate(timeout=_END)
    return "", ""


def measure(peers: Sequence[Peer], place: Path, amount: Amount, tell: Tell) -> tuple[list[Row], bool]:
    """Measure the peers in turns: in each round everybody once, and not always in the same order.

    Return the rows, and whether nobody interrupted it. Raise `BenchError` where no trial is possible at all.
    """
    start = time.monotonic()
    if lack := space.lacking():
        raise BenchError(f"no trial gets a network of its own on this machine: {lack}")
    failed = install(list(dict.fromkeys([EVERYTHING, *(peer.kit for peer in peers if peer.kit)])), place, tell)
    missing = engine.lacking() if any(peer.contained for peer in peers) else ""
    rows = {
        (peer, server): Row(peer.shown, peer.version, server.name, documented=peer.documented)
        for server in SERVERS.values()
        for peer in peers
        if server is TINY_SERVER or not peer.only_tiny
    }
    for (peer, server), row in rows.items():
        needs = [*([peer.kit] if peer.kit else []), *([EVERYTHING] if server.name == "everything" else [])]
        row.absent = next((failed[kit.name] for kit in needs if kit.name in failed), missing if peer.contained else "")
    whole = True
    try:
        _rounds({key: row for key, row in rows.items() if not row.absent}, place, amount, start, tell)
    except KeyboardInterrupt:
        tell("ended early: what was measured so far follows")
        whole = False
    for row in rows.values():
        if not row.trials and not row.absent:
            row.absent = "the time was over before" if whole else "it was ended before"
    return list(rows.values()), whole


def _rounds(rows: Rows, place: Path, amount: Amount, start: float, tell: Tell) -> None:
    """Add the trials of all rounds that fit into the time, which began at ``start``."""
    keys, longest = list(rows), 0.0
    for number in range(amount.rounds):
        began = time.monotonic()
        if number and began - start + longest > amount.budget:
            tell(f"only {number} of {amount.rounds} rounds: another one would take too long")
            return
        first = number * len(keys) // amount.rounds
        for key in (*keys[first:], *keys[:first]):
            if time.monotonic() - start > amount.budget:
                tell(f"round {number + 1} of {amount.rounds} ends early: the time is over")
                return
            rows[key].trials.append(run(*key, place, amount))
            tell(
                f"round {number + 1} of {amount.rounds}, {time.monotonic() - start:.0f} s: {key[0].name}, {key[1].name}"
            )
        longest = max(longest, time.monotonic() - began)


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
    file: Path = options.json or options.place / "field.json"
    if options.last and not file.is_file():
        parser.error(f"there is no last run: {file} is missing")
    try:
        if options.last:
            content, rest = json.loads(file.read_text()), 0
        else:
            _writable(file)
            peers = [peer for peer in PEERS if not options.names or peer.name in options.names]
            content = _content(peers, options.place, QUICK if options.quick else FULL)
            rest = 0 if content["whole"] else INTERRUPTED
        # First of all: what cannot be written is at least shown.
        file = file if content.get("whole", True) else file.with_suffix(".partial.json")
        _show(content, file)
        if not options.last:
            file.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        if options.readme and rest:
            _say("the README stays as it is")
        elif options.readme:
            readme.fill(ROOT / "README.md", content)
    except KeyboardInterrupt:
        _say("ended early: nothing was measured")
        return INTERRUPTED
    except (BenchError, OSError) as error:
        _say(f"the benchmark ends here: {error}")
        return 1
    return rest


def _writable(file: Path) -> None:
    """Raise `OSError` where the file cannot be written, which nobody wants to learn afterwards."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=file.parent):
        pass


def _show(content: Mapping[str, Any], file: Path) -> None:
    sys.stdout.write(f"{readme.described(content)}\n\n{tables(from_plain(content['rows']))}\n")
    if installed := content.get("installed"):
        sys.stdout.write(f"\ninstalled: {', '.join(installed)}\n")
    sys.stdout.write(f"\nall values: {file}\n")
    sys.stdout.flush()


_NAMES = [peer.name for peer in PEERS]


def _content(peers: Sequence[Peer], place: Path, amount: Amount) -> dict[str, Any]:
    before, began = machine() | {"node": _node()}, time.monotonic()
    rows, whole = measure(peers, place, amount, _say)
    kits = dict.fromkeys([EVERYTHING, *(peer.kit for peer in peers if peer.kit)])
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "version": __version__,
        "machine": before,
        "seconds": round(time.monotonic() - began),
        "amount": amount.plain(),
        "whole": whole,
        "installed": list(dict.fromkeys(package for kit in kits for package in kit.packages)),
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
    # Whoever ends it this way wants no other end: nothing left behind, and what was measured so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
