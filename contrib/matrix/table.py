"""The outcome as text: all of it for the terminal, and a table for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from contrib.matrix.pairs import Outcome
from contrib.matrix.peers import CHECKS, Host, Server

README = Path(__file__).parents[2] / "README.md"
BEGIN = "<!-- matrix: made by python -m contrib.matrix, do not edit by hand -->\n"
END = "<!-- end of matrix -->"

#: For each pair what happened through the daemon, and what happens without it.
Found = Mapping[tuple[Host, Server], tuple[Outcome, Outcome]]


def missing(through: Outcome, direct: Outcome) -> tuple[list[str], list[str]]:
    """Return the checks that fail through the daemon alone, and those that the two peers cannot do anyway."""
    failed = [name for name in CHECKS if through.checks.get(name)]
    never = [name for name in failed if direct.checks.get(name)]
    return [name for name in failed if name not in never], never


def report(found: Found) -> str:
    """Return everything, pair by pair."""
    lines = []
    for (host, server), (through, direct) in found.items():
        lines.append(f"{host.name} with {server.name}, revision {through.version or 'none'}")
        for name in CHECKS:
            if name in through.checks:
                text, without = through.checks[name], direct.checks.get(name)
                lines.append(f"  {name:14} {text or 'works'}" + (f" (without smcp: {without})" if without else ""))
    return "\n".join(lines) + "\n"


def table(found: Found, hosts: Sequence[Host], servers: Sequence[Server]) -> str:
    """Return the table of the README, with notes for what does not work."""
    notes: dict[str, int] = {}
    rows = [
        "| host \\ server | " + " | ".join(server.shown for server in servers) + " |",
        "|---" * (len(servers) + 1) + "|",
    ]
    rows += [
        f"| {host.shown} | " + " | ".join(_cell(*found[host, server], notes) for server in servers) + " |"
        for host in hosts
    ]
    rows += ["", *(f"{number}. {text}" for text, number in notes.items())]
    return "\n".join(rows).rstrip()


def _cell(through: Outcome, direct: Outcome, notes: dict[str, int]) -> str:
    failed, never = missing(through, direct)
    texts = [f"{name} does not work through smcp" for name in failed]
    texts += [f"{name} does not work without smcp either" for name in never]
    marks = [notes.setdefault(text, len(notes) + 1) for text in texts]
    done = len(through.checks) - len(failed) - len(never)
    shown = f"{done} of {len(through.checks)}"
    return shown + (f" <sup>{', '.join(map(str, sorted(marks)))}</sup>" if marks else "")


def with_table(readme: str, text: str) -> str:
    """Given the README and a table, return the README with that between its markers. Raise `ValueError` without."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("README.md has lost the markers of its matrix")
    return f"{before}{begin}\n{text}\n\n{end}{after}"
